//! Preflight: every failed check is reported and the plan does not move.

use cleveragents_domain::{
    AutomationProfile, NamespacedName, PreflightCheck, ProfileName, Project, Resource,
};
use cleveragents_engine::lifecycle::{
    ActionChoice, LifecycleError, PreflightProbe, UseActionRequest,
};
use cleveragents_integration_tests::lifecycle_samples::profile;
use cleveragents_integration_tests::plan_driver::PassingProbe;
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::release_run;
use cleveragents_integration_tests::store_access::write;
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};

use super::fixture::{LifecycleFixture, draft, request, store_project};

contract! {
    each_check_fails_alone_by_its_name,
    all_checks_that_fail_are_named_at_once,
    a_deleted_project_is_named,
    a_plan_without_resources_does_not_start,
    checks_disabled_by_the_profile_are_skipped,
}

/// A probe that finds some things missing.
#[derive(Debug, Clone, Copy, Default)]
struct FailingProbe {
    actors: bool,
    models: bool,
    tools: bool,
    resources: bool,
    sandboxes: bool,
    checkpoints: bool,
}

const ALL_FAILING: FailingProbe = FailingProbe {
    actors: true,
    models: true,
    tools: true,
    resources: false,
    sandboxes: true,
    checkpoints: true,
};

impl PreflightProbe for FailingProbe {
    fn check_actor(&self, name: &NamespacedName) -> Result<(), String> {
        fail_if(self.actors, || format!("no actor {name}"))
    }

    fn check_model(&self, actor: &NamespacedName) -> Result<(), String> {
        fail_if(self.models, || format!("no model for {actor}"))
    }

    fn check_tool(&self, name: &NamespacedName) -> Result<(), String> {
        fail_if(self.tools, || format!("no tool {name}"))
    }

    fn check_readable(&self, resource: &Resource) -> Result<(), String> {
        fail_if(self.resources, || format!("{} is not there", resource.name))
    }

    fn check_sandbox(&self, resource: &Resource) -> Result<(), String> {
        fail_if(self.sandboxes, || {
            format!("{} has no sandbox", resource.name)
        })
    }

    fn check_checkpoints(&self, resource: &Resource) -> Result<(), String> {
        fail_if(self.checkpoints, || {
            format!("{} has no checkpoints", resource.name)
        })
    }
}

fn fail_if(lacks: bool, reason: impl Fn() -> String) -> Result<(), String> {
    if lacks { Err(reason()) } else { Ok(()) }
}

/// Returns the failures of a start, which leaves the plan unchanged.
async fn failures(
    fixture: &LifecycleFixture,
    request: UseActionRequest,
    probe: &dyn PreflightProbe,
) -> Vec<String> {
    let plan = fixture.lifecycle.use_action(request).await.unwrap();
    failures_of(fixture, plan, probe).await
}

async fn failures_of(
    fixture: &LifecycleFixture,
    plan: cleveragents_domain::Plan,
    probe: &dyn PreflightProbe,
) -> Vec<String> {
    let id = plan.identity.plan_id;
    let run = fixture.claim(id).await;
    let refused = fixture.lifecycle.as_owner(&run).start(probe).await;
    assert_eq!(fixture.plan(id).await, plan);
    release_run(run).await;
    match refused {
        Err(LifecycleError::Preflight { failures, .. }) => {
            failures.iter().map(ToString::to_string).collect()
        }
        other => panic!("{other:?} instead of failed checks"),
    }
}

/// A profile that requires everything without a contradiction.
fn strict_profile(text: &str) -> AutomationProfile {
    let mut strict = profile(text);
    strict.require_sandbox = true;
    strict.require_checkpoints = true;
    strict
}

/// A request for a plan of the sample action with additional lines, under `profile`.
async fn request_with(
    fixture: &LifecycleFixture,
    more: &str,
    profile: AutomationProfile,
) -> UseActionRequest {
    let named = profile.name.clone();
    write(&fixture.opened.store, move |tx| tx.insert_profile(&profile)).await;
    let ProfileName::Custom(_) = &named else {
        panic!("{named} is no profile of ours");
    };
    UseActionRequest {
        action: ActionChoice::Given(Box::new(draft(more))),
        automation_profile: Some(named),
        ..request()
    }
}

/// A profile of that name, modified by `change`.
fn changed_profile(text: &str, change: impl Fn(&mut AutomationProfile)) -> AutomationProfile {
    let mut profile = strict_profile(text);
    change(&mut profile);
    profile
}

/// A request, the probe's state, and all expected failures.
struct PreflightCase {
    more: &'static str,
    profile: AutomationProfile,
    probe: FailingProbe,
    expected: &'static [&'static str],
}

/// Cases in which something is missing.
fn probe_cases() -> [PreflightCase; 4] {
    let lacking = |change: fn(&mut FailingProbe)| {
        let mut world = FailingProbe::default();
        change(&mut world);
        world
    };
    let single = |text, world, wanted| PreflightCase {
        more: "",
        profile: strict_profile(text),
        probe: world,
        expected: wanted,
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

/// Cases in which action and profile contradict each other.
fn brief_cases() -> [PreflightCase; 5] {
    let tool = || name("builtin/file-write");
    let single = |more, profile, wanted| PreflightCase {
        more,
        profile,
        probe: FailingProbe::default(),
        expected: wanted,
    };
    let mut tools = single(
        "skills: [team/rust]\n",
        changed_profile("team/tools", |it| it.guards.tool_allowlist = vec![tool()]),
        &[
            "tools: no tool team/rust",
            "tools: no tool builtin/file-write",
        ],
    );
    tools.probe.tools = true;
    let torn = changed_profile("team/torn", |it| {
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
        strict_profile("team/poor"),
        &[
            "budget: the action's budget has no US dollars",
            "budget: the action's budget has no tokens",
            "budget: the action's budget has no time",
        ],
    );
    let mean = single(
        "budget: {usd: 5}\n",
        changed_profile("team/mean", |it| it.guards.max_total_cost = Some(2.5)),
        &["budget: the action's budget of 5.00 USD is above the 2.50 USD that team/mean allows"],
    );
    let broke = single(
        "",
        changed_profile("team/broke", |it| it.guards.max_total_cost = Some(0.0)),
        &["budget: team/broke allows no cost at all"],
    );
    [tools, torn, poor, mean, broke]
}

fn each_check_fails_alone_by_its_name(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let singles = probe_cases().into_iter();
        for single in singles.chain(brief_cases()) {
            let asked = request_with(&fixture, single.more, single.profile).await;
            let found = failures(&fixture, asked, &single.probe).await;
            assert_eq!(found, single.expected);
        }
        // An argument may make a rendered text empty.
        let asked = UseActionRequest {
            action: ActionChoice::Given(Box::new(draft("checks: [{run: '{{ args.branch }}'}]\n"))),
            arguments: vec!["branch= ".to_owned()],
            ..request()
        };
        let wanted = "schema: `checks.run` must not be empty";
        assert_eq!(failures(&fixture, asked, &PassingProbe).await[0], wanted);
    });
}

fn all_checks_that_fail_are_named_at_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let torn = changed_profile("team/torn", |it| {
            it.guards.tool_allowlist = vec![name("builtin/read"), name("builtin/write")];
            it.guards.tool_denylist = vec![name("builtin/write")];
            it.guards.max_total_cost = Some(0.0);
        });
        store_project(&fixture.opened.store, "local/gone").await;
        let mut asked =
            request_with(&fixture, "checks: [{run: '{{ args.branch }}'}]\n", torn).await;
        asked.arguments = vec!["branch= ".to_owned()];
        asked.projects.push(name("local/gone"));
        let plan = fixture.lifecycle.use_action(asked).await.unwrap();
        write(&fixture.opened.store, |tx| {
            let gone: Project = tx.project(&name("local/gone"))?;
            tx.delete_project(&gone)
        })
        .await;
        let mut named = Vec::new();
        // A resource that cannot be seen cannot be sandboxed, so two cases are needed to show every
        // failure.
        for resources in [true, false] {
            let world = FailingProbe {
                resources,
                ..ALL_FAILING
            };
            let found = failures_of(&fixture, plan.clone(), &world).await;
            let check = |failure: &String| failure.split(':').next().unwrap().to_owned();
            named.extend(found.iter().map(check));
            let last = found.last().unwrap().as_str();
            assert_eq!(last.starts_with("resources: "), resources, "{found:?}");
        }
        for check in PreflightCheck::ALL {
            assert!(
                named.iter().any(|name| name == check.as_str()),
                "{check}: {named:?}"
            );
        }
    });
}

fn checks_disabled_by_the_profile_are_skipped(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let easy = changed_profile("team/easy", |it| {
            it.require_sandbox = false;
            it.require_checkpoints = false;
            it.guards.require_approval_for_writes = true;
            it.guards.max_total_cost = Some(5.0);
        });
        let more = "read_only: true\nbudget: {usd: 5, tokens: 1, wall: 1}\n";
        let asked = request_with(&fixture, more, easy).await;
        let plan = fixture.lifecycle.use_action(asked).await.unwrap();
        let run = fixture.claim(plan.identity.plan_id).await;
        let world = FailingProbe {
            sandboxes: true,
            checkpoints: true,
            ..FailingProbe::default()
        };
        let started = fixture
            .lifecycle
            .as_owner(&run)
            .start(&world)
            .await
            .unwrap();
        assert_eq!(started.position.to_string(), "strategize/processing");
    });
}

fn a_deleted_project_is_named(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let plan = fixture.new_plan().await;
        write(&fixture.opened.store, |tx| {
            let shop: Project = tx.project(&name("local/shop"))?;
            tx.delete_project(&shop)
        })
        .await;
        let found = failures_of(&fixture, plan, &PassingProbe).await;
        assert_eq!(found, ["projects: project local/shop was deleted"]);
    });
}

fn a_plan_without_resources_does_not_start(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        store_project(&fixture.opened.store, "local/empty").await;
        let asked = UseActionRequest {
            projects: vec![name("local/empty")],
            ..request()
        };
        let found = failures(&fixture, asked, &PassingProbe).await;
        assert_eq!(found, ["resources: no project of the plan has a resource"]);
    });
}
