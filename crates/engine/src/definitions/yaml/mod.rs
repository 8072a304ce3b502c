//! YAML as a tree of nodes that know where they stand in their source.
//!
//! [`source`] takes bytes and refuses what no definition may be; [`parse`](mod@parse) builds the
//! tree from the parser's events; [`substitute`] fills in `${VAR}`, scalar by scalar and after
//! parsing, so that no value can change the structure of a document. What the tree means is not
//! known here.

mod node;
mod parse;
mod source;
mod substitute;

pub(super) use node::{ResolvedScalar, YamlEntry, YamlKind, YamlNode, YamlScalar};
pub(super) use substitute::escape;

pub use source::{DefinitionSource, SOURCE_MAXIMUM};
pub use substitute::DefinitionVariables;
