//! Commands on a plan: executed immediately if it has no owner, sent to the owner otherwise;
//! repeating a command is not an error.

use cleveragents_domain::event::payloads::{MessageSent, PlanStateChanged};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{EventKind, MessageKind, Phase, Plan, PlanState, StreamId, WaitReason};
use cleveragents_engine::lifecycle::{CancelOutcome, LifecycleError, PlanMoveOutcome};
use cleveragents_integration_tests::plan_driver::PassingProbe;
use cleveragents_integration_tests::store_access::{events, payload_of, read, release_run};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};

use super::fixture::LifecycleFixture;

contract! {
    an_idle_plan_is_cancelled_at_once,
    the_owner_of_a_running_plan_is_asked_to_cancel,
    a_late_cancel_gets_the_current_position,
    guidance_is_queued_for_the_owner,
    a_plan_is_reverted_three_times,
    an_errored_plan_is_tried_again,
    a_waiting_plan_gets_its_answer,
    a_phase_is_entered_once_on_approval,
    a_repeated_command_is_answered_while_running,
}

async fn pending(fixture: &LifecycleFixture, plan: PlanId) -> u64 {
    read(&fixture.opened.store, move |tx| {
        tx.pending_messages(plan, MessageKind::ALL)
    })
    .await
}

#[track_caller]
fn expect_moved(answer: Result<PlanMoveOutcome, LifecycleError>) -> Plan {
    match answer {
        Ok(PlanMoveOutcome::Moved(plan)) => plan,
        other => panic!("{other:?} instead of a move"),
    }
}

#[track_caller]
fn expect_unchanged(answer: Result<PlanMoveOutcome, LifecycleError>) -> Plan {
    match answer {
        Ok(PlanMoveOutcome::Unchanged(plan)) => plan,
        other => panic!("{other:?} instead of an unchanged plan"),
    }
}

/// A plan with a strategy and without an owner.
async fn create_strategized_plan(fixture: &LifecycleFixture) -> Plan {
    let id = fixture.new_plan().await.identity.plan_id;
    let run = fixture.claim(id).await;
    fixture.start(&run).await;
    let plan = fixture.lifecycle.as_owner(&run).complete().await.unwrap();
    release_run(run).await;
    plan
}

fn an_idle_plan_is_cancelled_at_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        let answer = fixture.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        let CancelOutcome::Done(PlanMoveOutcome::Moved(plan)) = answer else {
            panic!("{answer:?} instead of a cancelled plan");
        };
        assert_eq!(plan.position.state(), PlanState::Cancelled);
        assert_eq!(plan.error_message.as_deref(), Some("enough"));
        let again = fixture.lifecycle.cancel(id, "more", "eva").await.unwrap();
        assert_eq!(
            again,
            CancelOutcome::Done(PlanMoveOutcome::Unchanged(plan.clone()))
        );
        assert_eq!(fixture.plan(id).await, plan);
        assert_eq!(pending(&fixture, id).await, 0);
        fixture.assert_journal_agrees(id).await;
    });
}

fn the_owner_of_a_running_plan_is_asked_to_cancel(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        let run = fixture.claim(id).await;
        let running = fixture.start(&run).await;
        let answer = fixture.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        assert_eq!(answer, CancelOutcome::Requested(running.clone()));
        assert_eq!(fixture.plan(id).await, running);
        let messages = fixture
            .lifecycle
            .as_owner(&run)
            .take_messages()
            .await
            .unwrap();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].kind, MessageKind::Cancel);
        assert_eq!(messages[0].body, "enough");
        // The event has the number of the message.
        let story = events(&fixture.opened.store, StreamId::Plan(id)).await;
        let sent = story.iter().find(|it| it.kind == EventKind::MessageSent);
        let MessageSent(sent) = payload_of(sent.unwrap());
        assert_eq!((sent.id, sent.sequence), (messages[0].id, 1));
        assert_eq!(messages[0].sequence, 1);
    });
}

fn a_late_cancel_gets_the_current_position(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let service = &fixture.lifecycle;
        let id = create_strategized_plan(&fixture).await.identity.plan_id;
        let run = fixture.claim(id).await;
        service
            .as_owner(&run)
            .advance(Phase::Execute)
            .await
            .unwrap();
        service.as_owner(&run).start(&PassingProbe).await.unwrap();
        service.as_owner(&run).complete().await.unwrap();
        service.as_owner(&run).advance(Phase::Apply).await.unwrap();
        service.as_owner(&run).start(&PassingProbe).await.unwrap();
        let decided = service.as_owner(&run).decide().await.unwrap();
        let answer = service.cancel(id, "too late", "eva").await.unwrap();
        assert_eq!(
            answer,
            CancelOutcome::Done(PlanMoveOutcome::Unchanged(decided))
        );
        assert_eq!(pending(&fixture, id).await, 0);
    });
}

fn guidance_is_queued_for_the_owner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        for (guidance, place) in [("slowly", 1), ("and quietly", 2)] {
            let prompted = fixture.lifecycle.prompt(id, guidance, "eva").await.unwrap();
            assert_eq!(prompted.message.sequence, place);
            assert_eq!(prompted.message.kind, MessageKind::Prompt);
        }
        assert_eq!(pending(&fixture, id).await, 2);
        fixture.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        let refused = fixture
            .lifecycle
            .prompt(id, "late", "eva")
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("which is final"), "{refused}");
        assert_eq!(pending(&fixture, id).await, 2);
    });
}

fn a_plan_is_reverted_three_times(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let service = &fixture.lifecycle;
        let id = create_strategized_plan(&fixture).await.identity.plan_id;
        for time in 1..=4 {
            expect_moved(service.advance(id, Phase::Execute, "eva").await);
            let answer = service.revert(id, Phase::Strategize, "no", "eva").await;
            if time == 4 {
                let refused = answer.unwrap_err();
                assert!(refused.to_string().contains("3 times"), "{refused}");
                break;
            }
            let plan = expect_moved(answer);
            assert_eq!(plan.position.reversions(), time);
            let again = service.revert(id, Phase::Strategize, "no", "eva").await;
            assert_eq!(expect_unchanged(again), plan);
            let run = fixture.claim(id).await;
            service.as_owner(&run).start(&PassingProbe).await.unwrap();
            service.as_owner(&run).complete().await.unwrap();
            release_run(run).await;
        }
        let elsewhere = service.revert(id, Phase::Execute, "no", "eva").await;
        assert!(matches!(
            elsewhere,
            Err(LifecycleError::RevertTarget { to: Phase::Execute })
        ));
        fixture.assert_journal_agrees(id).await;
    });
}

fn an_errored_plan_is_tried_again(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        let run = fixture.claim(id).await;
        fixture.start(&run).await;
        fixture.fail(&run, "no net").await;
        let owned = fixture.lifecycle.retry(id, "eva").await;
        match owned {
            Err(LifecycleError::Owned { holder, .. }) => assert_eq!(holder.owner, fixture.owner()),
            other => panic!("{other:?} instead of Owned"),
        }
        release_run(run).await;
        let plan = expect_moved(fixture.lifecycle.retry(id, "eva").await);
        assert_eq!(plan.position.state(), PlanState::Queued);
        assert_eq!(plan.error_message, None);
        // Reverting from its own errored state is not counted, and decides the rules again.
        let run = fixture.claim(id).await;
        fixture.start(&run).await;
        fixture.fail(&run, "no net").await;
        release_run(run).await;
        let back = fixture
            .lifecycle
            .revert(id, Phase::Strategize, "no", "eva")
            .await;
        assert_eq!(expect_moved(back).position.reversions(), 0);
        let story = events(&fixture.opened.store, StreamId::Plan(id)).await;
        let reconciled = story
            .iter()
            .filter(|it| it.kind == EventKind::InvariantReconciled);
        assert_eq!(reconciled.count(), 2);
        fixture.assert_journal_agrees(id).await;
    });
}

fn a_waiting_plan_gets_its_answer(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        let run = fixture.claim(id).await;
        let waiting = WaitReason::Answer { decision: None };
        let plan = fixture
            .lifecycle
            .as_owner(&run)
            .wait(waiting)
            .await
            .unwrap();
        assert_eq!(plan.position.waiting(), Some(waiting));
        release_run(run).await;
        let answered = fixture.lifecycle.answer(id, Some("blue"), "eva").await;
        assert_eq!(expect_moved(answered).position.waiting(), None);
        let story = events(&fixture.opened.store, StreamId::Plan(id)).await;
        let PlanStateChanged(answered) = payload_of(story.last().unwrap());
        assert_eq!(answered.reason.as_deref(), Some("blue"));
        fixture.assert_journal_agrees(id).await;
    });
}

fn a_phase_is_entered_once_on_approval(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = create_strategized_plan(&fixture).await.identity.plan_id;
        let early = fixture.lifecycle.advance(id, Phase::Apply, "eva").await;
        assert!(matches!(early, Err(LifecycleError::Illegal { .. })));
        let plan = expect_moved(fixture.lifecycle.advance(id, Phase::Execute, "eva").await);
        assert_eq!(plan.position.to_string(), "execute/queued");
        let again = fixture.lifecycle.advance(id, Phase::Execute, "eva").await;
        assert_eq!(expect_unchanged(again), plan);
    });
}

fn a_repeated_command_is_answered_while_running(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let service = &fixture.lifecycle;
        let id = create_strategized_plan(&fixture).await.identity.plan_id;
        expect_moved(service.advance(id, Phase::Execute, "eva").await);
        let run = fixture.claim(id).await;
        let running = service.as_owner(&run).start(&PassingProbe).await.unwrap();
        let repeated = service.advance(id, Phase::Execute, "eva").await;
        assert_eq!(expect_unchanged(repeated), running);
        let ended = service.as_owner(&run).cancel("asked to").await.unwrap();
        assert_eq!(expect_unchanged(service.retry(id, "eva").await), ended);
        let back = service.revert(id, Phase::Strategize, "no", "eva").await;
        assert_eq!(expect_unchanged(back), ended);
    });
}
