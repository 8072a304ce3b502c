//! Actors: which there are, and what their steps mean when a plan comes to them.
//!
//! [`ActorRegistry`] keeps what users define. [`render_step`] turns a step of a definition into the
//! call that is made, with the plan's arguments and what earlier steps answered. It calls nothing
//! and knows no sandbox. [`Inquiry`] asks an actor's model something outside any plan.

pub(crate) mod inquiry;
pub(crate) mod registry;
mod rendering;

pub use crate::definitions::interpolation::{FillError, StepOutputs};
pub use inquiry::{Inquiry, InquiryError, InquiryReply, open_model};
pub use registry::{
    ActorRegistry, ActorRegistryError, ActorRemovalMode, DuplicatePolicy, RegisteredActor,
    RegistryChange,
};
pub use rendering::{RenderedStep, StepAction, render_step};
