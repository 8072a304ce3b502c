//! Tools for whole folders.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod inventory;
