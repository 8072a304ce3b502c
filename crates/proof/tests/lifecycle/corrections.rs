//! Corrections: what is given up, what takes its place, and where the plan goes.

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{
    CorrectionMode, CorrectionState, DecisionEdge, DecisionType, Event, EventKind, Phase, StreamId,
};
use cleveragents_engine::decisions::{
    CorrectRequest, Corrected, DecisionFailure, GUIDANCE_MAXIMUM,
};
use cleveragents_engine::lifecycle::{Cancelled, LifecycleError};
use cleveragents_proof::verbs::{events, write};
use cleveragents_proof::{Backend, Place, block_on, contract};

use super::scene::Scene;
use super::thinking::{
    Thinking, all, correction, decided, implementation, strategy, superseded, written,
};

contract! {
    a_revert_gives_up_what_followed_and_plans_again,
    a_revert_in_execute_works_again_in_execute,
    the_root_stays_while_all_below_it_is_given_up,
    an_append_gives_up_nothing_and_keeps_the_steps,
    a_correction_in_apply_is_a_reversion_and_they_run_out,
    a_plan_that_runs_or_is_finished_is_not_corrected,
    a_dry_run_says_the_same_and_writes_nothing,
    guidance_is_needed_and_bounded,
    a_given_up_ancestor_is_passed_over_in_a_circle,
}

async fn correct(scene: &Scene, decision: DecisionId, mode: CorrectionMode) -> Corrected {
    let corrected = scene.decisions.correct(correction(decision, mode)).await;
    corrected.unwrap()
}

fn a_revert_gives_up_what_followed_and_plans_again(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let it = decided(&scene).await;
        let corrected = correct(&scene, it.first.decision_id, CorrectionMode::Revert).await;
        let gone = [&it.first, &it.below, &it.influenced].map(|one| one.decision_id);
        assert_eq!(superseded(&all(&scene, it.plan).await), gone);
        assert_eq!(corrected.preview.superseded, gone);
        let new = &corrected.decision;
        assert_eq!(new.decision_type, DecisionType::UserIntervention);
        assert!(new.is_correction && !new.is_superseded);
        assert_eq!(new.parent_decision_id, Some(it.root));
        assert_eq!(new.question, it.first.question);
        assert_eq!(new.chosen_option, "go by the river");
        assert_eq!(new.alternatives_considered, ["first"]);
        let stored = all(&scene, it.plan).await;
        assert!(stored.contains(new));
        let plan = scene.plan(it.plan).await;
        assert_eq!(plan, corrected.plan);
        assert_eq!(plan.position.to_string(), "strategize/queued");
        assert_eq!((plan.attempt, plan.position.reversions()), (2, 0));
        let kept = scene.decisions.corrections(it.plan).await.unwrap();
        assert_eq!(kept, std::slice::from_ref(&corrected.correction));
        assert_eq!(kept[0].state, CorrectionState::Complete);
        assert_eq!(kept[0].affected, gone);
        assert_eq!(kept[0].new_decision_id, Some(new.decision_id));
        let again = correction(it.first.decision_id, CorrectionMode::Append);
        let refused = scene.decisions.correct(again).await.unwrap_err();
        assert!(matches!(refused, DecisionFailure::Superseded { .. }));
        scene.assert_journal_agrees(it.plan).await;
        assert_told_in_order(&events(&scene.opened.store, StreamId::Plan(it.plan)).await);
    });
}

/// The journal tells a correction from its request to its end, the plan's move within it.
fn assert_told_in_order(told: &[Event]) {
    let wanted = [
        EventKind::CorrectionRequested,
        EventKind::DecisionSuperseded,
        EventKind::DecisionCreated,
        EventKind::DecisionCorrected,
        EventKind::PlanCorrected,
        EventKind::InvariantReconciled,
        EventKind::CorrectionCompleted,
    ];
    let begin = told
        .iter()
        .position(|event| event.kind == EventKind::CorrectionRequested)
        .unwrap();
    let found: Vec<_> = told[begin..]
        .iter()
        .map(|event| event.kind.clone())
        .filter(|kind| *kind != EventKind::InvariantEnforced)
        .collect();
    assert_eq!(found, wanted);
    assert!(told[begin..].iter().all(|event| event.actor == "eva"));
}

fn a_revert_in_execute_works_again_in_execute(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let thinking = Thinking::begin(&scene).await;
        let planned = strategy(thinking.root, "planned");
        let planned = thinking.decide(&scene, planned).await;
        thinking.execute(&scene).await;
        let built = implementation(planned.decision_id, "built");
        let built = thinking.decide(&scene, built).await;
        let plan = thinking.leave().await;
        set_last_step(&scene, plan).await;
        let corrected = correct(&scene, built.decision_id, CorrectionMode::Revert).await;
        assert_eq!(corrected.plan.position.to_string(), "execute/queued");
        assert_eq!(corrected.plan.position.reversions(), 0);
        assert_eq!(corrected.plan.last_completed_step, None);
        assert_eq!(corrected.decision.phase, Phase::Execute);
        assert_eq!(
            superseded(&all(&scene, plan).await),
            [built.decision_id],
            "what was planned stays"
        );
        // What was planned in strategize is planned again there.
        let corrected = correct(&scene, planned.decision_id, CorrectionMode::Revert).await;
        assert_eq!(corrected.plan.position.to_string(), "strategize/queued");
        assert_eq!(corrected.plan.position.reversions(), 1);
        assert_eq!(corrected.plan.attempt, 3);
        assert_eq!(corrected.plan, scene.plan(plan).await);
        // A correction that was made in execute can itself be corrected after that.
        let stands = all(&scene, plan).await;
        let stands = stands.iter().rfind(|it| it.is_correction).unwrap();
        let corrected = correct(&scene, stands.decision_id, CorrectionMode::Revert).await;
        assert_eq!(corrected.plan.position.to_string(), "strategize/queued");
        scene.assert_journal_agrees(plan).await;
    });
}

async fn set_last_step(scene: &Scene, plan: PlanId) {
    write(&scene.opened.store, move |unit| {
        let mut plan = unit.plan_for_update(plan)?;
        plan.last_completed_step = Some(4);
        unit.update_plan(&plan)
    })
    .await;
}

fn the_root_stays_while_all_below_it_is_given_up(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let it = decided(&scene).await;
        let before: Vec<DecisionId> = all(&scene, it.plan)
            .await
            .iter()
            .map(|it| it.decision_id)
            .filter(|id| *id != it.root)
            .collect();
        let corrected = correct(&scene, it.root, CorrectionMode::Revert).await;
        assert_eq!(superseded(&all(&scene, it.plan).await), before);
        assert_eq!(corrected.decision.parent_decision_id, Some(it.root));
        assert_eq!(corrected.correction.affected[0], it.root);
        // The rules that hold are decided anew.
        let counting = all(&scene, it.plan).await;
        let rules = counting
            .iter()
            .filter(|it| it.decision_type == DecisionType::InvariantEnforced && !it.is_superseded);
        assert_eq!(rules.count(), 2);
        correct(&scene, it.root, CorrectionMode::Revert).await;
        let attempts = scene.decisions.corrections(it.plan).await.unwrap();
        assert_eq!(attempts.len(), 2);
    });
}

fn an_append_gives_up_nothing_and_keeps_the_steps(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let thinking = Thinking::begin(&scene).await;
        let planned = strategy(thinking.root, "planned");
        let planned = thinking.decide(&scene, planned).await;
        thinking.execute(&scene).await;
        let plan = thinking.leave().await;
        set_last_step(&scene, plan).await;
        let corrected = correct(&scene, planned.decision_id, CorrectionMode::Append).await;
        assert_eq!(superseded(&all(&scene, plan).await), []);
        assert_eq!(
            corrected.decision.parent_decision_id,
            Some(planned.decision_id)
        );
        assert_eq!(corrected.plan.position.to_string(), "execute/queued");
        assert_eq!(corrected.plan.last_completed_step, Some(4));
        assert_eq!(corrected.plan.attempt, 2);
        assert_eq!(corrected.correction.affected, [planned.decision_id]);
    });
}

fn a_correction_in_apply_is_a_reversion_and_they_run_out(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let mut thinking = Thinking::begin(&scene).await;
        let root = thinking.root;
        for reversions in 1..=3 {
            let plan = wait_for_apply(&scene, thinking).await;
            let corrected = correct(&scene, root, CorrectionMode::Append).await;
            assert_eq!(corrected.plan.position.to_string(), "strategize/queued");
            assert_eq!(corrected.plan.position.reversions(), reversions);
            thinking = Thinking::go_on(&scene, plan).await;
        }
        let plan = wait_for_apply(&scene, thinking).await;
        let before = written(&scene, plan).await;
        let request = correction(root, CorrectionMode::Append);
        let refused = scene.decisions.correct(request).await.unwrap_err();
        assert!(refused.to_string().contains("has been reverted 3 times"));
        assert_eq!(written(&scene, plan).await, before);
    });
}

/// Takes the plan to `apply/queued` and leaves it there.
async fn wait_for_apply(scene: &Scene, thinking: Thinking) -> PlanId {
    thinking.execute(scene).await;
    scene.lifecycle.complete(&thinking.run).await.unwrap();
    let advance = scene
        .lifecycle
        .advance_as_owner(&thinking.run, Phase::Apply);
    advance.await.unwrap();
    thinking.leave().await
}

fn a_plan_that_runs_or_is_finished_is_not_corrected(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let thinking = Thinking::begin(&scene).await;
        let (plan, root) = (thinking.plan, thinking.root);
        for mode in CorrectionMode::ALL.iter().copied() {
            let before = written(&scene, plan).await;
            let refused = scene.decisions.correct(correction(root, mode)).await;
            let Err(DecisionFailure::Lifecycle(LifecycleError::Owned { holder })) = refused else {
                panic!("{refused:?} instead of who runs it");
            };
            assert_eq!(holder.owner, scene.owner());
            let refused = scene.decisions.impact(root, mode).await;
            assert!(matches!(
                refused,
                Err(DecisionFailure::Lifecycle(LifecycleError::Owned { .. }))
            ));
            assert_eq!(written(&scene, plan).await, before);
        }
        thinking.leave().await;
        let cancelled = scene.lifecycle.cancel(plan, "enough", "eva").await.unwrap();
        assert!(matches!(cancelled, Cancelled::Done(_)));
        let before = written(&scene, plan).await;
        let request = correction(root, CorrectionMode::Revert);
        let refused = scene.decisions.correct(request).await.unwrap_err();
        assert!(refused.to_string().contains("which is final"), "{refused}");
        assert_eq!(written(&scene, plan).await, before);
    });
}

fn a_dry_run_says_the_same_and_writes_nothing(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let it = decided(&scene).await;
        let before = written(&scene, it.plan).await;
        let target = it.first.decision_id;
        let preview = scene.decisions.impact(target, CorrectionMode::Revert).await;
        let preview = preview.unwrap();
        assert_eq!(written(&scene, it.plan).await, before);
        assert_eq!(
            (preview.to, preview.superseded.len()),
            (Phase::Strategize, 3)
        );
        assert_eq!(preview.unaffected, before.1.len() - 3);
        let corrected = correct(&scene, target, CorrectionMode::Revert).await;
        assert_eq!(corrected.preview, preview);
        let refused = scene.decisions.impact(target, CorrectionMode::Revert).await;
        assert!(matches!(refused, Err(DecisionFailure::Superseded { .. })));
        let stays = scene
            .decisions
            .impact(it.apart.decision_id, CorrectionMode::Append);
        assert_eq!(stays.await.unwrap().superseded, []);
    });
}

fn guidance_is_needed_and_bounded(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let plan = scene.new_plan().await;
        let root = plan.decision_root_id.unwrap();
        let guided = |guidance: String| CorrectRequest {
            guidance,
            ..correction(root, CorrectionMode::Append)
        };
        for empty in ["", " \n\t"] {
            let refused = scene.decisions.correct(guided(empty.to_owned())).await;
            assert!(matches!(refused, Err(DecisionFailure::NoGuidance)));
        }
        let long = "ü".repeat(GUIDANCE_MAXIMUM / 2);
        scene.decisions.correct(guided(long.clone())).await.unwrap();
        let refused = scene.decisions.correct(guided(long + "x")).await;
        assert_eq!(
            refused.unwrap_err().to_string(),
            "guidance may be 65536 bytes long, this has 65537"
        );
    });
}

fn a_given_up_ancestor_is_passed_over_in_a_circle(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let thinking = Thinking::begin(&scene).await;
        let root = thinking.root;
        let parent = thinking.decide(&scene, strategy(root, "parent")).await;
        let child = strategy(parent.decision_id, "child");
        let child = thinking.decide(&scene, child).await;
        let back = DecisionEdge {
            from: child.decision_id,
            to: parent.decision_id,
        };
        scene
            .decisions
            .influence(&thinking.run, back)
            .await
            .unwrap();
        let plan = thinking.leave().await;
        let corrected = correct(&scene, child.decision_id, CorrectionMode::Revert).await;
        assert_eq!(
            superseded(&all(&scene, plan).await),
            [parent.decision_id, child.decision_id]
        );
        assert_eq!(corrected.decision.parent_decision_id, Some(root));
    });
}
