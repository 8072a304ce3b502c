//! The journal's events: what happened, in which stream, at which position.
//!
//! Each stream is numbered without gaps and chained by hashes. A kind has a version; payloads of
//! older versions are converted on reading by [`upcast`](crate::upcast).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::id::{IdError, PlanId};
use crate::time::Timestamp;

/// The stream an event belongs to: one plan's, or the installation's own.
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
        /// The kind of an event. `Unknown` is a kind written by a newer program; readers skip it.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($(#[$doc])* $variant,)+
            /// A kind of a newer program, stored verbatim.
            Unknown(String),
        }

        impl EventKind {
            /// Every kind that this program writes.
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
    /// The plan went back to an earlier phase because a decision was corrected.
    PlanCorrected = "plan_corrected",
    PlanWaiting = "plan_waiting",
    PlanPrompted = "plan_prompted",
    /// The user changed the plan's budget.
    PlanBudgetChanged = "plan_budget_changed",
    /// The plan's rows were removed; its journal stays.
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
    /// The user consented to use a repository file with this content.
    RepositoryFileTrusted = "repository_file_trusted",
    ActorAdded = "actor_added",
    ActorUpdated = "actor_updated",
    ActorRemoved = "actor_removed",
    ValidationAdded = "validation_added",
    ValidationUpdated = "validation_updated",
    ValidationRemoved = "validation_removed",
    ValidationAttached = "validation_attached",
    ValidationDetached = "validation_detached",
    DecisionCreated = "decision_created",
    /// One decision was found to use the outcome of another.
    DecisionInfluenced = "decision_influenced",
    DecisionApproved = "decision_approved",
    DecisionCorrected = "decision_corrected",
    DecisionSuperseded = "decision_superseded",
    /// A rollback was undone, which reinstated the decisions it had superseded.
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
    /// A model request was started and its maximum cost reserved.
    ModelAsked = "model_asked",
    ModelAnswered = "model_answered",
    ModelFailed = "model_failed",
    /// The owner died during a model request; the reserved cost counts as spent.
    ModelInterrupted = "model_interrupted",
    /// The instructions that a resource has for actors were read.
    InstructionsRead = "instructions_read",
    /// Old turns of a conversation were replaced by a summary.
    ConversationCompacted = "conversation_compacted",
    ToolInvoked = "tool_invoked",
    ToolCompleted = "tool_completed",
    ToolErrored = "tool_errored",
    /// A guard, a flag or a schema refused a tool call.
    ToolRefused = "tool_refused",
    /// A tool call of a dead owner was rolled back.
    ToolInterrupted = "tool_interrupted",
    /// A tool started a process. The process does nothing before this event is committed.
    ProcessStarted = "process_started",
    /// A sandbox is about to be created.
    SandboxIntended = "sandbox_intended",
    SandboxStateChanged = "sandbox_state_changed",
    /// The folder of a sandbox was removed.
    SandboxRemoved = "sandbox_removed",
    ChangesetStarted = "changeset_started",
    ChangesetClosed = "changeset_closed",
    ChangeRecorded = "change_recorded",
    CheckpointCreated = "checkpoint_created",
    /// A plan's sandboxes were rolled back to a checkpoint.
    CheckpointRestored = "checkpoint_restored",
    /// The user requested that the plan runs.
    ExecuteRequested = "execute_requested",
    /// The user requested that the plan runs as far as it may.
    ResumeRequested = "resume_requested",
    StrategyStored = "strategy_stored",
    StrategyApproved = "strategy_approved",
    ValidationsCompleted = "validations_completed",
    /// The user removed parts of the result.
    ChangeRejected = "change_rejected",
    /// The user requested that the plan's changes are applied.
    ApplyRequested = "apply_requested",
    ApplyIntended = "apply_intended",
    /// All targets are ready. From here on, the apply can only go forward.
    ApplyDecided = "apply_decided",
    /// An apply ended before all of its targets were changed.
    ApplyStopped = "apply_stopped",
    /// The user accepted the current state of the targets as the result.
    ApplySettled = "apply_settled",
    /// An undecided apply was aborted.
    ApplyAborted = "apply_taken_back",
    PlanUnapplied = "plan_unapplied",
    /// The plan's sandboxes were rebased onto the current commits of their targets.
    PlanRebased = "plan_rebased",
    ErrorRecorded = "error_recorded",
    BudgetWarning = "budget_warning",
    BudgetExceeded = "budget_exceeded",
    /// A message was sent to the owner of a plan.
    MessageSent = "message_sent",
    /// The owner of a plan received its pending messages.
    MessageTaken = "message_taken",
    /// A process claimed a plan's run.
    RunClaimed = "run_claimed",
    /// A process released a plan's run.
    RunReleased = "run_released",
    /// A command moved the plan although it had an owner, because that owner was dead or its lease
    /// had expired.
    RunEvicted = "run_evicted",
    /// Payloads of this stream were erased on request. The payload names the erased positions.
    PayloadPurged = "payload_purged",
    /// The data directory or database was initialised.
    StoreInitialised = "store_initialised",
    BackupCreated = "backup_created",
    /// The contents were restored from a backup.
    BackupRestored = "backup_restored",
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

/// An event to be appended. The store assigns its position, time and hashes.
#[derive(Debug, Clone)]
pub struct NewEvent {
    pub kind: EventKind,
    pub actor: String,
    pub payload: Box<RawValue>,
}

impl NewEvent {
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

/// An event stored in the journal.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// Increases over all streams; may have gaps.
    pub seq: i64,
    pub stream: StreamId,
    /// Position in the stream: 1, 2, 3 … without gaps. Shown as `plan_seq`.
    #[serde(rename = "plan_seq")]
    pub stream_seq: i64,
    pub kind: EventKind,
    /// The version of the kind's payload.
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
