//! Between an owner that gives its run back and a caller that asks for a cancel nothing is lost:
//! either the owner sees the message, or the caller finds nobody and cancels the plan itself.

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{EventKind, MessageKind, Phase, State, StreamId};
use cleveragents_engine::lifecycle::{Cancelled, LifecycleError};
use cleveragents_engine::ports::StoreError;
use cleveragents_engine::runs::Release;
use cleveragents_proof::verbs::{events, read, together};
use cleveragents_proof::{Backend, Place, block_on, contract, trials};

use super::scene::{AllThere, Scene};

contract! {
    a_cancel_in_the_last_moment_is_honoured,
    guidance_does_not_keep_a_run_and_waits_for_the_next_owner,
    ; durable:
    a_cancel_and_a_giving_back_at_once_end_in_a_cancelled_plan,
    an_owner_that_was_passed_over_can_do_nothing_more,
    a_first_claim_is_not_passed_over,
}

async fn pending(scene: &Scene, plan: PlanId) -> u64 {
    let cancels = &[MessageKind::Cancel];
    read(&scene.opened.store, move |unit| {
        unit.pending_messages(plan, cancels)
    })
    .await
}

fn a_cancel_in_the_last_moment_is_honoured(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        let run = scene.claim(id).await;
        scene.lifecycle.start(&run, &AllThere).await.unwrap();
        let asked = scene.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        assert!(matches!(asked, Cancelled::Requested(_)), "{asked:?}");
        let kept = match run.release().await.unwrap() {
            Release::Asked(kept) => kept,
            Release::Done => panic!("the run was given back past a cancel"),
        };
        scene.lifecycle.give_back(kept).await.unwrap();
        let plan = scene.plan(id).await;
        assert_eq!(plan.position.state(), State::Cancelled);
        assert_eq!(plan.error_message.as_deref(), Some("enough"));
        scene.assert_journal_agrees(id).await;
    });
}

fn a_cancel_and_a_giving_back_at_once_end_in_a_cancelled_plan(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let owner = Arc::new(Scene::furnished(&place).await);
        let other = Arc::new(Scene::open(&place));
        for _ in 0..trials(200, 20) {
            let id = owner.new_plan().await.identity.plan_id;
            let run = owner.claim(id).await;
            owner.lifecycle.start(&run, &AllThere).await.unwrap();
            let run = Arc::new(std::sync::Mutex::new(Some(run)));
            together(2, |task| {
                let (owner, other) = (Arc::clone(&owner), Arc::clone(&other));
                let run = run.lock().unwrap().take().filter(|_| task == 0);
                async move {
                    match run {
                        Some(run) => owner.lifecycle.give_back(run).await.unwrap(),
                        None => {
                            other.lifecycle.cancel(id, "enough", "eva").await.unwrap();
                        }
                    }
                }
            })
            .await;
            assert_eq!(pending(&other, id).await, 0);
            let plan = other.plan(id).await;
            assert_eq!(plan.position.state(), State::Cancelled, "a cancel was lost");
            other.assert_journal_agrees(id).await;
        }
    });
}

fn guidance_does_not_keep_a_run_and_waits_for_the_next_owner(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        let run = scene.claim(id).await;
        scene.lifecycle.prompt(id, "in blue", "eva").await.unwrap();
        scene.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        scene.lifecycle.give_back(run).await.unwrap();
        let next = scene.claim(id).await;
        let left = scene.lifecycle.take_messages(&next).await.unwrap();
        let left: Vec<&str> = left.iter().map(|it| it.body.as_str()).collect();
        assert_eq!(left, ["in blue"]);
    });
}

/// A command that took the owner for dead moves the plan; the owner, alive after all, is fenced
/// off, whatever it tries.
fn an_owner_that_was_passed_over_can_do_nothing_more(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let mistaken = Scene::open_believing_all_dead(&place);
        let id = scene.new_plan().await.identity.plan_id;
        let run = scene.claim(id).await;
        scene.lifecycle.start(&run, &AllThere).await.unwrap();
        scene.lifecycle.complete(&run).await.unwrap();
        let advanced = mistaken.lifecycle.advance(id, Phase::Execute, "eva").await;
        assert_eq!(
            advanced.unwrap().plan().position.to_string(),
            "execute/queued"
        );
        let refused = scene.lifecycle.start(&run, &AllThere).await;
        assert!(
            matches!(
                refused,
                Err(LifecycleError::Store(StoreError::LeaseLost { .. }))
            ),
            "{refused:?}"
        );
        assert!(run.release().await.is_err());
        let story = events(&scene.opened.store, StreamId::Plan(id)).await;
        let evicted = story.iter().filter(|it| it.kind == EventKind::RunEvicted);
        assert_eq!(evicted.count(), 1);
        // Whoever claims it next is not held up.
        let next = scene.claim(id).await;
        scene.lifecycle.start(&next, &AllThere).await.unwrap();
    });
}

/// A plan that nobody ever ran is claimed and started while somebody cancels it: either the cancel
/// came first and there is nothing to start, or the new owner is asked.
fn a_first_claim_is_not_passed_over(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let owner = Arc::new(Scene::furnished(&place).await);
        let other = Arc::new(Scene::open(&place));
        for _ in 0..trials(200, 20) {
            let id = owner.new_plan().await.identity.plan_id;
            let told = together(2, |task| {
                let (owner, other) = (Arc::clone(&owner), Arc::clone(&other));
                async move {
                    if task == 0 {
                        let run = owner.claim(id).await;
                        return owner.lifecycle.start(&run, &AllThere).await.is_ok();
                    }
                    let asked = other.lifecycle.cancel(id, "enough", "eva").await.unwrap();
                    matches!(asked, Cancelled::Done(_))
                }
            })
            .await;
            assert_ne!(told, [true, true], "a live owner was passed over");
            other.assert_journal_agrees(id).await;
        }
    });
}
