//! Decisions: the choices of a plan, as a tree. Each stores the context it was made in.

use std::collections::{HashMap, HashSet, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::ResourcePath;
use crate::fraction::Confidence;
use crate::id::{DecisionId, PlanId};
use crate::lifecycle::Phase;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    pub decision_id: DecisionId,
    pub plan_id: PlanId,
    pub parent_decision_id: Option<DecisionId>,
    pub decision_type: DecisionType,
    /// The phase in which the plan was when this was decided. Changing the decision repeats the
    /// work from this phase on.
    #[serde(default = "earliest_phase")]
    pub phase: Phase,
    /// Position among the plan's decisions: 1, 2, 3 …
    pub sequence_number: i64,
    pub question: String,
    pub chosen_option: String,
    pub alternatives_considered: Vec<String>,
    pub confidence_score: Option<Confidence>,
    pub rationale: String,
    /// The actor's reasoning, unedited.
    pub actor_reasoning: Option<String>,
    pub context_snapshot: ContextSnapshot,
    pub is_correction: bool,
    pub is_superseded: bool,
    pub downstream_decision_ids: Vec<DecisionId>,
    pub downstream_plan_ids: Vec<PlanId>,
    pub artifacts_produced: Vec<ResourcePath>,
    pub created_at: Timestamp,
}

const fn earliest_phase() -> Phase {
    Phase::Strategize
}

/// A decision to be recorded.
#[derive(Debug, Clone)]
pub struct NewDecision {
    pub plan_id: PlanId,
    /// `None` only for the root.
    pub parent: Option<DecisionId>,
    pub decision_type: DecisionType,
    pub phase: Phase,
    pub question: String,
    pub chosen: String,
    pub rationale: String,
}

/// The actor's context, sufficient to make the decision again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ContextSnapshot {
    /// Hash of the context that the actor read.
    pub hash: String,
    /// Reference to the stored context.
    pub context_ref: Option<String>,
    pub resources: Vec<String>,
    /// Reference to the stored state of the actor.
    pub actor_state_ref: Option<String>,
}

text_enum! {
    /// The subject of a decision.
    DecisionType: "decision type" {
        /// The root of the tree: the task given to the plan.
        PromptDefinition = "prompt_definition",
        InvariantEnforced = "invariant_enforced",
        StrategyChoice = "strategy_choice",
        ResourceSelection = "resource_selection",
        SubplanSpawn = "subplan_spawn",
        SubplanParallelSpawn = "subplan_parallel_spawn",
        ImplementationChoice = "implementation_choice",
        ToolInvocation = "tool_invocation",
        ErrorRecovery = "error_recovery",
        ValidationResponse = "validation_response",
        UserIntervention = "user_intervention",
    }
}

impl DecisionType {
    /// Returns whether such a decision belongs to a strategy or to the work on it. Decisions of users,
    /// rules and errors outlive their strategy.
    pub const fn is_about_strategy(self) -> bool {
        match self {
            Self::StrategyChoice
            | Self::ResourceSelection
            | Self::SubplanSpawn
            | Self::SubplanParallelSpawn
            | Self::ImplementationChoice
            | Self::ToolInvocation
            | Self::ValidationResponse => true,
            Self::PromptDefinition
            | Self::InvariantEnforced
            | Self::ErrorRecovery
            | Self::UserIntervention => false,
        }
    }

    /// Returns the phases in which such a decision may be made.
    pub const fn phases(self) -> &'static [Phase] {
        match self {
            Self::PromptDefinition | Self::StrategyChoice => &[Phase::Strategize],
            Self::ResourceSelection | Self::SubplanSpawn | Self::SubplanParallelSpawn => {
                &[Phase::Strategize, Phase::Execute]
            }
            Self::ImplementationChoice | Self::ToolInvocation => &[Phase::Execute],
            Self::ValidationResponse => &[Phase::Execute, Phase::Apply],
            // Entering any phase reconciles invariants, and any phase can fail or be interrupted.
            Self::InvariantEnforced | Self::ErrorRecovery | Self::UserIntervention => Phase::ALL,
        }
    }
}

/// A decision that is not allowed at its place in the tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecisionError {
    #[error("a {0} decision needs a parent; only prompt_definition is a root")]
    ParentMissing(DecisionType),
    #[error("a prompt_definition decision is the root of its tree and has no parent")]
    RootWithParent,
    #[error("a decision cannot be its own parent")]
    OwnParent,
    #[error("a {decision_type} decision is not made in {phase}")]
    Phase {
        decision_type: DecisionType,
        phase: Phase,
    },
}

impl Decision {
    /// Creates a decision with only the choice filled in. The store assigns its sequence number.
    pub fn new(new: NewDecision, id: DecisionId, at: Timestamp) -> Self {
        Self {
            decision_id: id,
            plan_id: new.plan_id,
            parent_decision_id: new.parent,
            decision_type: new.decision_type,
            phase: new.phase,
            sequence_number: 0,
            question: new.question,
            chosen_option: new.chosen,
            alternatives_considered: Vec::new(),
            confidence_score: None,
            rationale: new.rationale,
            actor_reasoning: None,
            context_snapshot: ContextSnapshot::default(),
            is_correction: false,
            is_superseded: false,
            downstream_decision_ids: Vec::new(),
            downstream_plan_ids: Vec::new(),
            artifacts_produced: Vec::new(),
            created_at: at,
        }
    }

    /// Fails if this decision may not be recorded while its plan is in `phase`.
    pub fn validate(&self, phase: Phase) -> Result<(), DecisionError> {
        let decision_type = self.decision_type;
        if !decision_type.phases().contains(&phase) {
            return Err(DecisionError::Phase {
                decision_type,
                phase,
            });
        }
        match (decision_type, self.parent_decision_id) {
            (DecisionType::PromptDefinition, None) => Ok(()),
            (DecisionType::PromptDefinition, Some(_)) => Err(DecisionError::RootWithParent),
            (_, None) => Err(DecisionError::ParentMissing(decision_type)),
            (_, Some(parent)) if parent == self.decision_id => Err(DecisionError::OwnParent),
            (_, Some(_)) => Ok(()),
        }
    }
}

/// One decision influences another: it is the parent, or the other used its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct DecisionEdge {
    pub from: DecisionId,
    pub to: DecisionId,
}

/// Returns every decision that a correction of `target` affects, nearest first, starting with
/// `target`. Follows both children and influences. Visits each decision and each edge once, so
/// cycles terminate.
pub fn affected_by_correction(
    target: DecisionId,
    children: &[DecisionEdge],
    influences: &[DecisionEdge],
) -> Vec<DecisionId> {
    let mut leads_to: HashMap<DecisionId, Vec<DecisionId>> = HashMap::new();
    for edge in children.iter().chain(influences) {
        leads_to.entry(edge.from).or_default().push(edge.to);
    }
    let mut seen = HashSet::from([target]);
    let mut open = VecDeque::from([target]);
    let mut affected = Vec::new();
    while let Some(decision) = open.pop_front() {
        affected.push(decision);
        for next in leads_to.get(&decision).into_iter().flatten() {
            if seen.insert(*next) {
                open.push_back(*next);
            }
        }
    }
    affected
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use ulid::Ulid;

    use super::*;

    fn id(number: u128) -> DecisionId {
        DecisionId::new(Ulid(number))
    }

    fn edges(pairs: &[(u128, u128)]) -> Vec<DecisionEdge> {
        let edge = |(from, to): &(u128, u128)| DecisionEdge {
            from: id(*from),
            to: id(*to),
        };
        pairs.iter().map(edge).collect()
    }

    fn affected(
        target: u128,
        children: &[(u128, u128)],
        influences: &[(u128, u128)],
    ) -> Vec<DecisionId> {
        affected_by_correction(id(target), &edges(children), &edges(influences))
    }

    fn decision(decision_type: DecisionType, parent: Option<u128>) -> Decision {
        let new = NewDecision {
            plan_id: PlanId::new(Ulid(1)),
            parent: parent.map(id),
            decision_type,
            phase: decision_type.phases()[0],
            question: "What is the plan prompt?".to_owned(),
            chosen: "Raise coverage".to_owned(),
            rationale: String::new(),
        };
        Decision {
            confidence_score: Some(Confidence::ONE),
            ..Decision::new(new, id(7), Timestamp::default())
        }
    }

    #[test]
    fn only_the_root_has_no_parent() {
        for decision_type in DecisionType::ALL.iter().copied() {
            let phase = decision_type.phases()[0];
            let root = decision_type == DecisionType::PromptDefinition;
            let orphan = decision(decision_type, None).validate(phase);
            let child = decision(decision_type, Some(1)).validate(phase);
            assert_eq!(orphan.is_ok(), root, "{decision_type}");
            assert_eq!(child.is_ok(), !root, "{decision_type}");
        }
        assert_eq!(
            decision(DecisionType::StrategyChoice, Some(7)).validate(Phase::Strategize),
            Err(DecisionError::OwnParent)
        );
    }

    #[test]
    fn a_decision_is_refused_outside_its_phases() {
        for decision_type in DecisionType::ALL.iter().copied() {
            let parent = (decision_type != DecisionType::PromptDefinition).then_some(1);
            for phase in Phase::ALL.iter().copied() {
                let refused = decision(decision_type, parent).validate(phase).is_err();
                assert_eq!(refused, !decision_type.phases().contains(&phase));
            }
        }
        assert_eq!(
            decision(DecisionType::ToolInvocation, Some(1))
                .validate(Phase::Strategize)
                .unwrap_err()
                .to_string(),
            "a tool_invocation decision is not made in strategize"
        );
    }

    #[test]
    fn a_decision_reads_back() {
        let decision = decision(DecisionType::PromptDefinition, None);
        let json = serde_json::to_string(&decision).unwrap();
        assert_eq!(serde_json::from_str::<Decision>(&json).unwrap(), decision);
    }

    #[test]
    fn a_correction_affects_children_and_influenced_decisions() {
        let children = [(1, 2), (1, 3), (3, 4), (5, 6)];
        assert_eq!(affected(1, &children, &[]), [1, 2, 3, 4].map(id));
        assert_eq!(
            affected(3, &children, &[(4, 5)]),
            [3, 4, 5, 6].map(id),
            "the children of what is influenced are affected too"
        );
        assert_eq!(affected(6, &children, &[(4, 5)]), [6].map(id));
    }

    #[test]
    fn cycles_and_double_edges_count_once() {
        assert_eq!(
            affected(1, &[(1, 2), (2, 1), (1, 2)], &[(2, 2), (2, 3), (3, 1)]),
            [1, 2, 3].map(id)
        );
    }

    #[test]
    fn a_long_chain_with_many_edges_is_walked_quickly() {
        let chain: Vec<(u128, u128)> = (0..100_000).map(|number| (number, number + 1)).collect();
        let back: Vec<(u128, u128)> = (0..100_000).map(|number| (number, 0)).collect();
        assert_eq!(affected(0, &chain, &back).len(), 100_001);
    }

    proptest! {
        #[test]
        fn the_affected_set_is_closed_and_without_repeats(
            children in prop::collection::vec((0u128..12, 0u128..12), 0..20),
            influences in prop::collection::vec((0u128..12, 0u128..12), 0..20),
        ) {
            let found = affected(0, &children, &influences);
            let set: BTreeSet<_> = found.iter().copied().collect();
            prop_assert_eq!(set.len(), found.len());
            prop_assert!(set.contains(&id(0)));
            for (from, to) in children.iter().chain(&influences) {
                prop_assert!(!set.contains(&id(*from)) || set.contains(&id(*to)));
            }
        }
    }
}
