//! The payloads of events: one struct per kind, named like its kind.
//!
//! Journals are kept forever, so the JSON of a payload never changes. To change it, add a version:
//! see [`upcast`](crate::upcast).
//!
//! A key that only some writers of a kind write is an optional field, left out if it is `None`. A
//! key that is written as `null` is an optional field without that rule.

mod actor;
mod apply;
mod decision;
mod definition;
mod model;
mod plan;
mod project;
mod run;
mod sandbox;
mod store;
mod tool;

pub use actor::*;
pub use apply::*;
pub use decision::*;
pub use definition::*;
pub use model::*;
pub use plan::*;
pub use project::*;
pub use run::*;
pub use sandbox::*;
pub use store::*;
pub use tool::*;

use serde::{Deserialize, Deserializer};

/// Deserialises a key that may be absent or `null`, which are different: `Some(None)` is `null`.
fn nullable<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}
