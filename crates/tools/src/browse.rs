//! Tools that read many files at once.

pub(crate) mod list;
pub(crate) mod search;
mod walk;
