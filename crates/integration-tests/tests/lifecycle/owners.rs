//! The owner's moves: only through its lease, strict, recorded, and fenced once the lease is lost.

use cleveragents_domain::{MoveKind, Phase, PlanState, Position};
use cleveragents_engine::lifecycle::CancelOutcome;
use cleveragents_integration_tests::store_access::release_run;
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};

use super::fixture::LifecycleFixture;
use super::sample_moves::{MoveAnswer, MoveCaller, Requester, SampleMove, move_of};

contract! {
    an_owner_moves_a_plan_through_all_phases,
    an_owners_repeat_is_refused,
    every_move_of_a_replaced_owner_is_refused,
    an_owner_takes_each_message_once,
}

fn an_owner_moves_a_plan_through_all_phases(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        let run = fixture.claim(id).await;
        let caller = MoveCaller {
            fixture: &fixture,
            run: Some(&run),
            plan: id,
            name: "nobody",
        };
        let way = [
            MoveKind::Start,
            MoveKind::Complete,
            MoveKind::Advance,
            MoveKind::Start,
            MoveKind::Complete,
            MoveKind::Advance,
            MoveKind::Start,
            MoveKind::Decide,
            MoveKind::Apply,
        ];
        let mut at = Position::new();
        for kind in way {
            let ask = SampleMove {
                kind,
                requester: Requester::Owner,
            };
            let asked = move_of(kind, at);
            at = at.after(asked).unwrap();
            assert_eq!(ask.perform(&caller, asked).await, MoveAnswer::Moved(at));
        }
        let plan = fixture.plan(id).await;
        assert_eq!((plan.position, plan.version), (at, 10));
        assert!(plan.timestamps.finished_at.is_some());
        fixture.assert_journal_agrees(id).await;
        release_run(run).await;
    });
}

fn an_owners_repeat_is_refused(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        let run = fixture.claim(id).await;
        fixture.start(&run).await;
        let failed = fixture.fail(&run, "no net").await;
        assert_eq!(failed.error_message.as_deref(), Some("no net"));
        let refused = fixture
            .lifecycle
            .as_owner(&run)
            .fail("again")
            .await
            .unwrap_err();
        let said = refused.to_string();
        assert!(
            said.starts_with("cannot fail: the plan is at strategize/errored (plan"),
            "{said}"
        );
        assert_eq!(fixture.plan(id).await, failed);
    });
}

fn every_move_of_a_replaced_owner_is_refused(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        let old = fixture.claim(id).await;
        // A claim against exactly the owner and epoch that were proven dead, as in a takeover.
        let new = fixture.take_over(&old).await;
        let plan = fixture.start(&new).await;
        for ask in SampleMove::all()
            .into_iter()
            .filter(|ask| ask.requester == Requester::Owner)
        {
            let caller = MoveCaller {
                fixture: &fixture,
                run: Some(&old),
                plan: id,
                name: "old",
            };
            let message = ask.perform(&caller, ask.to_move(plan.position)).await;
            assert_eq!(message, MoveAnswer::LeaseLost, "{ask:?}");
        }
        fixture
            .lifecycle
            .as_owner(&old)
            .take_messages()
            .await
            .unwrap_err();
        assert_eq!(fixture.plan(id).await, plan);
        let done = fixture.lifecycle.as_owner(&new).complete().await.unwrap();
        assert_eq!(done.position.state(), PlanState::Complete);
        assert_eq!(done.position.phase(), Phase::Strategize);
    });
}

fn an_owner_takes_each_message_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        let run = fixture.claim(id).await;
        fixture.lifecycle.prompt(id, "slowly", "eva").await.unwrap();
        let asked = fixture.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        assert!(matches!(asked, CancelOutcome::Requested(_)));
        let messages = fixture
            .lifecycle
            .as_owner(&run)
            .take_messages()
            .await
            .unwrap();
        let bodies: Vec<&str> = messages.iter().map(|it| it.body.as_str()).collect();
        assert_eq!(bodies, ["slowly", "enough"]);
        assert!(
            fixture
                .lifecycle
                .as_owner(&run)
                .take_messages()
                .await
                .unwrap()
                .is_empty()
        );
        let ended = fixture.lifecycle.as_owner(&run).cancel("enough").await;
        assert_eq!(ended.unwrap().position.state(), PlanState::Cancelled);
    });
}
