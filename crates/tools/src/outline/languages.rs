//! Which nodes of a grammar are symbols, language by language.
//!
//! What is in the body of a function is a symbol only if it is a function or a type; its variables
//! are nobody's concern outside.

pub(super) mod c;
pub(super) mod go;
pub(super) mod java;
pub(super) mod javascript;
pub(super) mod python;
pub(super) mod rust;
