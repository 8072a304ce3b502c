//! Plans: one file per verb, with the request and its answer. [`summary`] has what every answer about
//! a plan begins with.

pub mod artifacts;
pub mod checkpoints;
pub mod delete;
pub mod diff;
pub mod errors;
pub mod explain;
pub mod list;
pub mod log;
pub mod owner;
pub mod prompt;
pub mod purge;
pub mod reference;
pub mod sandbox;
pub mod status;
pub mod summary;
pub mod tree;
pub mod use_action;
pub mod verify;

pub use artifacts::PlanArtifacts;
pub use checkpoints::PlanCheckpoints;
pub use delete::PlanDelete;
pub use diff::PlanDiff;
pub use errors::PlanErrors;
pub use explain::PlanExplain;
pub use list::PlanList;
pub use log::PlanLog;
pub use owner::PlanOwner;
pub use prompt::PlanPrompt;
pub use purge::PlanPurge;
pub use reference::{DecisionReference, PlanReference};
pub use sandbox::PlanSandbox;
pub use status::PlanStatus;
pub use summary::PlanSummary;
pub use tree::PlanTree;
pub use use_action::PlanUse;
pub use verify::PlanVerify;
