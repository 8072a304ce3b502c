//! How often the plan's row is read by a request to execute it and the run that follows.

use std::sync::Arc;

use cleveragents_api::RequestKind;
use cleveragents_api::plan::PlanExecute;
use cleveragents_app::{App, AppDeps};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Phase, PlanState};
use cleveragents_integration_tests::counting_store::CountingStore;
use cleveragents_ports::store::Store;

use crate::world::{TRUSTED, TestWorld};

const STEP: &str = "- {tool: builtin/file-write, input: {path: made, content: made}}\n";

#[test]
fn the_first_execute_reads_the_plan_at_most_three_times() {
    let world = TestWorld::new();
    world.define_worker(STEP);
    world.define_worker_job("");
    let plans = ["supervised", TRUSTED].map(|it| (it, world.create_plan(it)));
    let bootstrap = world.bootstrap();
    let context = bootstrap.open_for_requests(RequestKind::Work);
    let context = context.unwrap();
    let database: Arc<dyn Store> = context.database().clone();
    let (store, counts) = CountingStore::handle(database);
    let app = App::new(AppDeps {
        store,
        ..bootstrap.app_deps(context.database())
    });
    for (profile, plan) in plans {
        // Not counted: a write that changes the plan locks its row and reads it (law 1).
        let reads = || counts.of("plan") + counts.of("find_plan");
        let before = reads();
        let position = context.block_on(async {
            let id: PlanId = plan.parse().unwrap();
            let (plan, detach) = (id.into(), false);
            let caller = context.caller();
            app.call(PlanExecute { plan, detach }, &caller)
                .await
                .unwrap();
            app.drive(id, &caller).await.unwrap();
            context
                .store()
                .read(move |tx| tx.plan(id))
                .await
                .unwrap()
                .position
        });
        let expected = match profile {
            TRUSTED => Phase::Execute,
            _ => Phase::Strategize,
        };
        assert_eq!(position.phase(), expected, "{profile}: {position}");
        assert_eq!(position.state(), PlanState::Complete, "{profile}");
        let found = reads() - before;
        assert!((1..=3).contains(&found), "{profile}: {found} reads");
    }
    assert!(counts.of("update_plan") > 0, "nothing was counted");
}
