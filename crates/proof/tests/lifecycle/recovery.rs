//! Errors of plans: one append each, repeats counted, and retries as the profile permits.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{
    Decision, DecisionType, ErrorCategory, EventKind, Phase, Recovery, StreamId,
};
use cleveragents_engine::recovery::{Retry, Trouble};
use cleveragents_proof::answers::assert_missing;
use cleveragents_proof::samples::plan_id;
use cleveragents_proof::verbs::{events, give_back, read, write};
use cleveragents_proof::{Backend, Place, block_on, contract};

use super::scene::{AllThere, Scene};

contract! {
    an_error_is_recorded_with_its_recovery,
    repeats_are_counted_and_decided_once,
    a_step_is_tried_again_as_often_as_the_profile_says,
    what_does_not_pass_is_not_tried_again,
    another_attempt_and_another_strategy_begin_anew,
}

fn trouble(category: ErrorCategory, message: &str) -> Trouble {
    Trouble {
        category,
        message: message.to_owned(),
        step: Some(2),
        cause_chain: vec!["reset".to_owned(), "cable".to_owned()],
    }
}

async fn recoveries(scene: &Scene, plan: PlanId) -> Vec<Decision> {
    let all = read(&scene.opened.store, move |unit| unit.decisions_of(plan)).await;
    all.into_iter()
        .filter(|it| it.decision_type == DecisionType::ErrorRecovery)
        .collect()
}

fn an_error_is_recorded_with_its_recovery(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let plan = scene.new_plan().await;
        let id = plan.identity.plan_id;
        assert_eq!(scene.recovery.history(id).await.unwrap(), []);
        let given = trouble(ErrorCategory::Timeout, "no net");
        let record = scene.recovery.record(id, given, "eva").await.unwrap();
        assert_eq!((record.phase, record.attempt), (Phase::Strategize, 1));
        assert_eq!((record.step, record.sequence), (Some(2), Some(1)));
        assert_eq!(record.cause_chain, ["reset", "cable"]);
        assert_eq!(record.recovery, Recovery::Retry);
        assert!(record.hints[0].command.contains(&id.to_string()));
        let decided = recoveries(&scene, id).await;
        assert_eq!(decided.len(), 1);
        assert_eq!(decided[0].parent_decision_id, plan.decision_root_id);
        assert_eq!(decided[0].chosen_option, "retry");
        assert_eq!(scene.recovery.history(id).await.unwrap(), [record]);
        let nowhere = plan_id();
        let given = trouble(ErrorCategory::Timeout, "no net");
        let missing = ("plan", nowhere.to_string());
        assert_missing(
            scene.recovery.record(nowhere, given, "eva").await,
            (missing.0, &missing.1),
        );
        assert_missing(
            scene.recovery.history(nowhere).await,
            (missing.0, &missing.1),
        );
    });
}

fn repeats_are_counted_and_decided_once(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        for message in ["a", "b", "a", "c", "b", "a"] {
            let given = trouble(ErrorCategory::Tool, message);
            scene.recovery.record(id, given, "eva").await.unwrap();
        }
        let found = scene.recovery.history(id).await.unwrap();
        let counts: Vec<_> = found
            .iter()
            .map(|error| (error.message.as_str(), error.occurrences))
            .collect();
        assert_eq!(counts, [("a", 3), ("b", 2), ("c", 1)]);
        assert_eq!(recoveries(&scene, id).await.len(), 3);
        let story = events(&scene.opened.store, StreamId::Plan(id)).await;
        let told = story
            .iter()
            .filter(|it| it.kind == EventKind::ErrorRecorded);
        assert_eq!(told.count(), 6);
    });
}

fn a_step_is_tried_again_as_often_as_the_profile_says(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let plan = scene.new_plan().await;
        let id = plan.identity.plan_id;
        assert_eq!(plan.brief.automation_profile.limits.max_retries_per_step, 3);
        let mut told = Vec::new();
        for failure in 0..=4 {
            if failure > 0 {
                // The same and another error count alike.
                let message = format!("no net {}", failure % 2);
                let given = trouble(ErrorCategory::RateLimit, &message);
                scene.recovery.record(id, given, "eva").await.unwrap();
            }
            let asked = scene.recovery.should_retry(id, Some(2)).await;
            told.push(asked.unwrap());
        }
        let wanted = [
            Retry::Yes { left: 3 },
            Retry::Yes { left: 3 },
            Retry::Yes { left: 2 },
            Retry::Yes { left: 1 },
            Retry::Exhausted { limit: 3 },
        ];
        assert_eq!(told, wanted);
        let other = scene.recovery.should_retry(id, Some(3)).await.unwrap();
        assert_eq!(other, Retry::Yes { left: 3 });
    });
}

fn what_does_not_pass_is_not_tried_again(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        for category in ErrorCategory::ALL {
            let id = scene.new_plan().await.identity.plan_id;
            let given = trouble(*category, "so");
            scene.recovery.record(id, given, "eva").await.unwrap();
            let asked = scene.recovery.should_retry(id, Some(2)).await.unwrap();
            let wanted = match category.is_transient() {
                true => Retry::Yes { left: 3 },
                false => Retry::NotTransient,
            };
            assert_eq!(asked, wanted, "{category}");
        }
    });
}

/// Records the same error until the step may not be tried again.
async fn exhaust(scene: &Scene, id: PlanId) {
    for _ in 0..4 {
        let given = trouble(ErrorCategory::Timeout, "no net");
        scene.recovery.record(id, given, "eva").await.unwrap();
    }
    let asked = scene.recovery.should_retry(id, Some(2)).await.unwrap();
    assert_eq!(asked, Retry::Exhausted { limit: 3 });
}

fn another_attempt_and_another_strategy_begin_anew(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        exhaust(&scene, id).await;
        write(&scene.opened.store, move |unit| {
            let mut plan = unit.plan_for_update(id)?;
            plan.attempt += 1;
            unit.update_plan(&plan)
        })
        .await;
        exhaust(&scene, id).await;
        let run = scene.claim(id).await;
        scene.lifecycle.start(&run, &AllThere).await.unwrap();
        scene.lifecycle.fail(&run, "no net").await.unwrap();
        give_back(run).await;
        let back = scene
            .lifecycle
            .revert(id, Phase::Strategize, "no net", "eva")
            .await;
        back.unwrap();
        exhaust(&scene, id).await;
        let found = scene.recovery.history(id).await.unwrap();
        assert_eq!((found.len(), found[0].occurrences), (1, 12));
    });
}
