//! The list of kinds. Each has a text and a payload of the same name in [`payloads`].

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::payloads;
use super::reading::{PayloadError, PayloadOutcome};
use super::stored::Event;

/// The payload of one kind of event. Only the structs of [`payloads`] implement it, so a kind cannot
/// be written with the payload of another.
pub trait EventPayload: Serialize + DeserializeOwned + JsonSchema + sealed::Sealed {
    const KIND: EventKind;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! event_kinds {
    ($($variant:ident = $text:literal),+ $(,)?) => {
        /// The kind of an event. [`payloads`] has a struct of the same name for each.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($variant,)+
            /// A kind that this program does not write, stored verbatim. A newer program wrote it;
            /// readers skip it.
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

        /// The payload of an event, by kind.
        #[derive(Debug, Clone, PartialEq)]
        pub enum EventBody {
            $($variant(Box<payloads::$variant>),)+
        }

        impl EventBody {
            pub const fn kind(&self) -> EventKind {
                match self {
                    $(Self::$variant(_) => EventKind::$variant,)+
                }
            }

            pub(super) fn read(event: &Event) -> Result<PayloadOutcome<Self>, PayloadError> {
                Ok(match &event.kind {
                    $(EventKind::$variant => {
                        let outcome = event.read::<payloads::$variant>()?;
                        outcome.map(|payload| Self::$variant(Box::new(payload)))
                    })+
                    EventKind::Unknown(_) => PayloadOutcome::UnknownKind,
                })
            }
        }

        impl Serialize for EventBody {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(payload) => payload.serialize(serializer),)+
                }
            }
        }

        $(
            impl sealed::Sealed for payloads::$variant {}

            impl EventPayload for payloads::$variant {
                const KIND: EventKind = EventKind::$variant;
            }
        )+

        /// Returns the schema of each kind's payload.
        pub(super) fn payload_schemas(
            generator: &mut SchemaGenerator,
        ) -> Vec<(EventKind, Schema)> {
            vec![$((EventKind::$variant, generator.subschema_for::<payloads::$variant>())),+]
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
    PlanCorrected = "plan_corrected",
    PlanWaiting = "plan_waiting",
    PlanPrompted = "plan_prompted",
    PlanBudgetChanged = "plan_budget_changed",
    PlanDeleted = "plan_deleted",
    ActionCreated = "action_created",
    ActionUpdated = "action_updated",
    ActionArchived = "action_archived",
    ProjectCreated = "project_created",
    ProjectDeleted = "project_deleted",
    ResourceAdded = "resource_added",
    ResourceRemoved = "resource_removed",
    ResourceLinked = "resource_linked",
    ResourceUnlinked = "resource_unlinked",
    ProfileAdded = "profile_added",
    ProfileUpdated = "profile_updated",
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
    DecisionInfluenced = "decision_influenced",
    DecisionCorrected = "decision_corrected",
    DecisionSuperseded = "decision_superseded",
    DecisionReinstated = "decision_reinstated",
    CorrectionRequested = "correction_requested",
    CorrectionCompleted = "correction_completed",
    InvariantAdded = "invariant_added",
    InvariantRemoved = "invariant_removed",
    InvariantReconciled = "invariant_reconciled",
    InvariantEnforced = "invariant_enforced",
    ActorInvoked = "actor_invoked",
    ActorCompleted = "actor_completed",
    ActorErrored = "actor_errored",
    ModelAsked = "model_asked",
    ModelAnswered = "model_answered",
    ModelFailed = "model_failed",
    ModelInterrupted = "model_interrupted",
    InstructionsRead = "instructions_read",
    ConversationCompacted = "conversation_compacted",
    ToolInvoked = "tool_invoked",
    ToolCompleted = "tool_completed",
    ToolErrored = "tool_errored",
    ToolRefused = "tool_refused",
    ToolInterrupted = "tool_interrupted",
    ProcessStarted = "process_started",
    SandboxIntended = "sandbox_intended",
    SandboxStateChanged = "sandbox_state_changed",
    SandboxRemoved = "sandbox_removed",
    ChangesetStarted = "changeset_started",
    ChangesetClosed = "changeset_closed",
    ChangeRecorded = "change_recorded",
    CheckpointCreated = "checkpoint_created",
    CheckpointRestored = "checkpoint_restored",
    ExecuteRequested = "execute_requested",
    ResumeRequested = "resume_requested",
    StrategyStored = "strategy_stored",
    StrategyApproved = "strategy_approved",
    ValidationsCompleted = "validations_completed",
    ChangeRejected = "change_rejected",
    ApplyRequested = "apply_requested",
    ApplyIntended = "apply_intended",
    ApplyDecided = "apply_decided",
    ApplyStopped = "apply_stopped",
    ApplySettled = "apply_settled",
    // The text is stored.
    ApplyAborted = "apply_taken_back",
    PlanUnapplied = "plan_unapplied",
    PlanRebased = "plan_rebased",
    ErrorRecorded = "error_recorded",
    BudgetWarning = "budget_warning",
    BudgetExceeded = "budget_exceeded",
    MessageSent = "message_sent",
    MessageTaken = "message_taken",
    RunClaimed = "run_claimed",
    RunReleased = "run_released",
    RunEvicted = "run_evicted",
    PayloadPurged = "payload_purged",
    StoreInitialised = "store_initialised",
    BackupCreated = "backup_created",
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
}
