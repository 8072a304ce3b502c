//! Watches of plans with long journals.

use cleveragents_api::RequestKind;
use cleveragents_domain::StreamId;
use cleveragents_domain::id::PlanId;
use cleveragents_integration_tests::samples::event;
use cleveragents_ports::Transaction;
use serde_json::Value;

use crate::world::TestWorld;

/// More events than several reads of the journal return.
const MORE: i64 = 3_000;

/// Appends events to the plan's journal. Returns the numbers of all its events.
fn lengthen_journal(world: &TestWorld, plan: PlanId) -> Vec<i64> {
    let bootstrap = world.bootstrap();
    let context = bootstrap.open_for_requests(RequestKind::Write).unwrap();
    let append = move |tx: &mut dyn Transaction| {
        let events: Vec<_> = (1..=MORE).map(event).collect();
        tx.append(StreamId::Plan(plan), &events)
    };
    context.block_on(async {
        let operation = context.operation("a test");
        context.store().write(operation, append).await.unwrap();
        let newest = context.app().newest_event(plan).await.unwrap();
        assert!(newest > MORE);
        (1..=newest).collect()
    })
}

#[test]
fn the_last_read_of_a_watch_returns_all_events() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    world.define_worker_job("");
    let shop = world.path("shop").display().to_string();
    let words = ["run", "local/job", "--path", &shop, "--yes", "--events"];
    let words = [&words[..], &["--idempotency-key", "once"]].concat();
    world.run(&words).succeeded();
    let plan = world.json_data(&["plan", "list"])["plans"][0]["plan_id"].clone();
    let plan: PlanId = plan.as_str().unwrap().parse().unwrap();
    let numbers = lengthen_journal(&world, plan);

    let bootstrap = world.bootstrap();
    let context = bootstrap.open_for_requests(RequestKind::Read).unwrap();
    let mut watch = context.app().watch(plan, 0);
    let events = context.block_on(watch.available_events()).unwrap();
    let watched: Vec<i64> = events.iter().map(|it| it.plan_seq).collect();
    assert_eq!(watched, numbers);

    // The repeated command does no work, so nearly all events are in its last read.
    let run = world.run(&words).succeeded();
    let lines = run.stdout.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["plan_seq"].as_i64()
    });
    let displayed: Vec<i64> = lines.flatten().collect();
    assert_eq!(displayed, numbers);
}
