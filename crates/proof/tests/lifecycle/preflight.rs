//! Preflight: every check that fails is named and the plan stays where it is.

use cleveragents_domain::{AutomationProfile, NamespacedName, ProfileName, Project, Resource};
use cleveragents_engine::lifecycle::{
    ActionChoice, CHECKS, LifecycleError, Surroundings, UseRequest,
};
use cleveragents_proof::lifecycle_samples::profile;
use cleveragents_proof::samples::name;
use cleveragents_proof::verbs::give_back;
use cleveragents_proof::verbs::write;
use cleveragents_proof::{Backend, Place, block_on, contract};

use super::scene::{AllThere, Scene, draft, request, store_project};

contract! {
    each_check_fails_alone_by_its_name,
    all_checks_that_fail_are_named_at_once,
    a_deleted_project_is_named,
    a_plan_without_resources_does_not_start,
    what_a_profile_does_not_ask_for_is_not_checked,
}

/// A world in which some things are not there.
#[derive(Debug, Clone, Copy, Default)]
struct Lacking {
    actors: bool,
    models: bool,
    tools: bool,
    resources: bool,
    sandboxes: bool,
    checkpoints: bool,
}

const NOTHING_THERE: Lacking = Lacking {
    actors: true,
    models: true,
    tools: true,
    resources: false,
    sandboxes: true,
    checkpoints: true,
};

impl Surroundings for Lacking {
    fn actor(&self, name: &NamespacedName) -> Result<(), String> {
        lacking(self.actors, || format!("no actor {name}"))
    }

    fn model(&self, actor: &NamespacedName) -> Result<(), String> {
        lacking(self.models, || format!("no model for {actor}"))
    }

    fn tool(&self, name: &NamespacedName) -> Result<(), String> {
        lacking(self.tools, || format!("no tool {name}"))
    }

    fn readable(&self, resource: &Resource) -> Result<(), String> {
        lacking(self.resources, || format!("{} is not there", resource.name))
    }

    fn sandboxed(&self, resource: &Resource) -> Result<(), String> {
        lacking(self.sandboxes, || {
            format!("{} has no sandbox", resource.name)
        })
    }

    fn checkpointed(&self, resource: &Resource) -> Result<(), String> {
        lacking(self.checkpoints, || {
            format!("{} has no checkpoints", resource.name)
        })
    }
}

fn lacking(lacks: bool, reason: impl Fn() -> String) -> Result<(), String> {
    match lacks {
        true => Err(reason()),
        false => Ok(()),
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
    give_back(run).await;
    match refused {
        Err(LifecycleError::Preflight { failures }) => {
            failures.iter().map(ToString::to_string).collect()
        }
        other => panic!("{other:?} instead of failed checks"),
    }
}

/// A profile that asks for everything and contradicts nothing.
fn strict(text: &str) -> AutomationProfile {
    let mut strict = profile(text);
    strict.require_sandbox = true;
    strict.require_checkpoints = true;
    strict
}

/// A request for a plan of the sample action with more lines, under `profile`.
async fn asked(scene: &Scene, more: &str, profile: AutomationProfile) -> UseRequest {
    let named = profile.name.clone();
    write(&scene.opened.store, move |unit| {
        unit.insert_profile(&profile)
    })
    .await;
    let ProfileName::Custom(_) = &named else {
        panic!("{named} is no profile of ours");
    };
    UseRequest {
        action: ActionChoice::Given(Box::new(draft(more))),
        automation_profile: Some(named),
        ..request()
    }
}

/// A profile of that name, changed by `change`.
fn changed(text: &str, change: impl Fn(&mut AutomationProfile)) -> AutomationProfile {
    let mut profile = strict(text);
    change(&mut profile);
    profile
}

/// What is asked for in which world, and all that is said of it.
struct Single {
    more: &'static str,
    profile: AutomationProfile,
    world: Lacking,
    wanted: &'static [&'static str],
}

/// What the world lacks.
fn failures_of_the_world() -> [Single; 4] {
    let lacking = |change: fn(&mut Lacking)| {
        let mut world = Lacking::default();
        change(&mut world);
        world
    };
    let single = |text, world, wanted| Single {
        more: "",
        profile: strict(text),
        world,
        wanted,
    };
    [
        single(
            "team/actors",
            lacking(|world| world.actors = true),
            &[
                "actors: no actor builtin/planner",
                "actors: no actor builtin/worker",
            ],
        ),
        single(
            "team/blind",
            lacking(|world| world.resources = true),
            &["resources: local/folder is not there"],
        ),
        single(
            "team/open",
            lacking(|world| world.sandboxes = true),
            &["sandbox: local/folder has no sandbox"],
        ),
        single(
            "team/final",
            lacking(|world| world.checkpoints = true),
            &["rollback: local/folder has no checkpoints"],
        ),
    ]
}

/// What action and profile say that cannot be.
fn failures_of_the_brief() -> [Single; 5] {
    let tool = || name("builtin/file-write");
    let single = |more, profile, wanted| Single {
        more,
        profile,
        world: Lacking::default(),
        wanted,
    };
    let mut tools = single(
        "skills: [team/rust]\n",
        changed("team/tools", |it| it.guards.tool_allowlist = vec![tool()]),
        &[
            "tools: no tool team/rust",
            "tools: no tool builtin/file-write",
        ],
    );
    tools.world.tools = true;
    let torn = changed("team/torn", |it| {
        it.guards.tool_allowlist = vec![tool()];
        it.guards.tool_denylist = vec![tool()];
        it.guards.max_tool_calls_per_step = Some(0);
    });
    let torn = single(
        "skills: [builtin/file-write]\n",
        torn,
        &[
            "profile: builtin/file-write is both allowed and denied by team/torn",
            "profile: the action needs builtin/file-write, which team/torn denies",
            "profile: team/torn allows no tool call in a step",
        ],
    );
    let poor = single(
        "budget: {usd: 0, tokens: 0, wall: 0}\n",
        strict("team/poor"),
        &[
            "budget: the action's budget has no US dollars",
            "budget: the action's budget has no tokens",
            "budget: the action's budget has no time",
        ],
    );
    let mean = single(
        "budget: {usd: 5}\n",
        changed("team/mean", |it| it.guards.max_total_cost = Some(2.5)),
        &["budget: the action's budget of 5.00 USD is above the 2.50 USD that team/mean allows"],
    );
    let broke = single(
        "",
        changed("team/broke", |it| it.guards.max_total_cost = Some(0.0)),
        &["budget: team/broke allows no cost at all"],
    );
    [tools, torn, poor, mean, broke]
}

fn each_check_fails_alone_by_its_name(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let singles = failures_of_the_world().into_iter();
        for single in singles.chain(failures_of_the_brief()) {
            let asked = asked(&scene, single.more, single.profile).await;
            let found = failures(&scene, asked, &single.world).await;
            assert_eq!(found, single.wanted);
        }
        // An argument may leave nothing of a text that is made of it.
        let asked = UseRequest {
            action: ActionChoice::Given(Box::new(draft("checks: [{run: '{{ args.branch }}'}]\n"))),
            arguments: vec!["branch= ".to_owned()],
            ..request()
        };
        let wanted = "schema: `checks.run` must not be empty";
        assert_eq!(failures(&scene, asked, &AllThere).await[0], wanted);
    });
}

fn all_checks_that_fail_are_named_at_once(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let torn = changed("team/torn", |it| {
            it.guards.tool_allowlist = vec![name("builtin/read"), name("builtin/write")];
            it.guards.tool_denylist = vec![name("builtin/write")];
            it.guards.max_total_cost = Some(0.0);
        });
        store_project(&scene.opened.store, "local/gone").await;
        let mut asked = asked(&scene, "checks: [{run: '{{ args.branch }}'}]\n", torn).await;
        asked.arguments = vec!["branch= ".to_owned()];
        asked.projects.push(name("local/gone"));
        let plan = scene.lifecycle.use_action(asked).await.unwrap();
        write(&scene.opened.store, |unit| {
            let gone: Project = unit.project(&name("local/gone"))?;
            unit.delete_project(&gone)
        })
        .await;
        let mut named = Vec::new();
        // What cannot be seen cannot be sandboxed: two looks show all.
        for resources in [true, false] {
            let world = Lacking {
                resources,
                ..NOTHING_THERE
            };
            let found = failures_of(&scene, plan.clone(), &world).await;
            let check = |failure: &String| failure.split(':').next().unwrap().to_owned();
            named.extend(found.iter().map(check));
            let last = found.last().unwrap().as_str();
            assert_eq!(last.starts_with("resources: "), resources, "{found:?}");
        }
        for check in CHECKS {
            assert!(named.iter().any(|name| name == check), "{check}: {named:?}");
        }
    });
}

fn what_a_profile_does_not_ask_for_is_not_checked(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let easy = changed("team/easy", |it| {
            it.require_sandbox = false;
            it.require_checkpoints = false;
            it.guards.require_approval_for_writes = true;
            it.guards.max_total_cost = Some(5.0);
        });
        let more = "read_only: true\nbudget: {usd: 5, tokens: 1, wall: 1}\n";
        let asked = asked(&scene, more, easy).await;
        let plan = scene.lifecycle.use_action(asked).await.unwrap();
        let run = scene.claim(plan.identity.plan_id).await;
        let world = Lacking {
            sandboxes: true,
            checkpoints: true,
            ..Lacking::default()
        };
        let started = scene.lifecycle.start(&run, &world).await.unwrap();
        assert_eq!(started.position.to_string(), "strategize/processing");
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
