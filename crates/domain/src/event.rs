//! The journal's events: what happened, in which stream, at which place in it.
//!
//! Each stream is numbered without gaps and chained by hashes. A kind carries a version; payloads
//! written by an older version are brought up to date on reading in [`upcast`](crate::upcast).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::id::{IdError, PlanId};
use crate::time::Timestamp;

/// Whose events these are: one plan's, or the installation's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamId {
    System,
    Plan(PlanId),
}

const SYSTEM: &str = "system";

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str(SYSTEM),
            Self::Plan(plan) => plan.fmt(f),
        }
    }
}

impl FromStr for StreamId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if text == SYSTEM {
            Ok(Self::System)
        } else {
            text.parse().map(Self::Plan)
        }
    }
}

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)?) => {
        /// What happened. Written by this program, or by a newer one (`Unknown`): readers pass
        /// over what they do not know.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($(#[$doc])* $variant,)+
            /// A kind of a newer program, kept as it was written.
            Unknown(String),
        }

        impl EventKind {
            /// Every kind this program writes.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$variant),+];

            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Unknown(text) => text,
                }
            }
        }

        impl From<&str> for EventKind {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Unknown(other.to_owned()),
                }
            }
        }
    };
}

event_kinds! {
    PlanCreated = "plan_created",
    PlanPhaseChanged = "plan_phase_changed",
    PlanStateChanged = "plan_state_changed",
    PlanApplied = "plan_applied",
    PlanCancelled = "plan_cancelled",
    PlanErrored = "plan_errored",
    PlanReverted = "plan_reverted",
    /// A plan went back to be worked on again, because a decision was corrected.
    PlanCorrected = "plan_corrected",
    PlanWaiting = "plan_waiting",
    PlanPrompted = "plan_prompted",
    /// A human gave a plan another budget.
    PlanBudgetChanged = "plan_budget_changed",
    /// A plan's rows were removed; its journal stays.
    PlanDeleted = "plan_deleted",
    ActionCreated = "action_created",
    ActionUpdated = "action_updated",
    ActionArchived = "action_archived",
    ProjectCreated = "project_created",
    ProjectUpdated = "project_updated",
    ProjectDeleted = "project_deleted",
    ResourceAdded = "resource_added",
    ResourceRemoved = "resource_removed",
    ResourceLinked = "resource_linked",
    ResourceUnlinked = "resource_unlinked",
    ProfileAdded = "profile_added",
    ProfileUpdated = "profile_updated",
    /// The user consented to use a file of a repository with this content.
    RepositoryFileTrusted = "repository_file_trusted",
    ActorAdded = "actor_added",
    ActorUpdated = "actor_updated",
    ActorRemoved = "actor_removed",
    ValidationAdded = "validation_added",
    ValidationUpdated = "validation_updated",
    ValidationRemoved = "validation_removed",
    /// A validation was bound to a resource.
    ValidationAttached = "validation_attached",
    ValidationDetached = "validation_detached",
    DecisionCreated = "decision_created",
    /// One decision was found to have used the outcome of another.
    DecisionInfluenced = "decision_influenced",
    DecisionApproved = "decision_approved",
    DecisionCorrected = "decision_corrected",
    DecisionSuperseded = "decision_superseded",
    /// Going back was undone, and decisions that it had superseded stand again.
    DecisionReinstated = "decision_reinstated",
    CorrectionRequested = "correction_requested",
    CorrectionCompleted = "correction_completed",
    CorrectionFailed = "correction_failed",
    InvariantAdded = "invariant_added",
    InvariantRemoved = "invariant_removed",
    InvariantReconciled = "invariant_reconciled",
    InvariantViolated = "invariant_violated",
    InvariantEnforced = "invariant_enforced",
    ActorInvoked = "actor_invoked",
    ActorCompleted = "actor_completed",
    ActorErrored = "actor_errored",
    /// A model is asked; what it may cost is reserved.
    ModelAsked = "model_asked",
    ModelAnswered = "model_answered",
    ModelFailed = "model_failed",
    /// A dead owner had asked a model; what was reserved counts as used up.
    ModelInterrupted = "model_interrupted",
    /// What a resource itself says to actors was read.
    InstructionsRead = "instructions_read",
    /// The old turns of a conversation were replaced by a summary.
    ConversationCompacted = "conversation_compacted",
    ToolInvoked = "tool_invoked",
    ToolCompleted = "tool_completed",
    ToolErrored = "tool_errored",
    /// A guard, a flag or a schema did not let a call through.
    ToolRefused = "tool_refused",
    /// A call that a dead owner had begun was undone.
    ToolInterrupted = "tool_interrupted",
    /// A tool started a process; it does nothing before this is on record.
    ProcessStarted = "process_started",
    /// A sandbox is meant to be made.
    SandboxIntended = "sandbox_intended",
    SandboxStateChanged = "sandbox_state_changed",
    /// A sandbox's folder was removed.
    SandboxRemoved = "sandbox_removed",
    ChangesetStarted = "changeset_started",
    ChangesetClosed = "changeset_closed",
    ChangeRecorded = "change_recorded",
    CheckpointCreated = "checkpoint_created",
    /// A plan's sandboxes were set back to a checkpoint.
    CheckpointRestored = "checkpoint_restored",
    /// A human said that the plan should go on.
    ExecuteRequested = "execute_requested",
    /// A human said that the plan should go on as far as it may.
    ResumeRequested = "resume_requested",
    StrategyStored = "strategy_stored",
    StrategyApproved = "strategy_approved",
    ValidationsCompleted = "validations_completed",
    /// Parts of the result were taken out by a human.
    ChangeRejected = "change_rejected",
    /// A human said that the plan's changes should go where they belong.
    ApplyRequested = "apply_requested",
    ApplyIntended = "apply_intended",
    /// All targets are ready: from here on an apply only goes forward.
    ApplyDecided = "apply_decided",
    /// An apply ended without all of its targets changed.
    ApplyStopped = "apply_stopped",
    /// A human took what stands for what was meant.
    ApplySettled = "apply_settled",
    /// An apply that was not decided was taken back.
    ApplyTakenBack = "apply_taken_back",
    PlanUnapplied = "plan_unapplied",
    /// A plan's sandboxes were moved onto the current commits of its targets.
    PlanRebased = "plan_rebased",
    ErrorRecorded = "error_recorded",
    BudgetWarning = "budget_warning",
    BudgetExceeded = "budget_exceeded",
    /// Somebody has a word for the owner of a plan.
    MessageSent = "message_sent",
    /// The owner of a plan took the messages that were there for it.
    MessageTaken = "message_taken",
    /// A process took a plan's run.
    RunClaimed = "run_claimed",
    /// A process gave a plan's run back.
    RunReleased = "run_released",
    /// A command moved the plan past an owner that was dead or whose lease had run out.
    RunEvicted = "run_evicted",
    /// Payloads of this stream were erased on request; names the erased places.
    PayloadPurged = "payload_purged",
    /// The data directory or database was set up.
    StoreInitialised = "store_initialised",
    /// A backup was written.
    BackupCreated = "backup_created",
    /// The contents came from a backup.
    BackupRestored = "backup_restored",
    /// Rubbish was collected.
    GarbageCollected = "garbage_collected",
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for EventKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::from(text.as_str()))
    }
}

/// An event to be appended; its place, time and hashes are given by the store.
#[derive(Debug, Clone)]
pub struct NewEvent {
    pub kind: EventKind,
    pub actor: String,
    pub payload: Box<RawValue>,
}

impl NewEvent {
    /// An event with `payload` as its JSON body.
    pub fn new(
        kind: EventKind,
        actor: impl Into<String>,
        payload: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            kind,
            actor: actor.into(),
            payload: serde_json::value::to_raw_value(payload)?,
        })
    }
}

/// An event as it stands in the journal.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// Increases over all streams; may have gaps.
    pub seq: i64,
    pub stream: StreamId,
    /// Place in its stream: 1, 2, 3 … without gaps. Shown as `plan_seq`.
    #[serde(rename = "plan_seq")]
    pub stream_seq: i64,
    pub kind: EventKind,
    /// Version of the kind's payload.
    pub v: i64,
    pub at: Timestamp,
    pub actor: String,
    /// `None` once purged.
    pub payload: Option<Box<RawValue>>,
    pub payload_hash: String,
    pub prev_hash: String,
    pub hash: String,
}

impl Serialize for StreamId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StreamId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_and_is_lower_snake_case() {
        for kind in EventKind::ALL {
            assert_eq!(&EventKind::from(kind.as_str()), kind);
            let snake = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(kind.as_str().chars().all(snake), "{kind}");
        }
    }

    #[test]
    fn an_unknown_kind_is_preserved() {
        let kind = EventKind::from("tea_brewed");
        assert_eq!(kind, EventKind::Unknown("tea_brewed".to_owned()));
        assert_eq!(kind.as_str(), "tea_brewed");
    }

    #[test]
    fn a_stream_is_a_plan_or_the_system() {
        let plan = "01JZZZZZZZ0000000000ABCDEF";
        assert_eq!("system".parse(), Ok(StreamId::System));
        assert_eq!(plan.parse::<StreamId>().unwrap().to_string(), plan);
        assert!("nonsense".parse::<StreamId>().is_err());
    }
}
