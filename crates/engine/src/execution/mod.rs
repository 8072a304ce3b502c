//! Plans at work: what the owner of a plan does and records while it is carried out.
//!
//! [`context`] records changes. Whoever starts a changeset gets its handle, and a change is
//! recorded through a handle only: it cannot land in another's changeset, whoever started one
//! meanwhile (law 4).

pub mod context;

pub use context::{Changeset, ExecutionContext};
