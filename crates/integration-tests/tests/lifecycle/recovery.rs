//! Errors of plans: one append each, repeats counted, and retries as the profile permits.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{
    Decision, DecisionType, ErrorCategory, EventKind, Phase, RecoveryAction, StreamId,
};
use cleveragents_engine::error_history::{NewErrorRecord, StepRetry};
use cleveragents_integration_tests::assertions::assert_missing;
use cleveragents_integration_tests::samples::plan_id;
use cleveragents_integration_tests::store_access::{events, read, release_run, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};

use super::fixture::LifecycleFixture;

contract! {
    an_error_is_recorded_with_its_recovery,
    repeated_errors_are_counted_and_decided_once,
    a_step_is_retried_as_often_as_allowed,
    permanent_errors_are_not_retried,
    a_new_attempt_or_strategy_resets_the_retries,
}

fn new_error(category: ErrorCategory, message: &str) -> NewErrorRecord {
    NewErrorRecord {
        category,
        message: message.to_owned(),
        step: Some(2),
        cause_chain: vec!["reset".to_owned(), "cable".to_owned()],
    }
}

async fn recoveries(fixture: &LifecycleFixture, plan: PlanId) -> Vec<Decision> {
    let all = read(&fixture.opened.store, move |tx| tx.decisions_of(plan)).await;
    all.into_iter()
        .filter(|it| it.decision_type == DecisionType::ErrorRecovery)
        .collect()
}

fn an_error_is_recorded_with_its_recovery(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let plan = fixture.new_plan().await;
        let id = plan.identity.plan_id;
        assert_eq!(fixture.recovery.history(id).await.unwrap(), []);
        let given = new_error(ErrorCategory::Timeout, "no net");
        let record = fixture.recovery.record(id, given, "eva").await.unwrap();
        assert_eq!((record.phase, record.attempt), (Phase::Strategize, 1));
        assert_eq!((record.step, record.sequence), (Some(2), Some(1)));
        assert_eq!(record.cause_chain, ["reset", "cable"]);
        assert_eq!(record.recovery, RecoveryAction::Retry);
        assert_eq!((&record.rollback, record.hints.len()), (&None, 0));
        let decided = recoveries(&fixture, id).await;
        assert_eq!(decided.len(), 1);
        assert_eq!(decided[0].parent_decision_id, plan.decision_root_id);
        assert_eq!(decided[0].chosen_option, "retry");
        assert_eq!(fixture.recovery.history(id).await.unwrap(), [record]);
        let nowhere = plan_id();
        let given = new_error(ErrorCategory::Timeout, "no net");
        let missing = ("plan", nowhere.to_string());
        assert_missing(
            fixture.recovery.record(nowhere, given, "eva").await,
            (missing.0, &missing.1),
        );
        assert_missing(
            fixture.recovery.history(nowhere).await,
            (missing.0, &missing.1),
        );
    });
}

fn repeated_errors_are_counted_and_decided_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        for message in ["a", "b", "a", "c", "b", "a"] {
            let given = new_error(ErrorCategory::Tool, message);
            fixture.recovery.record(id, given, "eva").await.unwrap();
        }
        let found = fixture.recovery.history(id).await.unwrap();
        let counts: Vec<_> = found
            .iter()
            .map(|error| (error.message.as_str(), error.occurrences))
            .collect();
        assert_eq!(counts, [("a", 3), ("b", 2), ("c", 1)]);
        assert_eq!(recoveries(&fixture, id).await.len(), 3);
        let story = events(&fixture.opened.store, StreamId::Plan(id)).await;
        let text = story
            .iter()
            .filter(|it| it.kind == EventKind::ErrorRecorded);
        assert_eq!(text.count(), 6);
    });
}

fn a_step_is_retried_as_often_as_allowed(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let plan = fixture.new_plan().await;
        let id = plan.identity.plan_id;
        assert_eq!(plan.brief.automation_profile.limits.max_retries_per_step, 3);
        let mut text = Vec::new();
        for failure in 0..=4 {
            if failure > 0 {
                // Equal and different errors count alike.
                let message = format!("no net {}", failure % 2);
                let given = new_error(ErrorCategory::RateLimit, &message);
                fixture.recovery.record(id, given, "eva").await.unwrap();
            }
            let asked = fixture.recovery.should_retry(id, Some(2)).await;
            text.push(asked.unwrap());
        }
        let wanted = [
            StepRetry::Yes { left: 3 },
            StepRetry::Yes { left: 3 },
            StepRetry::Yes { left: 2 },
            StepRetry::Yes { left: 1 },
            StepRetry::Exhausted { limit: 3 },
        ];
        assert_eq!(text, wanted);
        let other = fixture.recovery.should_retry(id, Some(3)).await.unwrap();
        assert_eq!(other, StepRetry::Yes { left: 3 });
    });
}

fn permanent_errors_are_not_retried(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        for category in ErrorCategory::ALL {
            let id = fixture.new_plan().await.identity.plan_id;
            let given = new_error(*category, "so");
            fixture.recovery.record(id, given, "eva").await.unwrap();
            let asked = fixture.recovery.should_retry(id, Some(2)).await.unwrap();
            let wanted = if category.is_transient() {
                StepRetry::Yes { left: 3 }
            } else {
                StepRetry::NotTransient
            };
            assert_eq!(asked, wanted, "{category}");
        }
    });
}

/// Records the same error until the step may not be retried.
async fn exhaust_retries(fixture: &LifecycleFixture, id: PlanId) {
    for _ in 0..4 {
        let given = new_error(ErrorCategory::Timeout, "no net");
        fixture.recovery.record(id, given, "eva").await.unwrap();
    }
    let asked = fixture.recovery.should_retry(id, Some(2)).await.unwrap();
    assert_eq!(asked, StepRetry::Exhausted { limit: 3 });
}

fn a_new_attempt_or_strategy_resets_the_retries(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let id = fixture.new_plan().await.identity.plan_id;
        exhaust_retries(&fixture, id).await;
        write(&fixture.opened.store, move |tx| {
            let mut plan = tx.plan_for_update(id)?;
            plan.attempt += 1;
            tx.update_plan(&plan)
        })
        .await;
        exhaust_retries(&fixture, id).await;
        let run = fixture.claim(id).await;
        fixture.start(&run).await;
        fixture.fail(&run, "no net").await;
        release_run(run).await;
        let back = fixture
            .lifecycle
            .revert(id, Phase::Strategize, "no net", "eva")
            .await;
        back.unwrap();
        exhaust_retries(&fixture, id).await;
        let found = fixture.recovery.history(id).await.unwrap();
        assert_eq!((found.len(), found[0].occurrences), (1, 12));
    });
}
