//! Deleting a project: never under a plan that is not finished, and never by half.

use std::sync::Arc;

use cleveragents_domain::{EventKind, Phase, StreamId};
use cleveragents_engine::lifecycle::{LifecycleError, UseRequest};
use cleveragents_engine::ports::{Liveness, PlanFilter, StoreError};
use cleveragents_engine::projects::{Force, ProjectError};
use cleveragents_proof::samples::name;
use cleveragents_proof::verbs::{events, give_back, together};
use cleveragents_proof::{Backend, Place, block_on, contract, trials};

use super::projects::{new_project, service, service_with, shop};
use super::scene::{AllDead, AllThere, Scene, request};

contract! {
    a_project_with_active_plans_stays,
    force_cancels_plans_that_nobody_runs,
    force_asks_owners_to_stop_and_deletes_nothing,
    force_does_not_wait_for_the_dead,
    force_stops_at_what_cannot_be_cancelled,
    a_plan_is_made_or_its_project_is_deleted,
}

fn a_project_with_active_plans_stays(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let service = service(&scene);
        let (done, open) = (scene.new_plan().await, scene.new_plan().await);
        let finished = done.identity.plan_id;
        scene.lifecycle.cancel(finished, "no", "eva").await.unwrap();
        match service.delete(shop(), Force::Refuse, "eva").await {
            Err(ProjectError::ActivePlans { project, plans }) => {
                assert_eq!((project, plans), (shop(), vec![open.clone()]));
            }
            other => panic!("{other:?} instead of active plans"),
        }
        let active = service.active_plans(shop()).await.unwrap();
        assert_eq!(active, std::slice::from_ref(&open));
        let view = service.show(shop()).await.unwrap();
        assert_eq!((view.project.version, view.resources.len()), (1, 1));
        scene
            .lifecycle
            .cancel(open.identity.plan_id, "no", "eva")
            .await
            .unwrap();
        let deleted = service.delete(shop(), Force::Refuse, "eva").await.unwrap();
        assert_eq!(deleted.resources_unlinked, [name("local/folder")]);
        assert!(deleted.plans_cancelled.is_empty());
        let again = service.delete(shop(), Force::Cancel, "eva").await;
        assert_missing(again.unwrap_err());
        let kept = service.show_resource(name("local/folder")).await.unwrap();
        assert!(kept.projects.is_empty());
        scene.plan(finished).await;
    });
}

/// The project is not there, by the name it was asked for with.
#[track_caller]
fn assert_missing(error: ProjectError) {
    match error {
        ProjectError::Store(StoreError::NotFound { what, id }) => {
            assert_eq!((what, id.as_str()), ("project", "local/shop"));
        }
        other => panic!("{other:?} instead of NotFound"),
    }
}

fn force_cancels_plans_that_nobody_runs(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let service = service(&scene);
        let mut ids = vec![
            scene.new_plan().await.identity.plan_id,
            scene.new_plan().await.identity.plan_id,
        ];
        ids.sort();
        let deleted = service.delete(shop(), Force::Cancel, "eva").await.unwrap();
        assert_eq!(deleted.plans_cancelled, ids);
        for id in ids {
            let plan = scene.plan(id).await;
            assert_eq!(plan.position.to_string(), "strategize/cancelled");
            let reason = "project local/shop was deleted";
            assert_eq!(plan.error_message.as_deref(), Some(reason));
            scene.assert_journal_agrees(id).await;
        }
        let told = events(&scene.opened.store, StreamId::System).await;
        assert_eq!(told.last().unwrap().kind, EventKind::ProjectDeleted);
    });
}

fn force_asks_owners_to_stop_and_deletes_nothing(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let service = service(&scene);
        let (idle, busy) = (scene.new_plan().await, scene.new_plan().await);
        let run = scene.claim(busy.identity.plan_id).await;
        scene.lifecycle.start(&run, &AllThere).await.unwrap();
        match service.delete(shop(), Force::Cancel, "eva").await {
            Err(ProjectError::Stopping { plans, .. }) => {
                let ids: Vec<_> = plans.iter().map(|it| it.identity.plan_id).collect();
                assert_eq!(ids, [busy.identity.plan_id]);
            }
            other => panic!("{other:?} instead of plans that stop"),
        }
        // Nothing happened by half: the idle plan goes on, the project and its links are there.
        assert_eq!(scene.plan(idle.identity.plan_id).await, idle);
        let view = service.show(shop()).await.unwrap();
        assert_eq!((view.project.version, view.resources.len()), (1, 1));
        let messages = scene.lifecycle.take_messages(&run).await.unwrap();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].body, "project local/shop is to be deleted");
        scene
            .lifecycle
            .cancel_as_owner(&run, "asked")
            .await
            .unwrap();
        give_back(run).await;
        let deleted = service.delete(shop(), Force::Cancel, "eva").await.unwrap();
        assert_eq!(deleted.plans_cancelled, [idle.identity.plan_id]);
    });
}

fn force_does_not_wait_for_the_dead(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let plan = scene.new_plan().await.identity.plan_id;
        let run = scene.claim(plan).await;
        scene.lifecycle.start(&run, &AllThere).await.unwrap();
        let node = scene.opened.presence.node().to_owned();
        let service = service_with(&scene, Arc::new(AllDead { node }));
        let deleted = service.delete(shop(), Force::Cancel, "eva").await.unwrap();
        assert_eq!(deleted.plans_cancelled, [plan]);
    });
}

fn force_stops_at_what_cannot_be_cancelled(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let service = service(&scene);
        let idle = scene.new_plan().await;
        let deciding = scene.new_plan().await.identity.plan_id;
        let run = scene.claim(deciding).await;
        let lifecycle = &scene.lifecycle;
        lifecycle.start(&run, &AllThere).await.unwrap();
        lifecycle.complete(&run).await.unwrap();
        for phase in [Phase::Execute, Phase::Apply] {
            lifecycle.advance_as_owner(&run, phase).await.unwrap();
            lifecycle.start(&run, &AllThere).await.unwrap();
            if phase == Phase::Execute {
                lifecycle.complete(&run).await.unwrap();
            }
        }
        lifecycle.decide(&run).await.unwrap();
        give_back(run).await;
        match service.delete(shop(), Force::Cancel, "eva").await {
            Err(ProjectError::Applying { plans, .. }) => {
                let ids: Vec<_> = plans.iter().map(|it| it.identity.plan_id).collect();
                assert_eq!(ids, [deciding]);
            }
            other => panic!("{other:?} instead of a plan past cancelling"),
        }
        assert_eq!(scene.plan(idle.identity.plan_id).await, idle);
        service.show(shop()).await.unwrap();
    });
}

fn a_plan_is_made_or_its_project_is_deleted(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let service = service(&scene);
        for round in 0..trials(200, 20) {
            let project = name(&format!("local/p{round}"));
            let new = new_project(&project.to_string(), &[]);
            service.create(new, "eva").await.unwrap();
            let answers = together(4, |number| {
                let (service, lifecycle) = (service.clone(), scene.lifecycle.clone());
                let asked = UseRequest {
                    projects: vec![project.clone()],
                    ..request()
                };
                let project = project.clone();
                async move {
                    if number == 0 {
                        return service
                            .delete(project, Force::Refuse, "eva")
                            .await
                            .map(drop);
                    }
                    // A deletion looks before it writes; who does the same meets it.
                    let _ = service.active_plans(project).await;
                    Ok(lifecycle.use_action(asked).await.map(drop)?)
                }
            })
            .await;
            let filter = PlanFilter {
                project: Some(project.clone()),
                ..PlanFilter::default()
            };
            let plans = scene.lifecycle.list_plans(filter).await.unwrap().total;
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
