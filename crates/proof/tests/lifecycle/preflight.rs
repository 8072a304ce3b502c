//! Preflight: every check that fails is named and the plan stays where it is.

use cleveragents_domain::{NamespacedName, ProfileName, Project, Resource};
use cleveragents_engine::lifecycle::{LifecycleError, Surroundings, UseRequest};
use cleveragents_proof::lifecycle_samples::profile;
use cleveragents_proof::samples::name;
use cleveragents_proof::verbs::write;
use cleveragents_proof::{Backend, Place, block_on, contract};

use super::scene::{AllThere, Scene, request, store_project};

contract! {
    each_failed_check_is_named_and_the_plan_stays,
    a_deleted_project_is_named,
    a_plan_without_resources_does_not_start,
}

/// A world in which nothing is there.
#[derive(Debug)]
struct NothingThere {
    unreadable: bool,
}

impl Surroundings for NothingThere {
    fn actor(&self, name: &NamespacedName) -> Result<(), String> {
        Err(format!("no actor {name}"))
    }

    fn tool(&self, name: &NamespacedName) -> Result<(), String> {
        Err(format!("no tool {name}"))
    }

    fn readable(&self, resource: &Resource) -> Result<(), String> {
        match self.unreadable {
            true => Err(format!("{} is not there", resource.name)),
            false => Ok(()),
        }
    }

    fn sandboxed(&self, resource: &Resource) -> Result<(), String> {
        Err(format!("{} has no sandbox", resource.name))
    }
}

/// The failures of a start, which leaves the plan as it was.
async fn failures(scene: &Scene, request: UseRequest, around: &dyn Surroundings) -> Vec<String> {
    let plan = scene.lifecycle.use_action(request).await.unwrap();
    failures_of(scene, plan, around).await
}

async fn failures_of(
    scene: &Scene,
    plan: cleveragents_domain::Plan,
    around: &dyn Surroundings,
) -> Vec<String> {
    let id = plan.identity.plan_id;
    let run = scene.claim(id).await;
    let refused = scene.lifecycle.start(&run, around).await;
    assert_eq!(scene.plan(id).await, plan);
    match refused {
        Err(LifecycleError::Preflight { failures }) => {
            failures.iter().map(ToString::to_string).collect()
        }
        other => panic!("{other:?} instead of failed checks"),
    }
}

fn each_failed_check_is_named_and_the_plan_stays(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let mut odd = profile("team/odd");
        odd.require_sandbox = true;
        odd.guards.tool_allowlist = vec![name("builtin/read"), name("builtin/write")];
        odd.guards.tool_denylist = vec![name("builtin/write")];
        odd.guards.max_total_cost = Some(0.0);
        let stored = odd.clone();
        write(&scene.opened.store, move |unit| {
            unit.insert_profile(&stored)
        })
        .await;
        let asked = UseRequest {
            automation_profile: Some(ProfileName::Custom(name("team/odd"))),
            ..request()
        };
        let actors = [
            "actors: no actor builtin/planner",
            "actors: no actor builtin/worker",
            "tools: no tool builtin/read",
            "tools: no tool builtin/write",
            "profile: builtin/write is both allowed and denied by team/odd",
            "budget: team/odd allows no cost at all",
        ];
        for (unreadable, last) in [
            (true, "resources: local/folder is not there"),
            (false, "sandbox: local/folder has no sandbox"),
        ] {
            let found = failures(&scene, asked.clone(), &NothingThere { unreadable }).await;
            let wanted: Vec<&str> = actors.into_iter().chain([last]).collect();
            assert_eq!(found, wanted);
        }
    });
}

fn a_deleted_project_is_named(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let plan = scene.new_plan().await;
        write(&scene.opened.store, |unit| {
            let shop: Project = unit.project(&name("local/shop"))?;
            unit.delete_project(&shop)
        })
        .await;
        let found = failures_of(&scene, plan, &AllThere).await;
        assert_eq!(found, ["projects: project local/shop was deleted"]);
    });
}

fn a_plan_without_resources_does_not_start(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        store_project(&scene.opened.store, "local/empty").await;
        let asked = UseRequest {
            projects: vec![name("local/empty")],
            ..request()
        };
        let found = failures(&scene, asked, &AllThere).await;
        assert_eq!(found, ["resources: no project of the plan has a resource"]);
    });
}
