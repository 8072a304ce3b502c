//! The domain model: entities, values and the legal moves of a plan.
//!
//! Pure values: no I/O, no async, no clock, no randomness, no knowledge of storage or terminals.
//! Start reading at [`lifecycle`] for the moves a plan may make and at [`event`] for what the
//! journal records.

pub mod lifecycle;

pub mod action;
pub mod actor;
pub mod apply_intent;
pub mod apply_record;
pub mod approval;
pub mod automation;
pub mod change;
pub mod changeset;
pub mod checkpoint;
pub mod conflict;
pub mod correction;
pub mod credential_file;
pub mod decision;
pub mod error_record;
pub mod invariant;
pub mod line_range;
pub mod message;
pub mod model;
pub mod model_call;
pub mod plan;
pub mod plan_trailer;
pub mod preflight;
pub mod process;
pub mod progress;
pub mod project;
pub mod provider;
pub mod rebase;
pub mod sandbox;
pub mod script;
pub mod secret_mask;
pub mod secret_name;
pub mod strategy;
pub mod tool;
pub mod tool_call;
pub mod tree;
pub mod trust;
pub mod validation;

pub mod event;
pub mod uncommitted;
pub mod upcast;

pub mod fraction;
pub mod id;
pub mod name;
mod percent;
mod schema;
pub mod text_enum;
pub mod time;

pub use action::{Action, ActionState, Actors, Argument, ArgumentType, Budget, Check};
pub use actor::{Actor, ActorKind, ActorStep, ActorType, BuiltInActor, LlmActor, ToolActor};
pub use automation::{
    AutomationProfile, BuiltInProfile, GateDecision, Guards, ProfileName, ThresholdName,
};
pub use change::{ChangeEntry, FileOperation, FileState, ResourcePath};
pub use correction::{Correction, CorrectionMode, CorrectionState};
pub use decision::{ContextSnapshot, Decision, DecisionEdge, DecisionType, NewDecision};
pub use error_record::{ErrorCategory, ErrorRecord, NewError, RecoveryAction, RequiredRollback};
pub use event::{
    ChainFault, Event, EventBody, EventKind, EventPayload, NewEvent, PayloadOutcome, StreamId,
};
pub use fraction::{Confidence, Threshold};
pub use invariant::{Invariant, InvariantScope, InvariantScopeKind, PlanInvariant};
pub use lifecycle::{
    IllegalMove, Move, MoveKind, Phase, PlanState, PointOfNoReturn, Position, PositionOutcome,
    PositionParts, WaitReason, WaitReasonKind,
};
pub use message::{MessageKind, PlanMessage};
pub use name::NamespacedName;
pub use plan::{BaseSource, BriefError, NewPlan, Plan, PlanBrief, PlanIdentity, PlanTimestamps};
pub use preflight::{PreflightCheck, PreflightFailure};
pub use project::{AbsolutePath, Project, Resource, ResourceType};
pub use time::Timestamp;
pub use tree::TreeId;
pub use trust::{Consent, RepositoryFile, TrustState};
pub use validation::{
    Attachment, AttachmentScope, Validation, ValidationMode, ValidationResult, ValidationSource,
    ValidationSummary,
};
