//! YAML as a tree of nodes with source positions.
//!
//! [`source`] takes bytes and refuses those that no definition may contain. [`parse`](mod@parse)
//! builds the tree from the parser's events. [`substitute`] fills in `${VAR}` per scalar and after
//! parsing, so that no value can change the structure of a document. The meaning of the tree is not
//! known here.

mod node;
mod parse;
mod source;
mod substitute;

pub(super) use node::{ResolvedScalar, YamlEntry, YamlKind, YamlNode, YamlScalar};
pub(super) use substitute::escape;

pub use source::{DefinitionSource, SOURCE_MAXIMUM};
pub use substitute::DefinitionVariables;
