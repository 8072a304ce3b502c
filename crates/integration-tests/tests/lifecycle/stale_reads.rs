//! A stale reader can never act: a caller that read a plan before another process applied it is
//! refused, whatever it requests.

use cleveragents_domain::{Move, MoveKind, Phase};
use cleveragents_integration_tests::plan_driver::PassingProbe;
use cleveragents_integration_tests::store_access::{release_run, try_write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::StoreError;

use super::fixture::LifecycleFixture;
use super::sample_moves::{MoveAnswer, MoveCaller, Requester, SampleMove};

contract! {
    durable: a_stale_read_cannot_move_an_applied_plan,
}

fn a_stale_read_cannot_move_an_applied_plan(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let stale = LifecycleFixture::with_samples(&test_db).await;
        let id = stale.new_plan().await.identity.plan_id;
        let old = stale.claim(id).await;
        let read_before = stale.start(&old).await;

        let other = LifecycleFixture::open_with_all_dead(&test_db);
        let run = other.claim(id).await;
        let service = &other.lifecycle;
        service.as_owner(&run).complete().await.unwrap();
        for phase in [Phase::Execute, Phase::Apply] {
            service.as_owner(&run).advance(phase).await.unwrap();
            service.as_owner(&run).start(&PassingProbe).await.unwrap();
            if phase == Phase::Execute {
                service.as_owner(&run).complete().await.unwrap();
            }
        }
        service.as_owner(&run).decide().await.unwrap();
        let applied = service.as_owner(&run).mark_applied().await.unwrap();
        release_run(run).await;

        for ask in SampleMove::all() {
            let caller = MoveCaller {
                fixture: &stale,
                run: Some(&old),
                plan: id,
                name: "late",
            };
            let message = ask
                .perform(&caller, ask.to_move(read_before.position))
                .await;
            let wanted = match ask.requester {
                Requester::Owner => MoveAnswer::LeaseLost,
                // A correction never repeats an earlier one.
                Requester::Command if ask.kind == MoveKind::Correct => {
                    MoveAnswer::Illegal(applied.position)
                }
                Requester::Command => MoveAnswer::Unchanged(applied.position),
            };
            assert_eq!(message, wanted, "{ask:?}");
        }
        // It cannot write back its stale copy either.
        let mut moved = read_before.make_move(Move::Complete, applied.timestamps.updated_at);
        let again = moved.as_mut().unwrap().clone();
        let written = try_write(&stale.opened.store, move |tx| tx.update_plan(&again)).await;
        assert!(matches!(written, Err(StoreError::Conflict { .. })));
        assert_eq!(stale.plan(id).await, applied);
        stale.assert_journal_agrees(id).await;
    });
}
