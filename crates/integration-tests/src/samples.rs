//! Domain values for tests. No field has its default value, so that a lost field is noticed.

#![expect(
    clippy::expect_used,
    reason = "a sample that is not legal must fail the test"
)]

use std::collections::BTreeMap;

use cleveragents_domain::automation::ProfileSource;
use cleveragents_domain::event::payloads::StrategyApproved;
use cleveragents_domain::id::{ActionId, CheckpointId, DecisionId, OwnerId, PlanId};
use cleveragents_domain::{
    Action, ActionState, Actors, Argument, ArgumentType, BaseSource, Budget, BuiltInProfile, Check,
    InvariantScopeKind, Move, NamespacedName, NewEvent, NewPlan, Phase, Plan, PlanBrief,
    PlanInvariant, ProfileName, StreamId, Timestamp,
};
use cleveragents_ports::Ids;
use cleveragents_ports::system::SystemIds;
use serde_json::json;

/// The creation time of samples; later times count from it.
pub const CREATED_AT: i64 = 1_790_000_000_000_000;

/// A fresh owner id.
pub fn owner() -> OwnerId {
    OwnerId::new(SystemIds.next())
}

/// A fresh plan id.
pub fn plan_id() -> PlanId {
    PlanId::new(SystemIds.next())
}

/// A fresh stream.
pub fn stream() -> StreamId {
    StreamId::Plan(plan_id())
}

/// An event that contains the number `n`.
///
/// # Panics
///
/// Never: a number is valid JSON.
pub fn event(n: i64) -> NewEvent {
    let approved = StrategyApproved {
        number: n,
        hash: "sample".to_owned(),
    };
    NewEvent::of("tester", &approved).expect("an event")
}

/// The payload of [`event`] as stored.
pub fn payload(n: i64) -> String {
    format!("{{\"number\":{n},\"hash\":\"sample\"}}")
}

/// Parses a name.
///
/// # Panics
///
/// If it is not legal.
pub fn name(text: &str) -> NamespacedName {
    text.parse().expect("a legal name")
}

/// `seconds` after [`CREATED_AT`].
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(CREATED_AT + seconds * 1_000_000)
}

fn actors() -> Actors {
    Actors {
        strategy_actor: name("builtin/planner"),
        execution_actor: name("prod:team/worker"),
        estimation_actor: Some(name("estimator")),
        review_actor: Some(name("reviewer")),
        apply_actor: Some(name("applier")),
        invariant_actor: Some(name("warden")),
    }
}

fn checks() -> Vec<Check> {
    vec![Check {
        run: "cargo test".to_owned(),
        name: Some("tests".to_owned()),
        timeout: Some(600),
    }]
}

fn budget() -> Budget {
    Budget {
        usd: Some(0.1 + 0.2),
        tokens: Some(u64::MAX),
        wall: Some(3600),
    }
}

/// An action named `text`, created at [`at`]`(seconds)`.
pub fn action(text: &str, seconds: i64) -> Action {
    Action {
        id: ActionId::new(SystemIds.next()),
        name: name(text),
        description: "Raise coverage – höher".to_owned(),
        long_description: Some("Line one\nline \"two\"\0 and a NUL \u{fdd0}0".to_owned()),
        actors: actors(),
        definition_of_done: "Coverage is 90 %".to_owned(),
        reusable: false,
        read_only: true,
        state: ActionState::Archived,
        arguments: vec![Argument {
            name: "mode".to_owned(),
            argument_type: ArgumentType::Choice,
            required: false,
            default: Some(json!("schnell")),
            description: "how".to_owned(),
            pattern: Some("^[a-z]+$".to_owned()),
            choices: vec!["schnell".to_owned(), "gründlich".to_owned()],
        }],
        automation_profile: Some(ProfileName::BuiltIn(BuiltInProfile::FullAuto)),
        invariants: vec!["no new dependencies".to_owned()],
        checks: checks(),
        budget: budget(),
        skills: vec![name("team/rust")],
        created_at: at(seconds),
        updated_at: at(seconds + 1),
        version: 1,
    }
}

/// A child plan with this id, in the middle of its execution, created at [`at`]`(seconds)`.
///
/// # Panics
///
/// If the moves that lead there became illegal.
pub fn plan(id: PlanId, seconds: i64) -> Plan {
    let parent = Plan::new(new_plan(None), plan_id(), at(0));
    let mut plan = Plan::new(new_plan(Some(&parent)), id, at(seconds));
    let moves = [
        Move::Start,
        Move::Complete,
        Move::Advance(Phase::Execute),
        Move::Start,
    ];
    for (asked, later) in moves.into_iter().zip(1..) {
        plan = plan
            .make_move(asked, at(seconds + later))
            .expect("a legal move");
    }
    plan.attempt = 3;
    plan.decision_root_id = Some(DecisionId::new(SystemIds.next()));
    plan.last_completed_step = Some(7);
    plan.last_checkpoint_id = Some(CheckpointId::new(SystemIds.next()));
    plan.error_message = Some("kein Netz \0 \u{fdd0}".to_owned());
    plan
}

fn new_plan(parent: Option<&Plan>) -> NewPlan {
    NewPlan {
        brief: PlanBrief {
            action_name: name("team/security-audit"),
            description: "Audit".to_owned(),
            projects: vec![name("local/shop"), name("local/bank")],
            arguments: BTreeMap::from([
                ("depth".to_owned(), json!(3)),
                ("where".to_owned(), json!({"path": ["a", null, 1.5, true]})),
            ]),
            automation_profile: BuiltInProfile::FullAuto.profile(),
            automation_source: ProfileSource::Global,
            actors: actors(),
            invariants: vec![PlanInvariant {
                text: "no new dependencies".to_owned(),
                source: InvariantScopeKind::Project,
            }],
            read_only: true,
            definition_of_done: "Done".to_owned(),
            long_description: Some("At length\n".to_owned()),
            checks: checks(),
            budget: budget(),
            skills: vec![name("team/rust")],
            base: BaseSource::Worktree,
        },
        parent: parent.map(|plan| plan.identity),
    }
}
