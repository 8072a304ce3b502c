//! Which nodes of a grammar are symbols, per language.
//!
//! In the body of a function only functions and types are symbols. Local variables are not.

pub(super) mod c;
pub(super) mod go;
pub(super) mod java;
pub(super) mod javascript;
pub(super) mod python;
pub(super) mod rust;
