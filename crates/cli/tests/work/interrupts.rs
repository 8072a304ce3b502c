//! Requests of a caller that has already sent the stop signal change nothing.

use cleveragents_api::plan::{PlanApply, PlanResume, PlanUnapply};
use cleveragents_api::{ExitClass, Failure, NextStep, RequestKind};
use cleveragents_app::Caller;
use cleveragents_cli::bootstrap::{AppContext, Bootstrap};
use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::id::PlanId;
use tokio::sync::watch;

use crate::world::TestWorld;

const STEP: &str = "- {tool: builtin/file-write, input: {path: made, content: made}}\n";

fn open(bootstrap: &Bootstrap) -> AppContext<'_> {
    bootstrap.open_for_requests(RequestKind::Work).unwrap()
}

fn cancelled_caller(context: &AppContext<'_>) -> Caller {
    Caller {
        cancel: watch::Sender::new(true).subscribe(),
        ..context.caller()
    }
}

fn apply_to_branch(plan: PlanId) -> PlanApply {
    PlanApply {
        plan: plan.into(),
        to: Some(Destination::Branch("agents/made".to_owned())),
        mark_applied: false,
        force_checks: None,
    }
}

/// Asserts that the failure is an interruption and suggests this step.
#[track_caller]
fn assert_interrupted(failure: &Failure, step: NextStep) {
    assert_eq!(failure.exit, ExitClass::Interrupted, "{failure:?}");
    assert_eq!(failure.next_steps, [step], "{failure:?}");
}

#[test]
fn an_interrupted_request_to_apply_is_not_recorded() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(STEP);
    let id: PlanId = plan.parse().unwrap();
    let bootstrap = world.bootstrap();
    let context = open(&bootstrap);
    let caller = cancelled_caller(&context);
    let called = context.block_on(context.app().call(apply_to_branch(id), &caller));
    assert_interrupted(&called.unwrap_err(), NextStep::send(&apply_to_branch(id)));
    assert_eq!(world.state(&plan), "execute/complete");
    assert!(world.events_of_kind(&plan, "apply_requested").is_empty());
}

#[test]
fn an_interrupted_drive_leaves_the_apply_queued() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(STEP);
    let id: PlanId = plan.parse().unwrap();
    {
        let bootstrap = world.bootstrap();
        let context = open(&bootstrap);
        let caller = cancelled_caller(&context);
        let driven = context.block_on(async {
            let live = context.caller();
            let queued = context.app().call(apply_to_branch(id), &live).await;
            queued.unwrap();
            context.app().drive(id, &caller).await
        });
        let resume = PlanResume::new(id);
        assert_interrupted(&driven.unwrap_err(), NextStep::send(&resume));
    }
    assert_eq!(world.state(&plan), "apply/queued");
    let branch = ["rev-parse", "--verify", "agents/made"];
    assert_ne!(world.try_git(&world.path("shop"), &branch).code, Some(0));
    // The destination is stored with the plan.
    let resumed = world.resume(&plan).succeeded();
    resumed.reports_state("apply/applied");
    world.git(&world.path("shop"), &branch);
    assert!(!world.path("shop/made").exists());
}

#[test]
fn an_interrupted_unapply_undoes_nothing() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(STEP);
    world.apply(&plan).succeeded();
    let id: PlanId = plan.parse().unwrap();
    let bootstrap = world.bootstrap();
    let context = open(&bootstrap);
    let caller = cancelled_caller(&context);
    let unapply = PlanUnapply { plan: id.into() };
    let called = context.block_on(context.app().call(unapply.clone(), &caller));
    assert_interrupted(&called.unwrap_err(), NextStep::send(&unapply));
    assert_eq!(world.state(&plan), "apply/applied");
    assert_eq!(world.read("shop/made"), "made");
}
