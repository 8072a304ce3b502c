//! Item 10 of the threat model: a repository can neither approve its own work nor run code unseen.

use crate::run_command::run_on_terminal;
use crate::world::{AgentsRun, TestWorld};

const STEPS: &str = "- {tool: builtin/file-write, input: {path: new, content: made}}";

/// A user with the repository `shop`, whose own files define `team/evil` with more keys.
fn world_with_untrusted_action(more: &str) -> TestWorld {
    let world = TestWorld::new();
    world.define_worker(STEPS);
    write_action(&world, "team/evil", more);
    world.commit("shop", "an action");
    world
}

fn write_action(world: &TestWorld, name: &str, more: &str) {
    let text = format!(
        "name: {name}\ndescription: Do it\nstrategy_actor: builtin/direct\n\
         execution_actor: local/worker\ndefinition_of_done: It is done\n{more}"
    );
    world.write("shop/.agents/actions/evil.yaml", &text);
}

fn run_action(world: &TestWorld, more: &[&str]) -> AgentsRun {
    let path = world.path("shop").display().to_string();
    world.run_json(&[&["run", "team/evil", "--path", &path], more].concat())
}

fn use_action(world: &TestWorld, more: &[&str]) -> AgentsRun {
    world.run_json(&[&["plan", "use", "team/evil", "shop"], more].concat())
}

fn plan_id(run: &AgentsRun) -> String {
    run.data()["plan_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn assert_no_plan(world: &TestWorld) {
    let plans = world.json_data(&["plan", "list"]);
    assert_eq!(plans["summary"]["total"], 0, "{plans}");
    assert_eq!(
        (world.commits("shop"), world.git_status("shop")),
        (2, String::new())
    );
}

#[track_caller]
fn assert_not_trusted(run: AgentsRun, state: &str) {
    let run = run.exits(5).prints("--trust");
    let data = run.data();
    assert_eq!(data["error"]["kind"], "not_trusted", "{data}");
    assert_eq!(data["trust"]["file"], ".agents/actions/evil.yaml", "{data}");
    assert_eq!(data["trust"]["state"], state, "{data}");
}

#[test]
fn the_first_use_and_each_change_need_consent() {
    let world = world_with_untrusted_action("");
    assert_not_trusted(use_action(&world, &[]), "first_use");
    assert_not_trusted(run_action(&world, &[]), "first_use");
    assert_not_trusted(run_action(&world, &["--yes"]), "first_use");
    assert_not_trusted(
        run_action(&world, &["--yes", "--automation-profile", "full-auto"]),
        "first_use",
    );
    assert_no_plan(&world);

    use_action(&world, &["--trust"]).succeeded();
    use_action(&world, &[]).succeeded();
    write_action(&world, "team/evil", "checks: [{run: 'true'}]\n");
    assert_not_trusted(use_action(&world, &[]), "changed");
    use_action(&world, &["--trust"]).succeeded();
    // Earlier consent remains valid.
    write_action(&world, "team/evil", "");
    use_action(&world, &[]).succeeded();
}

#[test]
fn a_repository_does_not_approve_its_own_work() {
    let world = world_with_untrusted_action("automation_profile: full-auto\n");
    let stopped = run_action(&world, &["--trust"])
        .exits(5)
        .reports_state("execute/complete");
    stopped.prints("asks for the profile full-auto; supervised is used");
    assert_eq!(world.commits("shop"), 2, "nobody said apply");
    let plan = plan_id(&use_action(&world, &[]).succeeded());
    world
        .execute(&plan)
        .exits(5)
        .reports_state("strategize/complete");

    // The user's own option may loosen it.
    let path = world.path("shop").display().to_string();
    let freely = ["run", "team/evil", "--path", &path, "--automation-profile"];
    let applied = world.run_json(&[&freely[..], &["full-auto"]].concat());
    applied.succeeded().reports_state("apply/applied");
    assert_eq!(world.commits("shop"), 3);
}

/// No profile is stricter than another as a whole, so each element is compared.
#[test]
fn the_stricter_setting_applies() {
    let world = world_with_untrusted_action("automation_profile: supervised\n");
    let set = ["config", "set", "core.automation-profile", "cautious"];
    world.run(&set).succeeded();
    let thresholds = |plan: &str| {
        let created = world.events_of_kind(plan, "plan_created");
        created[0]["payload"]["brief"]["automation_profile"]["thresholds"].clone()
    };
    let plan = plan_id(&use_action(&world, &["--trust"]).succeeded());
    let merged = thresholds(&plan);
    assert_eq!(merged["create_tool"], 1.0, "{merged}");
    assert_eq!(merged["execute_command"], 0.7, "{merged}");

    // The same applies to the repository's settings.
    write_action(&world, "team/evil", "");
    world.write(
        "shop/.agents/config.toml",
        "core.automation-profile = \"supervised\"\n",
    );
    let words = [
        "plan",
        "use",
        "team/evil",
        "shop",
        "--trust",
        "--format",
        "json",
    ];
    let mut inside = world.command(&words);
    inside.current_dir(world.path("shop"));
    let plan = plan_id(&AgentsRun::from_output(inside.output().unwrap()).succeeded());
    assert_eq!(thresholds(&plan), merged);
}

#[test]
fn a_terminal_prompt_describes_the_action_file() {
    let world = world_with_untrusted_action("checks: [{run: make sure}]\nautomation_profile: ci\n");
    let words = ["plan", "use", "team/evil", "shop"];
    let (code, said) = run_on_terminal(&world, &words, "n\n");
    assert_eq!(code, Some(5), "{said}");
    for part in [
        ".agents/actions/evil.yaml",
        "is used for the first time",
        "execution by local/worker",
        "runs the command: make sure",
        "asks for the automation profile ci",
        "Trust this file as it is? [y/N]",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_no_plan(&world);
    let (code, said) = run_on_terminal(&world, &words, "y\n");
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run_on_terminal(&world, &words, "");
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("Trust this file"), "{said}");
}

#[test]
fn a_repository_fills_in_no_variable_and_defines_nothing_built_in() {
    let world =
        world_with_untrusted_action("long_description: 'I know ${HOME} and ${NOBODY:a default}'\n");
    let file = world.path("shop/.agents/actions/evil.yaml");
    let file = file.to_str().unwrap();
    for run in [
        use_action(&world, &["--trust"]),
        run_action(&world, &["--trust", "--yes"]),
        world.run_json(&["action", "validate", file]),
        world.run_json(&["action", "create", "--config", file]),
    ] {
        let run = run.exits(2).prints("evil.yaml:6:");
        run.prints("`${HOME}` is not filled in: this file belongs to a repository");
    }
    write_action(&world, "builtin/do", "");
    let path = world.path("shop").display().to_string();
    let run = world.run_json(&["run", "builtin/do", "--path", &path, "--trust"]);
    run.exits(2)
        .prints("a repository cannot define `builtin/do`");
    world.git(&world.path("shop"), &["checkout", "-q", "."]);
    assert_no_plan(&world);
}

#[test]
fn worktreeinclude_brings_no_credentials_without_consent() {
    let world = world_with_untrusted_action("");
    world.write("shop/.gitignore", ".env\nbuild.log\n");
    world.write("shop/.worktreeinclude", ".env\nbuild.log\n");
    world.commit("shop", "what to bring along");
    world.write("shop/.env", "PASSWORD=hunter2hunter2\n");
    world.write("shop/build.log", "built\n");
    world.define_worker_job("");
    let tree = |plan: &str| {
        world.execute(plan).succeeded();
        world.sandbox_trees(plan).remove(0)
    };
    let plan = world.create_plan("trusted");
    let without = tree(&plan);
    assert!(without.join("build.log").is_file());
    assert!(!without.join(".env").exists());
    let changed = world.events_of_kind(&plan, "sandbox_state_changed");
    let warned = changed[0]["payload"]["warnings"].to_string();
    assert!(warned.contains(".env"), "{warned}");

    let plan = world.create_plan_for("shop", "trusted", &["--trust"]);
    assert!(tree(&plan).join(".env").is_file());
    world.write("shop/.worktreeinclude", "*\n");
    let plan = world.create_plan("trusted");
    assert!(!tree(&plan).join(".env").exists());
}
