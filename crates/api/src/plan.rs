//! Plans: one file per verb, with the request and its answer. [`summary`] has what every answer about
//! a plan begins with.

pub mod summary;
pub mod use_action;

pub use summary::PlanSummary;
pub use use_action::PlanUse;
