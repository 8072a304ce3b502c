//! Actors: which exist, and how their steps are rendered for a plan.
//!
//! [`ActorRegistry`] stores actors defined by users. [`render_step`] turns a step of a definition
//! into a call, with the plan's arguments and the outputs of earlier steps. It makes no calls and
//! knows no sandbox. [`Inquiry`] prompts an actor's model outside any plan.

pub(crate) mod inquiry;
pub(crate) mod registry;
mod rendering;

pub use cleveragents_definitions::interpolation::{FillError, StepOutputs};
pub use inquiry::{Inquiry, InquiryError, InquiryReply, OpenModelError, open_model};
pub use registry::{
    ActorRegistry, ActorRegistryError, ActorRemovalMode, DuplicatePolicy, RegisteredActor,
    RegistryChange,
};
pub use rendering::{RenderedStep, StepAction, render_step};
