//! What people ask of a plan: at once if nobody runs it, of its owner if somebody does, and twice
//! is no error.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{
    EventKind, MessageKind, Phase, Plan, PlanMessage, State, StreamId, Waiting,
};
use cleveragents_engine::lifecycle::{Cancelled, LifecycleError, Moved};
use cleveragents_proof::verbs::{events, give_back, read};
use cleveragents_proof::{Backend, Place, block_on, contract};

use super::history::payload;
use super::scene::{AllThere, Scene};

contract! {
    a_plan_that_nobody_runs_is_cancelled_at_once,
    the_owner_of_a_running_plan_is_asked_to_cancel,
    past_the_point_of_no_return_a_cancel_is_told_how_it_stands,
    guidance_is_left_for_the_owner,
    a_plan_is_reverted_three_times,
    an_errored_plan_is_tried_again,
    a_waiting_plan_gets_its_answer,
    a_phase_is_entered_on_a_humans_word_once,
    a_repeat_is_answered_whoever_runs_the_plan,
}

async fn pending(scene: &Scene, plan: PlanId) -> u64 {
    read(&scene.opened.store, move |unit| {
        unit.pending_messages(plan, MessageKind::ALL)
    })
    .await
}

#[track_caller]
fn moved(answer: Result<Moved, LifecycleError>) -> Plan {
    match answer {
        Ok(Moved::Moved(plan)) => plan,
        other => panic!("{other:?} instead of a move"),
    }
}

#[track_caller]
fn stands(answer: Result<Moved, LifecycleError>) -> Plan {
    match answer {
        Ok(Moved::Stands(plan)) => plan,
        other => panic!("{other:?} instead of how it stands"),
    }
}

/// A plan with its strategy made, owned by nobody.
async fn strategized(scene: &Scene) -> Plan {
    let id = scene.new_plan().await.identity.plan_id;
    let run = scene.claim(id).await;
    scene.lifecycle.start(&run, &AllThere).await.unwrap();
    let plan = scene.lifecycle.complete(&run).await.unwrap();
    give_back(run).await;
    plan
}

fn a_plan_that_nobody_runs_is_cancelled_at_once(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        let answer = scene.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        let Cancelled::Done(Moved::Moved(plan)) = answer else {
            panic!("{answer:?} instead of a cancelled plan");
        };
        assert_eq!(plan.position.state(), State::Cancelled);
        assert_eq!(plan.error_message.as_deref(), Some("enough"));
        let again = scene.lifecycle.cancel(id, "more", "eva").await.unwrap();
        assert_eq!(again, Cancelled::Done(Moved::Stands(plan.clone())));
        assert_eq!(scene.plan(id).await, plan);
        assert_eq!(pending(&scene, id).await, 0);
        scene.assert_journal_agrees(id).await;
    });
}

fn the_owner_of_a_running_plan_is_asked_to_cancel(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        let run = scene.claim(id).await;
        let running = scene.lifecycle.start(&run, &AllThere).await.unwrap();
        let answer = scene.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        assert_eq!(answer, Cancelled::Requested(running.clone()));
        assert_eq!(scene.plan(id).await, running);
        let messages = scene.lifecycle.take_messages(&run).await.unwrap();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].kind, MessageKind::Cancel);
        assert_eq!(messages[0].body, "enough");
        // The event tells the place that the message has.
        let story = events(&scene.opened.store, StreamId::Plan(id)).await;
        let sent = story.iter().find(|it| it.kind == EventKind::MessageSent);
        let sent: PlanMessage = payload(sent.unwrap());
        assert_eq!((sent.id, sent.sequence), (messages[0].id, 1));
        assert_eq!(messages[0].sequence, 1);
    });
}

fn past_the_point_of_no_return_a_cancel_is_told_how_it_stands(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let service = &scene.lifecycle;
        let id = strategized(&scene).await.identity.plan_id;
        let run = scene.claim(id).await;
        service
            .advance_as_owner(&run, Phase::Execute)
            .await
            .unwrap();
        service.start(&run, &AllThere).await.unwrap();
        service.complete(&run).await.unwrap();
        service.advance_as_owner(&run, Phase::Apply).await.unwrap();
        service.start(&run, &AllThere).await.unwrap();
        let decided = service.decide(&run).await.unwrap();
        let answer = service.cancel(id, "too late", "eva").await.unwrap();
        assert_eq!(answer, Cancelled::Done(Moved::Stands(decided)));
        assert_eq!(pending(&scene, id).await, 0);
    });
}

fn guidance_is_left_for_the_owner(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        for (guidance, place) in [("slowly", 1), ("and quietly", 2)] {
            let prompted = scene.lifecycle.prompt(id, guidance, "eva").await.unwrap();
            assert_eq!(prompted.message.sequence, place);
            assert_eq!(prompted.message.kind, MessageKind::Prompt);
        }
        assert_eq!(pending(&scene, id).await, 2);
        scene.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        let refused = scene.lifecycle.prompt(id, "late", "eva").await.unwrap_err();
        assert!(refused.to_string().contains("which is final"), "{refused}");
        assert_eq!(pending(&scene, id).await, 2);
    });
}

fn a_plan_is_reverted_three_times(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let service = &scene.lifecycle;
        let id = strategized(&scene).await.identity.plan_id;
        for time in 1..=4 {
            moved(service.advance(id, Phase::Execute, "eva").await);
            let answer = service.revert(id, Phase::Strategize, "no", "eva").await;
            if time == 4 {
                let refused = answer.unwrap_err();
                assert!(refused.to_string().contains("3 times"), "{refused}");
                break;
            }
            let plan = moved(answer);
            assert_eq!(plan.position.reversions(), time);
            let again = service.revert(id, Phase::Strategize, "no", "eva").await;
            assert_eq!(stands(again), plan);
            let run = scene.claim(id).await;
            service.start(&run, &AllThere).await.unwrap();
            service.complete(&run).await.unwrap();
            give_back(run).await;
        }
        let elsewhere = service.revert(id, Phase::Execute, "no", "eva").await;
        assert!(matches!(
            elsewhere,
            Err(LifecycleError::RevertTarget { to: Phase::Execute })
        ));
        scene.assert_journal_agrees(id).await;
    });
}

fn an_errored_plan_is_tried_again(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        let run = scene.claim(id).await;
        scene.lifecycle.start(&run, &AllThere).await.unwrap();
        scene.lifecycle.fail(&run, "no net").await.unwrap();
        let owned = scene.lifecycle.retry(id, "eva").await;
        match owned {
            Err(LifecycleError::Owned { holder }) => assert_eq!(holder.owner, scene.owner()),
            other => panic!("{other:?} instead of Owned"),
        }
        give_back(run).await;
        let plan = moved(scene.lifecycle.retry(id, "eva").await);
        assert_eq!(plan.position.state(), State::Queued);
        assert_eq!(plan.error_message, None);
        // Going back from its own errored state is not counted, and decides the rules anew.
        let run = scene.claim(id).await;
        scene.lifecycle.start(&run, &AllThere).await.unwrap();
        scene.lifecycle.fail(&run, "no net").await.unwrap();
        give_back(run).await;
        let back = scene
            .lifecycle
            .revert(id, Phase::Strategize, "no", "eva")
            .await;
        assert_eq!(moved(back).position.reversions(), 0);
        let story = events(&scene.opened.store, StreamId::Plan(id)).await;
        let reconciled = story
            .iter()
            .filter(|it| it.kind == EventKind::InvariantReconciled);
        assert_eq!(reconciled.count(), 2);
        scene.assert_journal_agrees(id).await;
    });
}

fn a_waiting_plan_gets_its_answer(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        let run = scene.claim(id).await;
        let waiting = Waiting::Answer { decision: None };
        let plan = scene.lifecycle.wait(&run, waiting).await.unwrap();
        assert_eq!(plan.position.waiting(), Some(waiting));
        give_back(run).await;
        let answered = scene.lifecycle.answer(id, Some("blue"), "eva").await;
        assert_eq!(moved(answered).position.waiting(), None);
        let story = events(&scene.opened.store, StreamId::Plan(id)).await;
        let told: serde_json::Value = payload(story.last().unwrap());
        assert_eq!(told["reason"], "blue");
        scene.assert_journal_agrees(id).await;
    });
}

fn a_phase_is_entered_on_a_humans_word_once(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = strategized(&scene).await.identity.plan_id;
        let early = scene.lifecycle.advance(id, Phase::Apply, "eva").await;
        assert!(matches!(early, Err(LifecycleError::Illegal { .. })));
        let plan = moved(scene.lifecycle.advance(id, Phase::Execute, "eva").await);
        assert_eq!(plan.position.to_string(), "execute/queued");
        let again = scene.lifecycle.advance(id, Phase::Execute, "eva").await;
        assert_eq!(stands(again), plan);
    });
}

fn a_repeat_is_answered_whoever_runs_the_plan(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let service = &scene.lifecycle;
        let id = strategized(&scene).await.identity.plan_id;
        moved(service.advance(id, Phase::Execute, "eva").await);
        let run = scene.claim(id).await;
        let running = service.start(&run, &AllThere).await.unwrap();
        let repeated = service.advance(id, Phase::Execute, "eva").await;
        assert_eq!(stands(repeated), running);
        let ended = service.cancel_as_owner(&run, "asked to").await.unwrap();
        assert_eq!(stands(service.retry(id, "eva").await), ended);
        let back = service.revert(id, Phase::Strategize, "no", "eva").await;
        assert_eq!(stands(back), ended);
    });
}
