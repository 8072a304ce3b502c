//! Deleting a project: never with an unfinished plan, and never partially.

use std::sync::Arc;

use cleveragents_domain::{EventKind, Phase, StreamId};
use cleveragents_engine::lifecycle::{LifecycleError, UseActionRequest};
use cleveragents_engine::projects::{ActivePlanPolicy, ProjectError};
use cleveragents_integration_tests::plan_driver::PassingProbe;
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{events, release_run, run_concurrently};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, trials};
use cleveragents_ports::{Liveness, PlanFilter, StoreError};

use super::fixture::{AllDeadLiveness, LifecycleFixture, request};
use super::projects::{new_project, service, service_with, shop};

contract! {
    a_project_with_active_plans_is_not_deleted,
    force_cancels_idle_plans,
    force_asks_owners_to_stop_and_deletes_nothing,
    force_does_not_wait_for_dead_owners,
    force_stops_at_an_uncancellable_plan,
    concurrent_plan_use_and_project_deletion_have_one_winner,
}

fn a_project_with_active_plans_is_not_deleted(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let service = service(&fixture);
        let (done, open) = (fixture.new_plan().await, fixture.new_plan().await);
        let finished = done.identity.plan_id;
        fixture
            .lifecycle
            .cancel(finished, "no", "eva")
            .await
            .unwrap();
        match service
            .delete(shop(), ActivePlanPolicy::Refuse, "eva")
            .await
        {
            Err(ProjectError::ActivePlans { project, plans }) => {
                assert_eq!((project, plans), (shop(), vec![open.clone()]));
            }
            other => panic!("{other:?} instead of active plans"),
        }
        let active = service.active_plans(shop()).await.unwrap();
        assert_eq!(active, std::slice::from_ref(&open));
        let view = service.show(shop()).await.unwrap();
        assert_eq!((view.project.version, view.resources.len()), (1, 1));
        fixture
            .lifecycle
            .cancel(open.identity.plan_id, "no", "eva")
            .await
            .unwrap();
        let deleted = service
            .delete(shop(), ActivePlanPolicy::Refuse, "eva")
            .await
            .unwrap();
        assert_eq!(deleted.resources_unlinked, [name("local/folder")]);
        assert!(deleted.plans_cancelled.is_empty());
        let again = service
            .delete(shop(), ActivePlanPolicy::Cancel, "eva")
            .await;
        assert_missing(again.unwrap_err());
        let kept = service.show_resource(name("local/folder")).await.unwrap();
        assert!(kept.projects.is_empty());
        fixture.plan(finished).await;
    });
}

/// The project is not found, by the requested name.
#[track_caller]
fn assert_missing(error: ProjectError) {
    match error {
        ProjectError::Store(StoreError::NotFound { entity, id }) => {
            assert_eq!((entity.as_str(), id.as_str()), ("project", "local/shop"));
        }
        other => panic!("{other:?} instead of NotFound"),
    }
}

fn force_cancels_idle_plans(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let service = service(&fixture);
        let mut ids = vec![
            fixture.new_plan().await.identity.plan_id,
            fixture.new_plan().await.identity.plan_id,
        ];
        ids.sort();
        let deleted = service
            .delete(shop(), ActivePlanPolicy::Cancel, "eva")
            .await
            .unwrap();
        assert_eq!(deleted.plans_cancelled, ids);
        for id in ids {
            let plan = fixture.plan(id).await;
            assert_eq!(plan.position.to_string(), "strategize/cancelled");
            let reason = "project local/shop was deleted";
            assert_eq!(plan.error_message.as_deref(), Some(reason));
            fixture.assert_journal_agrees(id).await;
        }
        let message = events(&fixture.opened.store, StreamId::System).await;
        assert_eq!(message.last().unwrap().kind, EventKind::ProjectDeleted);
    });
}

fn force_asks_owners_to_stop_and_deletes_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let service = service(&fixture);
        let (idle, busy) = (fixture.new_plan().await, fixture.new_plan().await);
        let run = fixture.claim(busy.identity.plan_id).await;
        fixture.start(&run).await;
        match service
            .delete(shop(), ActivePlanPolicy::Cancel, "eva")
            .await
        {
            Err(ProjectError::Stopping { plans, .. }) => {
                let ids: Vec<_> = plans.iter().map(|it| it.identity.plan_id).collect();
                assert_eq!(ids, [busy.identity.plan_id]);
            }
            other => panic!("{other:?} instead of plans that stop"),
        }
        // Nothing was partially deleted: the idle plan can continue, the project and its links
        // exist.
        assert_eq!(fixture.plan(idle.identity.plan_id).await, idle);
        let view = service.show(shop()).await.unwrap();
        assert_eq!((view.project.version, view.resources.len()), (1, 1));
        let messages = fixture
            .lifecycle
            .as_owner(&run)
            .take_messages()
            .await
            .unwrap();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].body, "project local/shop is to be deleted");
        fixture
            .lifecycle
            .as_owner(&run)
            .cancel("asked")
            .await
            .unwrap();
        release_run(run).await;
        let deleted = service
            .delete(shop(), ActivePlanPolicy::Cancel, "eva")
            .await
            .unwrap();
        assert_eq!(deleted.plans_cancelled, [idle.identity.plan_id]);
    });
}

fn force_does_not_wait_for_dead_owners(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let plan = fixture.new_plan().await.identity.plan_id;
        let run = fixture.claim(plan).await;
        fixture.start(&run).await;
        let node = fixture.opened.presence.node().to_owned();
        let service = service_with(&fixture, Arc::new(AllDeadLiveness { node }));
        let deleted = service
            .delete(shop(), ActivePlanPolicy::Cancel, "eva")
            .await
            .unwrap();
        assert_eq!(deleted.plans_cancelled, [plan]);
    });
}

fn force_stops_at_an_uncancellable_plan(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let service = service(&fixture);
        let idle = fixture.new_plan().await;
        let deciding = fixture.new_plan().await.identity.plan_id;
        let run = fixture.claim(deciding).await;
        let lifecycle = &fixture.lifecycle;
        lifecycle.as_owner(&run).start(&PassingProbe).await.unwrap();
        lifecycle.as_owner(&run).complete().await.unwrap();
        for phase in [Phase::Execute, Phase::Apply] {
            lifecycle.as_owner(&run).advance(phase).await.unwrap();
            lifecycle.as_owner(&run).start(&PassingProbe).await.unwrap();
            if phase == Phase::Execute {
                lifecycle.as_owner(&run).complete().await.unwrap();
            }
        }
        lifecycle.as_owner(&run).decide().await.unwrap();
        release_run(run).await;
        match service
            .delete(shop(), ActivePlanPolicy::Cancel, "eva")
            .await
        {
            Err(ProjectError::Applying { plans, .. }) => {
                let ids: Vec<_> = plans.iter().map(|it| it.identity.plan_id).collect();
                assert_eq!(ids, [deciding]);
            }
            other => panic!("{other:?} instead of a plan past cancelling"),
        }
        assert_eq!(fixture.plan(idle.identity.plan_id).await, idle);
        service.show(shop()).await.unwrap();
    });
}

fn concurrent_plan_use_and_project_deletion_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let service = service(&fixture);
        for round in 0..trials(200, 20) {
            let project = name(&format!("local/p{round}"));
            let new = new_project(&project.to_string(), &[]);
            service.create(new, "eva").await.unwrap();
            let answers = run_concurrently(4, |number| {
                let (service, lifecycle) = (service.clone(), fixture.lifecycle.clone());
                let asked = UseActionRequest {
                    projects: vec![project.clone()],
                    ..request()
                };
                let project = project.clone();
                async move {
                    if number == 0 {
                        return service
                            .delete(project, ActivePlanPolicy::Refuse, "eva")
                            .await
                            .map(drop);
                    }
                    // A deletion reads before it writes; doing the same here makes both overlap.
                    let _ = service.active_plans(project).await;
                    Ok(lifecycle.use_action(asked).await.map(drop)?)
                }
            })
            .await;
            let filter = PlanFilter {
                projects: vec![project.clone()],
                ..PlanFilter::default()
            };
            let plans = fixture.lifecycle.list_plans(filter).await.unwrap().total;
            let gone = service.show(project.clone()).await.is_err();
            assert_eq!(gone, plans == 0, "{plans} plans, {answers:?}");
            for error in answers.into_iter().filter_map(Result::err) {
                let legal = match &error {
                    ProjectError::ActivePlans { .. } => !gone,
                    ProjectError::Lifecycle(LifecycleError::Store(StoreError::NotFound {
                        id,
                        ..
                    })) => gone && *id == project.to_string(),
                    _ => false,
                };
                assert!(legal, "{error:?}");
            }
        }
    });
}
