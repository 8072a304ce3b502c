//! A release of a run and a concurrent cancel lose nothing: either the owner sees the message, or
//! the caller finds no owner and cancels the plan itself.

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{EventKind, MessageKind, Phase, PlanState, StreamId};
use cleveragents_engine::lifecycle::{CancelOutcome, LifecycleError};
use cleveragents_engine::runs::ReleaseOutcome;
use cleveragents_integration_tests::plan_driver::PassingProbe;
use cleveragents_integration_tests::store_access::{events, read, run_concurrently};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, trials};
use cleveragents_ports::StoreError;

use super::fixture::LifecycleFixture;

contract! {
    a_cancel_just_before_release_is_honoured,
    guidance_after_release_waits_for_the_next_owner,
    ; durable:
    a_concurrent_cancel_and_release_cancel_the_plan,
    an_evicted_owner_is_fenced_off,
    a_first_claim_is_not_evicted,
}

async fn pending(fixture: &LifecycleFixture, plan: PlanId) -> u64 {
    let cancels = &[MessageKind::Cancel];
    read(&fixture.opened.store, move |tx| {
        tx.pending_messages(plan, cancels)
    })
    .await
}

fn a_cancel_just_before_release_is_honoured(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        let run = fixture.claim(id).await;
        fixture.start(&run).await;
        let asked = fixture.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        assert!(matches!(asked, CancelOutcome::Requested(_)), "{asked:?}");
        let kept = match run.release().await.unwrap() {
            ReleaseOutcome::CancelRequested(kept) => kept,
            ReleaseOutcome::Done => panic!("the run was given back past a cancel"),
        };
        fixture.lifecycle.release(kept).await.unwrap();
        let plan = fixture.plan(id).await;
        assert_eq!(plan.position.state(), PlanState::Cancelled);
        assert_eq!(plan.error_message.as_deref(), Some("enough"));
        fixture.assert_journal_agrees(id).await;
    });
}

fn a_concurrent_cancel_and_release_cancel_the_plan(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let owner = Arc::new(LifecycleFixture::with_samples(&test_db).await);
        let other = Arc::new(LifecycleFixture::open(&test_db));
        for _ in 0..trials(200, 20) {
            let id = owner.new_plan().await.identity.plan_id;
            let run = owner.claim(id).await;
            owner.start(&run).await;
            let run = Arc::new(std::sync::Mutex::new(Some(run)));
            run_concurrently(2, |task| {
                let (owner, other) = (Arc::clone(&owner), Arc::clone(&other));
                let run = run.lock().unwrap().take().filter(|_| task == 0);
                async move {
                    match run {
                        Some(run) => {
                            owner.lifecycle.release(run).await.unwrap();
                        }
                        None => {
                            other.lifecycle.cancel(id, "enough", "eva").await.unwrap();
                        }
                    }
                }
            })
            .await;
            assert_eq!(pending(&other, id).await, 0);
            let plan = other.plan(id).await;
            assert_eq!(
                plan.position.state(),
                PlanState::Cancelled,
                "a cancel was lost"
            );
            other.assert_journal_agrees(id).await;
        }
    });
}

fn guidance_after_release_waits_for_the_next_owner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        let run = fixture.claim(id).await;
        fixture
            .lifecycle
            .prompt(id, "in blue", "eva")
            .await
            .unwrap();
        fixture.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        fixture.lifecycle.release(run).await.unwrap();
        let next = fixture.claim(id).await;
        let left = fixture
            .lifecycle
            .as_owner(&next)
            .take_messages()
            .await
            .unwrap();
        let left: Vec<&str> = left.iter().map(|it| it.body.as_str()).collect();
        assert_eq!(left, ["in blue"]);
    });
}

/// A command that assumed the owner dead moves the plan; the owner, which is alive, is fenced off,
/// whatever it tries.
fn an_evicted_owner_is_fenced_off(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let mistaken = LifecycleFixture::open_with_all_dead(&test_db);
        let id = fixture.new_plan().await.identity.plan_id;
        let run = fixture.claim(id).await;
        fixture.start(&run).await;
        fixture.lifecycle.as_owner(&run).complete().await.unwrap();
        let advanced = mistaken.lifecycle.advance(id, Phase::Execute, "eva").await;
        assert_eq!(
            advanced.unwrap().plan().position.to_string(),
            "execute/queued"
        );
        let refused = fixture.lifecycle.as_owner(&run).start(&PassingProbe).await;
        assert!(
            matches!(
                refused,
                Err(LifecycleError::Store(StoreError::LeaseLost { .. }))
            ),
            "{refused:?}"
        );
        assert!(run.release().await.is_err());
        let story = events(&fixture.opened.store, StreamId::Plan(id)).await;
        let evicted = story.iter().filter(|it| it.kind == EventKind::RunEvicted);
        assert_eq!(evicted.count(), 1);
        // The next claim is not blocked.
        let next = fixture.claim(id).await;
        fixture.start(&next).await;
    });
}

/// A plan that was never run is claimed and started while it is cancelled: either the cancel came
/// first and there is nothing to start, or the new owner gets the cancel request.
fn a_first_claim_is_not_evicted(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let owner = Arc::new(LifecycleFixture::with_samples(&test_db).await);
        let other = Arc::new(LifecycleFixture::open(&test_db));
        for _ in 0..trials(200, 20) {
            let id = owner.new_plan().await.identity.plan_id;
            let message = run_concurrently(2, |task| {
                let (owner, other) = (Arc::clone(&owner), Arc::clone(&other));
                async move {
                    if task == 0 {
                        let run = owner.claim(id).await;
                        return owner
                            .lifecycle
                            .as_owner(&run)
                            .start(&PassingProbe)
                            .await
                            .is_ok();
                    }
                    let asked = other.lifecycle.cancel(id, "enough", "eva").await.unwrap();
                    matches!(asked, CancelOutcome::Done(_))
                }
            })
            .await;
            assert_ne!(message, [true, true], "a live owner was passed over");
            other.assert_journal_agrees(id).await;
        }
    });
}
