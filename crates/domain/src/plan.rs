//! Plans: one use of an action on projects.
//!
//! A [`Plan`] is a value. A move returns a changed copy, which takes effect only when the store has
//! written it (law 1). The store rejects the write if the version it was read with is no longer the
//! newest.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::argument::is_argument_name;
use crate::action::{
    ActionError, Actors, Budget, Check, DESCRIPTION_MAXIMUM, TEXT_MAXIMUM, check_length,
    check_required,
};
use crate::apply_record::Destination;
use crate::approval::PendingApprovals;
use crate::automation::{AutomationProfile, ProfileSource};
use crate::id::{CheckpointId, DecisionId, PlanId};
use crate::invariant::PlanInvariant;
use crate::lifecycle::{
    IllegalMove, ImpossiblePosition, Move, Phase, PlanState, PointOfNoReturn, Position,
    PositionParts, WaitReason,
};
use crate::name::NamespacedName;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

/// One use of an action, with its position in the lifecycle and its progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "PlanRecord", into = "PlanRecord")]
pub struct Plan {
    pub identity: PlanIdentity,
    /// `<namespace>/<action name>-<last 8 characters of the id>`.
    pub name: NamespacedName,
    pub brief: PlanBrief,
    pub position: Position,
    /// Starts at 1; each correction increments it.
    pub attempt: u32,
    pub decision_root_id: Option<DecisionId>,
    /// Counted from 1; `None` before the first step completes.
    pub last_completed_step: Option<u32>,
    pub last_checkpoint_id: Option<CheckpointId>,
    /// Reason for the state `errored`, `constrained` or `cancelled`.
    pub error_message: Option<String>,
    pub approvals: PendingApprovals,
    /// Where the user last wanted the changes to be applied; `None` if they did not say. Unlike an
    /// approval it stays when the plan stops, so that what continues it goes to the same target.
    pub destination: Option<Destination>,
    pub timestamps: PlanTimestamps,
    /// Assigned by the store and checked on every update.
    pub version: i64,
}

/// The ids of a plan, its parent and its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanIdentity {
    pub plan_id: PlanId,
    pub parent_plan_id: Option<PlanId>,
    /// The plan's own id if it has no parent.
    pub root_plan_id: PlanId,
}

/// The task of a plan, frozen when the plan is created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanBrief {
    pub action_name: NamespacedName,
    pub description: String,
    pub projects: Vec<NamespacedName>,
    pub arguments: BTreeMap<String, Value>,
    /// The whole profile, including its name, as it was at `plan use`.
    pub automation_profile: AutomationProfile,
    pub automation_source: ProfileSource,
    pub actors: Actors,
    pub invariants: Vec<PlanInvariant>,
    pub read_only: bool,
    pub definition_of_done: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub long_description: Option<String>,
    /// The commands that gate, with their templates rendered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub checks: Vec<Check>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: Budget,
    #[serde(default, skip_serializing_if = "is_default")]
    pub skills: Vec<NamespacedName>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub base: BaseSource,
}

/// Default values are not serialised, so plans written by older programs are written back
/// unchanged.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

text_enum! {
    /// The initial contents of a plan's sandboxes.
    #[derive(Default)]
    BaseSource: "base" {
        /// The last commit, without uncommitted files.
        #[default]
        Head = "head",
        /// The files of the working tree.
        Worktree = "worktree",
    }
}

/// Error of an invalid brief.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BriefError {
    #[error(transparent)]
    Text(#[from] ActionError),
    #[error("`{name}` cannot be the name of an argument")]
    ArgumentName { name: String },
    #[error("a plan needs at least one project")]
    NoProject,
}

impl PlanBrief {
    /// Returns the name of a plan before its id is added: that of its action, or the first words of
    /// the task if the action is the one for any task.
    fn plan_name(&self) -> NamespacedName {
        let is_any_task = self.action_name == NamespacedName::built_in(ANY_TASK_ACTION);
        let words = is_any_task.then(|| NamespacedName::from_words(&self.description));
        words.flatten().unwrap_or_else(|| self.action_name.clone())
    }

    /// Returns every problem of the brief itself: problems in the rendered texts, and values that
    /// an older or foreign program may have written.
    pub fn problems(&self) -> Vec<BriefError> {
        let required = [
            ("description", &self.description, DESCRIPTION_MAXIMUM),
            ("definition_of_done", &self.definition_of_done, TEXT_MAXIMUM),
        ];
        let invariants = self.invariants.iter();
        let invariants = invariants.map(|one| ("invariants", &one.text, TEXT_MAXIMUM));
        let long = self.long_description.iter();
        let texts = required
            .into_iter()
            .chain(invariants)
            .map(|(field, text, maximum)| check_required(field, text, maximum))
            .chain(long.map(|text| check_length("long_description", text, TEXT_MAXIMUM)))
            .chain(self.checks.iter().map(Check::validate))
            .chain([self.budget.validate()]);
        let mut problems: Vec<BriefError> = texts
            .filter_map(|found| Some(found.err()?.into()))
            .collect();
        let names = self.arguments.keys().filter(|name| !is_argument_name(name));
        problems.extend(names.cloned().map(|name| BriefError::ArgumentName { name }));
        if self.projects.is_empty() {
            problems.push(BriefError::NoProject);
        }
        problems
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanTimestamps {
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The first start of each phase since the plan last entered `strategize`.
    pub strategize_started_at: Option<Timestamp>,
    pub execute_started_at: Option<Timestamp>,
    pub apply_started_at: Option<Timestamp>,
    /// When the plan became `applied` or `cancelled`.
    pub finished_at: Option<Timestamp>,
}

/// The built-in action that does what the user wrote.
pub const ANY_TASK_ACTION: &str = "do";

#[derive(Debug, Clone, PartialEq)]
pub struct NewPlan {
    pub brief: PlanBrief,
    pub parent: Option<PlanIdentity>,
}

impl Plan {
    pub fn new(new: NewPlan, id: PlanId, at: Timestamp) -> Self {
        Self {
            identity: PlanIdentity {
                plan_id: id,
                parent_plan_id: new.parent.map(|parent| parent.plan_id),
                root_plan_id: new.parent.map_or(id, |parent| parent.root_plan_id),
            },
            name: new.brief.plan_name().with_id(&id.short()),
            brief: new.brief,
            position: Position::new(),
            attempt: 1,
            decision_root_id: None,
            last_completed_step: None,
            last_checkpoint_id: None,
            error_message: None,
            approvals: PendingApprovals::default(),
            destination: None,
            timestamps: PlanTimestamps::new(at),
            version: 1,
        }
    }

    /// Returns the approvals after `requested`. An apply that failed past the point of no return has
    /// stopped at a conflict, which the user has to see before it goes on.
    fn approvals_after(&self, requested: Move) -> PendingApprovals {
        let is_decided = self.position.point_of_no_return() == PointOfNoReturn::Passed;
        if requested == Move::Fail && is_decided {
            return PendingApprovals::default();
        }
        self.approvals.after(requested)
    }

    /// Returns this plan after `requested`. The version is unchanged; the store increments it.
    pub fn make_move(&self, requested: Move, at: Timestamp) -> Result<Self, IllegalMove> {
        let position = self.position.after(requested)?;
        let mut plan = Self {
            position,
            approvals: self.approvals_after(requested),
            timestamps: self.timestamps.after(requested, position, at),
            ..self.clone()
        };
        match requested {
            Move::Retry => plan.error_message = None,
            Move::Revert => {
                plan.error_message = None;
                // The completed steps belong to the abandoned strategy.
                plan.last_completed_step = None;
            }
            Move::Correct(_) => {
                plan.error_message = None;
                plan.attempt += 1;
            }
            _ => {}
        }
        Ok(plan)
    }
}

impl PlanTimestamps {
    const fn new(at: Timestamp) -> Self {
        Self {
            created_at: at,
            updated_at: at,
            strategize_started_at: None,
            execute_started_at: None,
            apply_started_at: None,
            finished_at: None,
        }
    }

    fn after(self, requested: Move, position: Position, at: Timestamp) -> Self {
        let mut times = match requested {
            Move::Revert | Move::Correct(Phase::Strategize) => Self {
                created_at: self.created_at,
                ..Self::new(at)
            },
            _ => self,
        };
        times.updated_at = at;
        if requested == Move::Start {
            let started_at = match position.phase() {
                Phase::Strategize => &mut times.strategize_started_at,
                Phase::Execute => &mut times.execute_started_at,
                Phase::Apply => &mut times.apply_started_at,
            };
            started_at.get_or_insert(at);
        }
        times.finished_at = position.is_terminal().then_some(at);
        times
    }
}

/// The serialised form of a plan: phase and state are top-level keys, where scripts and SQL look
/// for them.
#[derive(Serialize, Deserialize, JsonSchema)]
struct PlanRecord {
    identity: PlanIdentity,
    name: NamespacedName,
    brief: PlanBrief,
    phase: Phase,
    state: PlanState,
    waiting: Option<WaitReason>,
    reversions: u32,
    point_of_no_return: PointOfNoReturn,
    attempt: u32,
    decision_root_id: Option<DecisionId>,
    last_completed_step: Option<u32>,
    last_checkpoint_id: Option<CheckpointId>,
    error_message: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    approvals: PendingApprovals,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destination: Option<Destination>,
    timestamps: PlanTimestamps,
    version: i64,
}

impl From<Plan> for PlanRecord {
    fn from(plan: Plan) -> Self {
        let position = plan.position.parts();
        Self {
            identity: plan.identity,
            name: plan.name,
            brief: plan.brief,
            phase: position.phase,
            state: position.state,
            waiting: position.waiting,
            reversions: position.reversions,
            point_of_no_return: position.point_of_no_return,
            attempt: plan.attempt,
            decision_root_id: plan.decision_root_id,
            last_completed_step: plan.last_completed_step,
            last_checkpoint_id: plan.last_checkpoint_id,
            error_message: plan.error_message,
            approvals: plan.approvals,
            destination: plan.destination,
            timestamps: plan.timestamps,
            version: plan.version,
        }
    }
}

impl TryFrom<PlanRecord> for Plan {
    type Error = ImpossiblePosition;

    fn try_from(record: PlanRecord) -> Result<Self, ImpossiblePosition> {
        let position = Position::try_from(PositionParts {
            phase: record.phase,
            state: record.state,
            waiting: record.waiting,
            reversions: record.reversions,
            point_of_no_return: record.point_of_no_return,
        })?;
        Ok(Self {
            identity: record.identity,
            name: record.name,
            brief: record.brief,
            position,
            attempt: record.attempt,
            decision_root_id: record.decision_root_id,
            last_completed_step: record.last_completed_step,
            last_checkpoint_id: record.last_checkpoint_id,
            error_message: record.error_message,
            approvals: record.approvals,
            destination: record.destination,
            timestamps: record.timestamps,
            version: record.version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automation::BuiltInProfile;

    const ID: &str = "01JZZZZZZZ0000000000ABCDEF";

    #[test]
    fn a_plan_of_any_task_is_named_by_its_words() {
        let mut new = new_plan(None);
        new.brief.action_name = NamespacedName::built_in(ANY_TASK_ACTION);
        new.brief.description = "Add a --version flag".to_owned();
        let name = |new: &NewPlan| {
            let plan = Plan::new(new.clone(), ID.parse().unwrap(), at(1));
            plan.name.to_string()
        };
        assert_eq!(name(&new), "local/add-a-version-flag-00abcdef");
        new.brief.description = "漢字".to_owned();
        assert_eq!(name(&new), "builtin/do-00abcdef");
        let of_action = name(&new_plan(None));
        assert_eq!(of_action, "local/security-audit-00abcdef");
    }

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn new_plan(parent: Option<PlanIdentity>) -> NewPlan {
        NewPlan {
            brief: PlanBrief {
                action_name: "local/security-audit".parse().unwrap(),
                description: "Audit".to_owned(),
                projects: vec!["local/shop".parse().unwrap()],
                arguments: BTreeMap::from([("depth".to_owned(), Value::from(3))]),
                automation_profile: BuiltInProfile::DEFAULT.profile(),
                automation_source: ProfileSource::Global,
                actors: Actors {
                    strategy_actor: "builtin/direct".parse().unwrap(),
                    execution_actor: "builtin/direct".parse().unwrap(),
                    estimation_actor: None,
                    review_actor: None,
                    apply_actor: None,
                    invariant_actor: None,
                },
                invariants: vec![],
                read_only: false,
                definition_of_done: "Done".to_owned(),
                long_description: None,
                checks: vec![],
                budget: Budget::default(),
                skills: vec![],
                base: BaseSource::default(),
            },
            parent,
        }
    }

    fn plan() -> Plan {
        Plan::new(new_plan(None), ID.parse().unwrap(), at(1))
    }

    fn after(plan: &Plan, moves: &[(Move, i64)]) -> Plan {
        moves.iter().fold(plan.clone(), |plan, (asked, micros)| {
            plan.make_move(*asked, at(*micros)).unwrap()
        })
    }

    const TO_EXECUTE: [(Move, i64); 4] = [
        (Move::Start, 2),
        (Move::Complete, 3),
        (Move::Advance(Phase::Execute), 4),
        (Move::Start, 5),
    ];

    #[test]
    fn a_new_plan_is_queued_and_named_after_its_action_and_id() {
        let plan = plan();
        assert_eq!(plan.name.to_string(), "local/security-audit-00abcdef");
        assert_eq!(plan.position.to_string(), "strategize/queued");
        assert_eq!((plan.attempt, plan.version), (1, 1));
        assert_eq!(plan.identity.root_plan_id, plan.identity.plan_id);
    }

    #[test]
    fn a_child_knows_its_parent_and_shares_its_root() {
        let root = plan();
        let child_id: PlanId = "01JZZZZZZZ0000000000ABCDEG".parse().unwrap();
        let child = Plan::new(new_plan(Some(root.identity)), child_id, at(2));
        let grandchild_id = "01JZZZZZZZ0000000000ABCDEH".parse().unwrap();
        let grandchild = Plan::new(new_plan(Some(child.identity)), grandchild_id, at(3));
        assert_eq!(child.identity.parent_plan_id, Some(root.identity.plan_id));
        assert_eq!(grandchild.identity.parent_plan_id, Some(child_id));
        assert_eq!(grandchild.identity.root_plan_id, root.identity.plan_id);
    }

    #[test]
    fn a_move_changes_a_copy_and_leaves_the_version_alone() {
        let before = plan();
        let moved = before.make_move(Move::Start, at(2)).unwrap();
        assert_eq!(before, plan());
        assert_eq!(moved.position.to_string(), "strategize/processing");
        assert_eq!(moved.version, before.version);
        assert_eq!(moved.timestamps.updated_at, at(2));
        assert_eq!(moved.timestamps.created_at, at(1));
        assert!(moved.make_move(Move::Start, at(3)).is_err());
    }

    #[test]
    fn a_phase_keeps_its_first_start_until_the_plan_is_reverted() {
        let executing = after(&plan(), &TO_EXECUTE);
        assert_eq!(executing.timestamps.strategize_started_at, Some(at(2)));
        let again = after(
            &executing,
            &[(Move::Fail, 6), (Move::Retry, 7), (Move::Start, 8)],
        );
        assert_eq!(again.timestamps.execute_started_at, Some(at(5)));
        let reverted = after(&again, &[(Move::Revert, 9)]);
        assert_eq!(reverted.timestamps.execute_started_at, None);
        assert_eq!(reverted.timestamps.created_at, at(1));
        assert_eq!(reverted.timestamps.updated_at, at(9));
    }

    #[test]
    fn resuming_after_an_error_clears_its_message() {
        let mut errored = after(&plan(), &TO_EXECUTE);
        errored.last_completed_step = Some(2);
        let mut errored = after(&errored, &[(Move::Fail, 6)]);
        errored.error_message = Some("no network".to_owned());
        let retried = after(&errored, &[(Move::Retry, 7)]);
        assert_eq!(retried.error_message, None);
        assert_eq!(retried.last_completed_step, Some(2));
        let reverted = after(&errored, &[(Move::Revert, 7)]);
        assert_eq!(reverted.error_message, None);
        assert_eq!(reverted.last_completed_step, None);
        let cancelled = after(&errored, &[(Move::Cancel, 7)]);
        assert_eq!(cancelled.error_message.as_deref(), Some("no network"));
    }

    #[test]
    fn a_correction_starts_a_new_attempt_from_its_phase() {
        let mut errored = after(&plan(), &TO_EXECUTE);
        errored.last_completed_step = Some(2);
        let mut errored = after(&errored, &[(Move::Fail, 6)]);
        errored.error_message = Some("no network".to_owned());
        let again = after(&errored, &[(Move::Correct(Phase::Execute), 7)]);
        assert_eq!((again.attempt, again.error_message.clone()), (2, None));
        assert_eq!(again.timestamps.execute_started_at, Some(at(5)));
        // Which steps are repeated depends on the corrected decision.
        assert_eq!(again.last_completed_step, Some(2));
        let anew = after(&again, &[(Move::Correct(Phase::Strategize), 8)]);
        assert_eq!((anew.attempt, anew.position.reversions()), (3, 1));
        assert_eq!(anew.timestamps.strategize_started_at, None);
        assert_eq!(anew.timestamps.created_at, at(1));
    }

    #[test]
    fn a_finished_plan_has_an_end_time() {
        let applied = after(&plan(), &TO_EXECUTE);
        let applied = after(
            &applied,
            &[
                (Move::Complete, 6),
                (Move::Advance(Phase::Apply), 7),
                (Move::Start, 8),
                (Move::Decide, 9),
                (Move::Apply, 10),
            ],
        );
        assert_eq!(applied.timestamps.apply_started_at, Some(at(8)));
        assert_eq!(applied.timestamps.finished_at, Some(at(10)));
    }

    #[test]
    fn a_plan_reads_back_with_phase_and_state_at_the_top() {
        let waiting = after(&plan(), &[(Move::Wait(WaitReason::Slot), 2)]);
        let json = serde_json::to_value(&waiting).unwrap();
        assert_eq!(json["phase"], "strategize");
        assert_eq!(json["state"], "queued");
        assert_eq!(json["waiting"]["kind"], "slot");
        assert_eq!(
            serde_json::from_value::<Plan>(json.clone()).unwrap(),
            waiting
        );
        let mut impossible = json;
        impossible["state"] = "applied".into();
        assert!(serde_json::from_value::<Plan>(impossible).is_err());
    }

    #[test]
    fn a_brief_reads_back_without_empty_fields() {
        let mut full = plan();
        full.brief.long_description = Some("At length".to_owned());
        full.brief.checks = vec![Check {
            run: "make".to_owned(),
            name: None,
            timeout: Some(1),
        }];
        full.brief.budget.tokens = Some(1);
        full.brief.skills = vec!["team/rust".parse().unwrap()];
        full.brief.base = BaseSource::Worktree;
        let (little, much) = (plan(), full);
        for (plan, has) in [(little, false), (much, true)] {
            let json = serde_json::to_value(&plan).unwrap();
            for key in ["long_description", "checks", "budget", "skills", "base"] {
                assert_eq!(json["brief"].get(key).is_some(), has, "{key}");
            }
            assert_eq!(serde_json::from_value::<Plan>(json).unwrap(), plan);
        }
    }

    #[test]
    fn every_problem_of_a_brief_is_named() {
        let mut brief = new_plan(None).brief;
        assert_eq!(brief.problems(), []);
        brief.description = " ".to_owned();
        brief.definition_of_done = "x".repeat(TEXT_MAXIMUM + 1);
        brief.long_description = Some("x".repeat(TEXT_MAXIMUM + 1));
        brief.checks = vec![Check {
            run: "a\0b".to_owned(),
            name: None,
            timeout: None,
        }];
        brief.budget.usd = Some(f64::NAN);
        brief.arguments.insert("a b".to_owned(), Value::Null);
        brief.projects.clear();
        let found: Vec<String> = brief.problems().iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "`description` must not be empty",
                "`definition_of_done` may be 65536 bytes long, this one has 65537",
                "`long_description` may be 65536 bytes long, this one has 65537",
                "`checks.run` must not contain a NUL character",
                "`budget.usd` must be a number of dollars from 0, not NaN",
                "`a b` cannot be the name of an argument",
                "a plan needs at least one project",
            ]
        );
    }
}
