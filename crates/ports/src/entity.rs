//! The subject of a store error. Callers decide by these values; their texts are for
//! messages.

use std::fmt;

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Entity {
    Action,
    Actor,
    Apply,
    Attachment,
    AutomationProfile,
    Backup,
    /// A change of a file; its id is the path.
    Change,
    Changeset,
    ChangesetOfPlan,
    Checkpoint,
    CheckpointOfPlan,
    Correction,
    Decision,
    DecisionOfPlan,
    ErasableEvent,
    Invariant,
    JournalOfPlan,
    Message,
    ModelCall,
    Plan,
    Project,
    Resource,
    Sandbox,
    SandboxOfPlan,
    Strategy,
    StrategyOfPlan,
    ToolCall,
    Validation,
}

impl Entity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Actor => "actor",
            Self::Apply => "apply",
            Self::Attachment => "attachment",
            Self::AutomationProfile => "automation profile",
            Self::Backup => "backup",
            Self::Change => "the change of",
            Self::Changeset => "changeset",
            Self::ChangesetOfPlan => "changeset of this plan",
            Self::Checkpoint => "checkpoint",
            Self::CheckpointOfPlan => "checkpoint of this plan",
            Self::Correction => "correction",
            Self::Decision => "decision",
            Self::DecisionOfPlan => "decision of this plan",
            Self::ErasableEvent => "erasable event",
            Self::Invariant => "invariant",
            Self::JournalOfPlan => "journal of a plan",
            Self::Message => "message",
            Self::ModelCall => "model call",
            Self::Plan => "plan",
            Self::Project => "project",
            Self::Resource => "resource",
            Self::Sandbox => "sandbox",
            Self::SandboxOfPlan => "sandbox of this plan",
            Self::Strategy => "strategy",
            Self::StrategyOfPlan => "strategy of this plan",
            Self::ToolCall => "tool call",
            Self::Validation => "validation",
        }
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A value that only one record may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UniqueKey {
    Id(Entity),
    Name(Entity),
    ResourcePath,
    /// The name of a file to write.
    FileName,
    /// The text of an invariant in its scope.
    InvariantText,
    /// A validation with the same arguments, resource and scope.
    Attachment,
    /// The only use of a single-use action.
    SingleUse,
    /// The unfinished apply of a plan.
    UnfinishedApply,
    /// A plan's sandbox of a resource.
    SandboxOfResource,
}

impl fmt::Display for UniqueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(entity) => write!(f, "the {entity} id"),
            Self::Name(Entity::AutomationProfile) => f.write_str("the profile name"),
            Self::Name(entity) => write!(f, "the {entity} name"),
            Self::ResourcePath => f.write_str("the path"),
            Self::FileName => f.write_str("the file name"),
            Self::InvariantText => f.write_str("the invariant"),
            Self::Attachment => f.write_str("the place of the validation"),
            Self::SingleUse => f.write_str("the single-use action"),
            Self::UnfinishedApply => f.write_str("the unfinished apply of plan"),
            Self::SandboxOfResource => f.write_str("the plan's sandbox of resource"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::StoreError;

    use super::*;

    #[test]
    fn errors_name_their_entity() {
        let name = || "x".to_owned();
        let taken = |key| StoreError::Taken {
            key,
            name: name(),
            holder: "y".to_owned(),
        };
        let errors = [
            (
                taken(UniqueKey::Name(Entity::AutomationProfile)),
                "the profile name `x` is taken by y",
            ),
            (
                taken(UniqueKey::Id(Entity::ModelCall)),
                "the model call id `x` is taken by y",
            ),
            (
                taken(UniqueKey::SingleUse),
                "the single-use action `x` is taken by y",
            ),
            (
                StoreError::Referenced {
                    entity: Entity::Resource,
                    name: name(),
                    referrers: vec!["a".to_owned(), "b".to_owned()],
                },
                "the resource `x` is taken by a, b",
            ),
            (
                StoreError::NotFound {
                    entity: Entity::StrategyOfPlan,
                    id: name(),
                },
                "there is no strategy of this plan `x`",
            ),
            (
                StoreError::Refused {
                    entity: Entity::Change,
                    id: name(),
                    reason: "must keep its path".to_owned(),
                },
                "the change of `x` must keep its path",
            ),
        ];
        for (error, text) in errors {
            assert_eq!(error.to_string(), text);
        }
    }
}
