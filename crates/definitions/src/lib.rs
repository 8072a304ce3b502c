//! Reads definitions, which users write in YAML, into domain values.
//!
//! A definition is bytes with a name for messages ([`DefinitionSource`]) and a lookup for `${VAR}`;
//! nothing here opens files or reads the environment. [`yaml`] parses the bytes into nodes with
//! positions, [`record`](mod@record) reads nodes into the wire types of [`action`], [`actor`],
//! [`validation`] and [`profile`], which convert to the domain. Every problem is reported, not only
//! the first. [`template`], [`interpolation`] and [`arguments`] are used later, when a definition
//! is used.

mod action;
mod actor;
mod profile;
mod providers;
mod script;
pub mod skill;
mod validation;

mod arguments;
mod built_in;
pub mod interpolation;
mod template;

mod conversion;
mod error;
mod nearest;
mod pattern;
mod price;
mod record;
mod version;
mod yaml;

#[cfg(test)]
mod schema;

pub use action::{ActionDraft, read_action};
pub use actor::read_actor;
pub use arguments::{GivenArgumentError, read_arguments};
pub use built_in::{built_in_do_action, built_in_models};
pub use error::{DefinitionError, DefinitionErrors};
pub use profile::read_profile;
pub use providers::read_models;
pub use script::read_script;
pub use template::{TemplateArguments, TemplateError, render};
pub use validation::read_validation;
pub use version::FORMAT_VERSION;
pub use yaml::{DefinitionSource, DefinitionVariables, SOURCE_MAXIMUM};
