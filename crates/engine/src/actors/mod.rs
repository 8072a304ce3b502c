//! Actors: what their steps mean when a plan comes to them.
//!
//! [`render_step`] turns a step of a definition into the call that is made, with the plan's
//! arguments and what earlier steps answered. It calls nothing and knows no sandbox.

mod rendering;

pub use crate::definitions::filling::{FillError, StepOutputs};
pub use rendering::{RenderedStep, RunIt, render_step};
