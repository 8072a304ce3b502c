//! Fills a plan that `agents plan use` created: adds a strategy, starts its execution, and stops at
//! a question. The pictures of the documentation are taken from the result.
//!
//! `cargo run -p cleveragents-integration-tests --example story -- DATA_DIRECTORY PLAN_ID`

#![expect(
    clippy::expect_used,
    reason = "an example shows what is asked for; what goes wrong ends it"
)]

use std::path::Path;
use std::sync::Arc;

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{Confidence, DecisionType, Phase, WaitReason};
use cleveragents_engine::decisions::{
    ContextItem, DecisionContext, DecisionDraft, DecisionService,
};
use cleveragents_engine::lifecycle::PlanLifecycle;
use cleveragents_engine::runs::{RunLease, RunService};
use cleveragents_integration_tests::plan_driver::{advance_to_execute, claim_run, start_phase};
use cleveragents_integration_tests::{Backend, OpenTestDatabase, block_on, test_database};
use cleveragents_ports::Liveness;
use cleveragents_ports::system::{SystemClock, SystemIds};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(plan), None) = (arguments.next(), arguments.next(), arguments.next())
    else {
        panic!("usage: story DATA_DIRECTORY PLAN_ID");
    };
    let plan: PlanId = plan.parse().expect("the id of a plan");
    let clock = Arc::new(SystemClock);
    let opened = test_database::open(Backend::Sqlite, Path::new(&folder), None, clock);
    block_on(record_decisions(&opened.expect("a database"), plan));
}

async fn record_decisions(opened: &OpenTestDatabase, plan: PlanId) {
    let (store, ids) = (opened.store.clone(), Arc::new(SystemIds));
    let liveness: Arc<dyn Liveness> = opened.presence.clone();
    let lifecycle = PlanLifecycle::new(store.clone(), ids.clone(), Arc::clone(&liveness));
    let decisions = DecisionService::new(store.clone(), ids.clone(), Arc::clone(&liveness));
    let runs = RunService::new(store, ids, liveness, opened.owner);
    let found = lifecycle.plan(plan).await.expect("the plan");
    let root = found.decision_root_id.expect("a root");

    let run = claim_run(&runs, plan, Phase::Strategize).await;
    start_phase(&lifecycle, &run).await;
    let cart = strategize(&decisions, &run, root).await;
    advance_to_execute(&lifecycle, &run).await;
    let question = execute(&decisions, &run, cart).await;
    let waiting = WaitReason::Answer {
        decision: Some(question),
    };
    lifecycle
        .as_owner(&run)
        .wait(waiting)
        .await
        .expect("a legal move");
    lifecycle.release(run).await.expect("still ours");
}

/// Records the decisions of the strategy; returns the one to start with.
async fn strategize(decisions: &DecisionService, run: &RunLease, root: DecisionId) -> DecisionId {
    let cart = DecisionDraft {
        alternatives: vec!["Begin with the prices".to_owned()],
        rationale: "Most warnings are there, and nothing else depends on it.".to_owned(),
        reasoning: Some("37 of 41 warnings are in src/cart.rs.".to_owned()),
        context: DecisionContext {
            items: vec![ContextItem {
                name: "warnings".to_owned(),
                text: "src/cart.rs: 37\nsrc/prices.rs: 4\n".to_owned(),
            }],
            resources: vec!["local/shop".to_owned()],
            actor_state: None,
            request: None,
        },
        ..choice(
            root,
            DecisionType::StrategyChoice,
            "Begin with the cart",
            0.82,
        )
    };
    let cart = record(decisions, run, cart).await;
    let files = choice(
        cart,
        DecisionType::ResourceSelection,
        "src/cart.rs and its tests",
        0.9,
    );
    let files = record(decisions, run, files).await;
    let prices = DecisionDraft {
        influences: vec![files],
        ..choice(
            root,
            DecisionType::StrategyChoice,
            "Then the prices, file by file",
            0.71,
        )
    };
    record(decisions, run, prices).await;
    cart
}

/// Records the decisions of the work. Returns the one that the user will correct.
async fn execute(decisions: &DecisionService, run: &RunLease, cart: DecisionId) -> DecisionId {
    let unused = choice(
        cart,
        DecisionType::ImplementationChoice,
        "Delete what nobody calls instead of silencing it",
        0.77,
    );
    let unused = record(decisions, run, unused).await;
    let tests = choice(
        unused,
        DecisionType::ToolInvocation,
        "Run the tests of the cart",
        0.95,
    );
    record(decisions, run, tests).await;
    let question = choice(
        unused,
        DecisionType::ImplementationChoice,
        "Ask whether round_up may go: it is public",
        0.35,
    );
    record(decisions, run, question).await
}

fn choice(
    parent: DecisionId,
    decision_type: DecisionType,
    chosen: &str,
    sure: f64,
) -> DecisionDraft {
    DecisionDraft {
        parent,
        decision_type,
        question: "What next?".to_owned(),
        chosen: chosen.to_owned(),
        alternatives: Vec::new(),
        rationale: String::new(),
        confidence: Some(Confidence::new(sure).expect("from 0 to 1")),
        reasoning: None,
        context: DecisionContext::default(),
        influences: Vec::new(),
    }
}

async fn record(decisions: &DecisionService, run: &RunLease, choice: DecisionDraft) -> DecisionId {
    let recorded = decisions.record(run, choice).await;
    recorded.expect("a decision").decision_id
}
