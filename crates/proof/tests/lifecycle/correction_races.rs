//! Corrections of one plan at once: one wins, the others are told why not, and nothing is half
//! written.

use std::sync::Arc;

use cleveragents_domain::CorrectionMode;
use cleveragents_engine::decisions::DecisionFailure;
use cleveragents_engine::lifecycle::{Cancelled, LifecycleError};
use cleveragents_engine::ports::StoreError;
use cleveragents_proof::verbs::{read, together};
use cleveragents_proof::{Backend, Place, block_on, contract, trials};

use super::scene::{AllThere, Scene};
use super::thinking::{all, correction, decided, superseded, written};

contract! {
    of_two_corrections_at_once_one_wins,
    a_correction_and_a_start_are_in_turn,
    a_correction_and_a_cancel_are_in_turn,
}

/// Another opening of the place, where there can be one.
fn another(place: &Place, backend: Backend, scene: &Arc<Scene>) -> Arc<Scene> {
    match backend {
        Backend::Memory => Arc::clone(scene),
        Backend::Sqlite | Backend::Postgres => Arc::new(Scene::open(place)),
    }
}

fn of_two_corrections_at_once_one_wins(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Arc::new(Scene::furnished(&place).await);
        let other = another(&place, backend, &scene);
        for _ in 0..trials(100, 5) {
            let it = decided(&scene).await;
            let targets = [it.first.decision_id; 4];
            let answers = together(targets.len(), |number| {
                let scene = Arc::clone(if number % 2 == 0 { &scene } else { &other });
                let request = correction(targets[number], CorrectionMode::Revert);
                async move { scene.decisions.correct(request).await }
            })
            .await;
            let won: Vec<_> = answers.iter().filter_map(|it| it.as_ref().ok()).collect();
            assert_eq!(won.len(), 1, "{answers:?}");
            for lost in answers.iter().filter_map(|it| it.as_ref().err()) {
                let superseded = matches!(lost, DecisionFailure::Superseded { decision }
                    if *decision == it.first.decision_id);
                assert!(superseded, "{lost}");
            }
            let (plan, decisions, corrections, _) = written(&scene, it.plan).await;
            assert_eq!(plan.attempt, 2);
            assert_eq!(corrections, [won[0].correction.clone()]);
            let new = decisions.iter().filter(|it| it.is_correction).count();
            assert_eq!(new, 1);
            scene.assert_journal_agrees(it.plan).await;
        }
    });
}

fn a_correction_and_a_start_are_in_turn(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Arc::new(Scene::furnished(&place).await);
        for round in 0..trials(100, 5) {
            let it = decided(&scene).await;
            let target = it.first.decision_id;
            let before = correction(it.apart.decision_id, CorrectionMode::Revert);
            scene.decisions.correct(before).await.unwrap();
            let run = Arc::new(scene.claim(it.plan).await);
            let mistaken_round = round % 2 == 0;
            let (corrected, started) = tokio::join!(
                tokio::spawn({
                    let decisions = match mistaken_round {
                        true => scene.mistaken_decisions(),
                        false => scene.decisions.clone(),
                    };
                    async move {
                        let request = correction(target, CorrectionMode::Revert);
                        decisions.correct(request).await
                    }
                }),
                tokio::spawn({
                    let (scene, run) = (Arc::clone(&scene), Arc::clone(&run));
                    async move { scene.lifecycle.start(&run, &AllThere).await }
                })
            );
            let (corrected, started) = (corrected.unwrap(), started.unwrap());
            let plan = scene.plan(it.plan).await;
            let gone = superseded(&all(&scene, it.plan).await).contains(&target);
            assert_eq!(corrected.is_ok(), gone);
            assert_eq!(corrected.is_ok(), mistaken_round, "{corrected:?}");
            // From `strategize/queued` both orders let the plan be started, unless the correction
            // took the run from its owner.
            let lost = matches!(
                started,
                Err(LifecycleError::Store(StoreError::LeaseLost { .. }))
            );
            assert!(started.is_ok() || (gone && lost), "{started:?}");
            assert_eq!(plan.attempt, if gone { 3 } else { 2 });
            scene.assert_journal_agrees(it.plan).await;
        }
    });
}

fn a_correction_and_a_cancel_are_in_turn(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Arc::new(Scene::furnished(&place).await);
        let other = another(&place, backend, &scene);
        for _ in 0..trials(100, 5) {
            let it = decided(&scene).await;
            let target = it.first.decision_id;
            let (corrected, cancelled) = tokio::join!(
                tokio::spawn({
                    let scene = Arc::clone(&scene);
                    async move {
                        let request = correction(target, CorrectionMode::Revert);
                        scene.decisions.correct(request).await
                    }
                }),
                tokio::spawn({
                    let (other, plan) = (Arc::clone(&other), it.plan);
                    async move { other.lifecycle.cancel(plan, "enough", "ann").await }
                })
            );
            assert!(matches!(cancelled.unwrap(), Ok(Cancelled::Done(_))));
            let corrected = corrected.unwrap();
            let (plan, decisions, corrections, _) = written(&scene, it.plan).await;
            assert_eq!(plan.position.to_string(), "strategize/cancelled");
            match corrected {
                Ok(done) => {
                    assert_eq!(corrections, [done.correction]);
                    assert_eq!((plan.attempt, superseded(&decisions).len()), (2, 3));
                }
                Err(refused) => {
                    assert!(refused.to_string().contains("which is final"), "{refused}");
                    assert_eq!(corrections, []);
                    assert_eq!((plan.attempt, superseded(&decisions).len()), (1, 0));
                    assert!(!decisions.iter().any(|it| it.is_correction));
                }
            }
            scene.assert_journal_agrees(it.plan).await;
        }
        let all = read(&scene.opened.store, |unit| unit.plans()).await;
        assert!(all.iter().all(|plan| plan.position.is_terminal()));
    });
}
