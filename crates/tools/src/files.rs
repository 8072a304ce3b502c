//! Tools for single files, one module each.

pub(crate) mod copy;
pub(crate) mod delete;
pub(crate) mod edit;
mod match_hints;
mod patch;
pub(crate) mod read;
pub(crate) mod relocate;
mod window;
pub(crate) mod write;
