//! Actors: which there are, and what their steps mean when a plan comes to them.
//!
//! [`ActorRegistry`] keeps what users define. [`render_step`] turns a step of a definition into the
//! call that is made, with the plan's arguments and what earlier steps answered. It calls nothing
//! and knows no sandbox. [`Inquiry`] asks an actor's model something outside any plan.

pub(crate) mod asking;
pub(crate) mod registry;
mod rendering;

pub use crate::definitions::filling::{FillError, StepOutputs};
pub use asking::{Inquiry, Reply, Unanswered, open_model};
pub use registry::{ActorRegistry, ActorRegistryError, Change, RegisteredActor, Removal, Update};
pub use rendering::{RenderedStep, RunIt, render_step};
