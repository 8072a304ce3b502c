//! Corrections: what is superseded, what replaces it, and where the plan goes.

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{
    CorrectionMode, CorrectionState, DecisionEdge, DecisionType, Event, EventKind, Phase, StreamId,
};
use cleveragents_engine::decisions::{
    CorrectionOutcome, CorrectionRequest, DecisionFailure, GUIDANCE_MAXIMUM,
};
use cleveragents_engine::lifecycle::{CancelOutcome, LifecycleError};
use cleveragents_integration_tests::store_access::{events, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};

use super::fixture::LifecycleFixture;
use super::working_plan::{
    WorkingPlan, all_decisions, correction, correction_state, create_decided_plan, implementation,
    strategy, superseded_ids,
};

contract! {
    a_revert_supersedes_descendants_and_restarts_strategize,
    a_revert_in_execute_restarts_execute,
    reverting_the_root_supersedes_all_below_it,
    an_append_supersedes_nothing_and_keeps_the_steps,
    corrections_in_apply_count_as_reversions,
    a_plan_that_runs_or_is_finished_is_not_corrected,
    a_dry_run_reports_the_same_and_writes_nothing,
    guidance_is_needed_and_bounded,
    a_superseded_ancestor_in_a_cycle_is_skipped,
}

async fn correct(
    fixture: &LifecycleFixture,
    decision: DecisionId,
    mode: CorrectionMode,
) -> CorrectionOutcome {
    let corrected = fixture.decisions.correct(correction(decision, mode)).await;
    corrected.unwrap()
}

fn a_revert_supersedes_descendants_and_restarts_strategize(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let it = create_decided_plan(&fixture).await;
        let corrected = correct(&fixture, it.first.decision_id, CorrectionMode::Revert).await;
        let gone = [&it.first, &it.below, &it.influenced].map(|one| one.decision_id);
        assert_eq!(
            superseded_ids(&all_decisions(&fixture, it.plan).await),
            gone
        );
        assert_eq!(corrected.preview.superseded, gone);
        let new = &corrected.decision;
        assert_eq!(new.decision_type, DecisionType::UserIntervention);
        assert!(new.is_correction && !new.is_superseded);
        assert_eq!(new.parent_decision_id, Some(it.root));
        assert_eq!(new.question, it.first.question);
        assert_eq!(new.chosen_option, "go by the river");
        assert_eq!(new.alternatives_considered, ["first"]);
        let stored = all_decisions(&fixture, it.plan).await;
        assert!(stored.contains(new));
        let plan = fixture.plan(it.plan).await;
        assert_eq!(plan, corrected.plan);
        assert_eq!(plan.position.to_string(), "strategize/queued");
        assert_eq!((plan.attempt, plan.position.reversions()), (2, 0));
        let kept = fixture.decisions.corrections(it.plan).await.unwrap();
        assert_eq!(kept, std::slice::from_ref(&corrected.correction));
        assert_eq!(kept[0].state, CorrectionState::Complete);
        assert_eq!(kept[0].affected, gone);
        assert_eq!(kept[0].new_decision_id, Some(new.decision_id));
        let again = correction(it.first.decision_id, CorrectionMode::Append);
        let refused = fixture.decisions.correct(again).await.unwrap_err();
        assert!(matches!(refused, DecisionFailure::Superseded { .. }));
        fixture.assert_journal_agrees(it.plan).await;
        assert_event_order(&events(&fixture.opened.store, StreamId::Plan(it.plan)).await);
    });
}

/// The journal records a correction from its request to its end, with the plan's move in between.
fn assert_event_order(events: &[Event]) {
    let wanted = [
        EventKind::CorrectionRequested,
        EventKind::DecisionSuperseded,
        EventKind::DecisionCreated,
        EventKind::DecisionCorrected,
        EventKind::PlanCorrected,
        EventKind::InvariantReconciled,
        EventKind::CorrectionCompleted,
    ];
    let begin = events
        .iter()
        .position(|event| event.kind == EventKind::CorrectionRequested)
        .unwrap();
    let found: Vec<_> = events[begin..]
        .iter()
        .map(|event| event.kind.clone())
        .filter(|kind| *kind != EventKind::InvariantEnforced)
        .collect();
    assert_eq!(found, wanted);
    assert!(events[begin..].iter().all(|event| event.actor == "eva"));
}

fn a_revert_in_execute_restarts_execute(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let working_plan = WorkingPlan::start(&fixture).await;
        let planned = strategy(working_plan.root, "planned");
        let planned = working_plan.decide(&fixture, planned).await;
        working_plan.execute(&fixture).await;
        let built = implementation(planned.decision_id, "built");
        let built = working_plan.decide(&fixture, built).await;
        let plan = working_plan.release().await;
        set_last_step(&fixture, plan).await;
        let corrected = correct(&fixture, built.decision_id, CorrectionMode::Revert).await;
        assert_eq!(corrected.plan.position.to_string(), "execute/queued");
        assert_eq!(corrected.plan.position.reversions(), 0);
        assert_eq!(corrected.plan.last_completed_step, None);
        assert_eq!(corrected.decision.phase, Phase::Execute);
        assert_eq!(
            superseded_ids(&all_decisions(&fixture, plan).await),
            [built.decision_id],
            "what was planned stays"
        );
        // Work planned in strategize is planned again there.
        let corrected = correct(&fixture, planned.decision_id, CorrectionMode::Revert).await;
        assert_eq!(corrected.plan.position.to_string(), "strategize/queued");
        assert_eq!(corrected.plan.position.reversions(), 1);
        assert_eq!(corrected.plan.attempt, 3);
        assert_eq!(corrected.plan, fixture.plan(plan).await);
        // A correction made in execute can itself be corrected afterwards.
        let decisions = all_decisions(&fixture, plan).await;
        let correction = decisions.iter().rfind(|it| it.is_correction).unwrap();
        let corrected = correct(&fixture, correction.decision_id, CorrectionMode::Revert).await;
        assert_eq!(corrected.plan.position.to_string(), "strategize/queued");
        fixture.assert_journal_agrees(plan).await;
    });
}

async fn set_last_step(fixture: &LifecycleFixture, plan: PlanId) {
    write(&fixture.opened.store, move |tx| {
        let mut plan = tx.plan_for_update(plan)?;
        plan.last_completed_step = Some(4);
        tx.update_plan(&plan)
    })
    .await;
}

fn reverting_the_root_supersedes_all_below_it(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let it = create_decided_plan(&fixture).await;
        let before: Vec<DecisionId> = all_decisions(&fixture, it.plan)
            .await
            .iter()
            .map(|it| it.decision_id)
            .filter(|id| *id != it.root)
            .collect();
        let corrected = correct(&fixture, it.root, CorrectionMode::Revert).await;
        assert_eq!(
            superseded_ids(&all_decisions(&fixture, it.plan).await),
            before
        );
        assert_eq!(corrected.decision.parent_decision_id, Some(it.root));
        assert_eq!(corrected.correction.affected[0], it.root);
        // The effective rules are decided again.
        let counting = all_decisions(&fixture, it.plan).await;
        let rules = counting
            .iter()
            .filter(|it| it.decision_type == DecisionType::InvariantEnforced && !it.is_superseded);
        assert_eq!(rules.count(), 2);
        correct(&fixture, it.root, CorrectionMode::Revert).await;
        let attempts = fixture.decisions.corrections(it.plan).await.unwrap();
        assert_eq!(attempts.len(), 2);
    });
}

fn an_append_supersedes_nothing_and_keeps_the_steps(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let working_plan = WorkingPlan::start(&fixture).await;
        let planned = strategy(working_plan.root, "planned");
        let planned = working_plan.decide(&fixture, planned).await;
        working_plan.execute(&fixture).await;
        let plan = working_plan.release().await;
        set_last_step(&fixture, plan).await;
        let corrected = correct(&fixture, planned.decision_id, CorrectionMode::Append).await;
        assert_eq!(superseded_ids(&all_decisions(&fixture, plan).await), []);
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

fn corrections_in_apply_count_as_reversions(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let mut working_plan = WorkingPlan::start(&fixture).await;
        let root = working_plan.root;
        for reversions in 1..=3 {
            let plan = release_at_apply(&fixture, working_plan).await;
            let corrected = correct(&fixture, root, CorrectionMode::Append).await;
            assert_eq!(corrected.plan.position.to_string(), "strategize/queued");
            assert_eq!(corrected.plan.position.reversions(), reversions);
            working_plan = WorkingPlan::resume(&fixture, plan).await;
        }
        let plan = release_at_apply(&fixture, working_plan).await;
        let before = correction_state(&fixture, plan).await;
        let request = correction(root, CorrectionMode::Append);
        let refused = fixture.decisions.correct(request).await.unwrap_err();
        assert!(refused.to_string().contains("has been reverted 3 times"));
        assert_eq!(correction_state(&fixture, plan).await, before);
    });
}

/// Moves the plan to `apply/queued` and releases it there.
async fn release_at_apply(fixture: &LifecycleFixture, working_plan: WorkingPlan) -> PlanId {
    working_plan.execute(fixture).await;
    fixture
        .lifecycle
        .as_owner(&working_plan.run)
        .complete()
        .await
        .unwrap();
    let owner = fixture.lifecycle.as_owner(&working_plan.run);
    owner.advance(Phase::Apply).await.unwrap();
    working_plan.release().await
}

fn a_plan_that_runs_or_is_finished_is_not_corrected(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let working_plan = WorkingPlan::start(&fixture).await;
        let (plan, root) = (working_plan.plan, working_plan.root);
        for mode in CorrectionMode::ALL.iter().copied() {
            let before = correction_state(&fixture, plan).await;
            let refused = fixture.decisions.correct(correction(root, mode)).await;
            let Err(DecisionFailure::Lifecycle(LifecycleError::Owned { holder, .. })) = refused
            else {
                panic!("{refused:?} instead of who runs it");
            };
            assert_eq!(holder.owner, fixture.owner());
            let refused = fixture.decisions.impact(root, mode).await;
            assert!(matches!(
                refused,
                Err(DecisionFailure::Lifecycle(LifecycleError::Owned { .. }))
            ));
            assert_eq!(correction_state(&fixture, plan).await, before);
        }
        working_plan.release().await;
        let cancelled = fixture
            .lifecycle
            .cancel(plan, "enough", "eva")
            .await
            .unwrap();
        assert!(matches!(cancelled, CancelOutcome::Done(_)));
        let before = correction_state(&fixture, plan).await;
        let request = correction(root, CorrectionMode::Revert);
        let refused = fixture.decisions.correct(request).await.unwrap_err();
        assert!(refused.to_string().contains("which is final"), "{refused}");
        assert_eq!(correction_state(&fixture, plan).await, before);
    });
}

fn a_dry_run_reports_the_same_and_writes_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let it = create_decided_plan(&fixture).await;
        let before = correction_state(&fixture, it.plan).await;
        let target = it.first.decision_id;
        let preview = fixture
            .decisions
            .impact(target, CorrectionMode::Revert)
            .await;
        let preview = preview.unwrap();
        assert_eq!(correction_state(&fixture, it.plan).await, before);
        assert_eq!(
            (preview.to, preview.superseded.len()),
            (Phase::Strategize, 3)
        );
        assert_eq!(preview.unaffected, before.1.len() - 3);
        let corrected = correct(&fixture, target, CorrectionMode::Revert).await;
        assert_eq!(corrected.preview, preview);
        let refused = fixture
            .decisions
            .impact(target, CorrectionMode::Revert)
            .await;
        assert!(matches!(refused, Err(DecisionFailure::Superseded { .. })));
        let stays = fixture
            .decisions
            .impact(it.apart.decision_id, CorrectionMode::Append);
        assert_eq!(stays.await.unwrap().superseded, []);
    });
}

fn guidance_is_needed_and_bounded(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let plan = fixture.new_plan().await;
        let root = plan.decision_root_id.unwrap();
        let guided = |guidance: String| CorrectionRequest {
            guidance,
            ..correction(root, CorrectionMode::Append)
        };
        for empty in ["", " \n\t"] {
            let refused = fixture.decisions.correct(guided(empty.to_owned())).await;
            assert!(matches!(refused, Err(DecisionFailure::NoGuidance)));
        }
        let long = "ü".repeat(GUIDANCE_MAXIMUM / 2);
        fixture
            .decisions
            .correct(guided(long.clone()))
            .await
            .unwrap();
        let refused = fixture.decisions.correct(guided(long + "x")).await;
        assert_eq!(
            refused.unwrap_err().to_string(),
            "guidance may be 65536 bytes long, this has 65537"
        );
    });
}

fn a_superseded_ancestor_in_a_cycle_is_skipped(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let working_plan = WorkingPlan::start(&fixture).await;
        let root = working_plan.root;
        let parent = working_plan
            .decide(&fixture, strategy(root, "parent"))
            .await;
        let child = strategy(parent.decision_id, "child");
        let child = working_plan.decide(&fixture, child).await;
        let back = DecisionEdge {
            from: child.decision_id,
            to: parent.decision_id,
        };
        fixture
            .decisions
            .record_influence(&working_plan.run, back)
            .await
            .unwrap();
        let plan = working_plan.release().await;
        let corrected = correct(&fixture, child.decision_id, CorrectionMode::Revert).await;
        assert_eq!(
            superseded_ids(&all_decisions(&fixture, plan).await),
            [parent.decision_id, child.decision_id]
        );
        assert_eq!(corrected.decision.parent_decision_id, Some(root));
    });
}
