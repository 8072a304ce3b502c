//! Item 10 of the threat model: a repository neither approves its own work nor runs unseen.

use crate::running::at_a_terminal;
use crate::world::{Run, World};

const STEPS: &str = "- {tool: builtin/file-write, input: {path: new, content: made}}";

/// A user with the repository `shop`, whose own files define `team/evil` with more keys.
fn cloned(more: &str) -> World {
    let world = World::new();
    world.worker(STEPS);
    define(&world, "team/evil", more);
    world.commit("shop", "an action");
    world
}

fn define(world: &World, name: &str, more: &str) {
    let text = format!(
        "name: {name}\ndescription: Do it\nstrategy_actor: builtin/direct\n\
         execution_actor: local/worker\ndefinition_of_done: It is done\n{more}"
    );
    world.write("shop/.agents/actions/evil.yaml", &text);
}

fn run(world: &World, more: &[&str]) -> Run {
    let path = world.path("shop").display().to_string();
    world.ask(&[&["run", "team/evil", "--path", &path], more].concat())
}

fn use_it(world: &World, more: &[&str]) -> Run {
    world.ask(&[&["plan", "use", "team/evil", "shop"], more].concat())
}

fn id_of(run: &Run) -> String {
    run.data()["plan_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn nothing_was_made(world: &World) {
    let plans = world.data(&["plan", "list"]);
    assert_eq!(plans["summary"]["total"], 0, "{plans}");
    assert_eq!(
        (world.commits("shop"), world.dirt("shop")),
        (2, String::new())
    );
}

#[track_caller]
fn is_not_trusted(run: Run, state: &str) {
    let run = run.exits(5).says("--trust");
    let data = run.data();
    assert_eq!(data["error"]["kind"], "not_trusted", "{data}");
    assert_eq!(data["trust"]["file"], ".agents/actions/evil.yaml", "{data}");
    assert_eq!(data["trust"]["state"], state, "{data}");
}

#[test]
fn the_first_use_and_each_change_need_consent_and_yes_is_none() {
    let world = cloned("");
    is_not_trusted(use_it(&world, &[]), "first_use");
    is_not_trusted(run(&world, &[]), "first_use");
    is_not_trusted(run(&world, &["--yes"]), "first_use");
    is_not_trusted(
        run(&world, &["--yes", "--automation-profile", "full-auto"]),
        "first_use",
    );
    nothing_was_made(&world);

    use_it(&world, &["--trust"]).succeeded();
    use_it(&world, &[]).succeeded();
    define(&world, "team/evil", "checks: [{run: 'true'}]\n");
    is_not_trusted(use_it(&world, &[]), "changed");
    use_it(&world, &["--trust"]).succeeded();
    // What was consented to before stays so.
    define(&world, "team/evil", "");
    use_it(&world, &[]).succeeded();
}

#[test]
fn a_repository_does_not_approve_its_own_work() {
    let world = cloned("automation_profile: full-auto\n");
    let stopped = run(&world, &["--trust"])
        .exits(5)
        .stands("execute/complete");
    stopped.says("asks for the profile full-auto, and supervised holds");
    assert_eq!(world.commits("shop"), 2, "nobody said apply");
    let plan = id_of(&use_it(&world, &[]).succeeded());
    world.execute(&plan).exits(5).stands("strategize/complete");

    // The user's own word may.
    let path = world.path("shop").display().to_string();
    let freely = ["run", "team/evil", "--path", &path, "--automation-profile"];
    let applied = world.ask(&[&freely[..], &["full-auto"]].concat());
    applied.succeeded().stands("apply/applied");
    assert_eq!(world.commits("shop"), 3);
}

/// No profile is stricter than another as a whole: each element is compared.
#[test]
fn the_stricter_of_each_element_holds() {
    let world = cloned("automation_profile: supervised\n");
    let set = ["config", "set", "core.automation-profile", "cautious"];
    world.run(&set).succeeded();
    let thresholds = |plan: &str| {
        let created = world.told(plan, "plan_created");
        created[0]["payload"]["brief"]["automation_profile"]["thresholds"].clone()
    };
    let plan = id_of(&use_it(&world, &["--trust"]).succeeded());
    let merged = thresholds(&plan);
    assert_eq!(merged["create_tool"], 1.0, "{merged}");
    assert_eq!(merged["execute_command"], 0.7, "{merged}");

    // The repository's settings are of the same kind.
    define(&world, "team/evil", "");
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
    let plan = id_of(&Run::of(inside.output().unwrap()).succeeded());
    assert_eq!(thresholds(&plan), merged);
}

#[test]
fn at_a_terminal_one_question_says_what_the_file_does() {
    let world = cloned("checks: [{run: make sure}]\nautomation_profile: ci\n");
    let words = ["plan", "use", "team/evil", "shop"];
    let (code, said) = at_a_terminal(&world, &words, "n\n");
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
    nothing_was_made(&world);
    let (code, said) = at_a_terminal(&world, &words, "y\n");
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = at_a_terminal(&world, &words, "");
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("Trust this file"), "{said}");
}

#[test]
fn a_repository_fills_in_no_variable_and_defines_nothing_built_in() {
    let world = cloned("long_description: 'I know ${HOME} and ${NOBODY:a default}'\n");
    let file = world.path("shop/.agents/actions/evil.yaml");
    let file = file.to_str().unwrap();
    for run in [
        use_it(&world, &["--trust"]),
        run(&world, &["--trust", "--yes"]),
        world.ask(&["action", "validate", file]),
        world.ask(&["action", "create", "--config", file]),
    ] {
        let run = run.exits(2).says("evil.yaml:6:");
        run.says("`${HOME}` is not filled in: this file belongs to a repository");
    }
    define(&world, "builtin/do", "");
    let path = world.path("shop").display().to_string();
    let run = world.ask(&["run", "builtin/do", "--path", &path, "--trust"]);
    run.exits(2).says("a repository cannot define `builtin/do`");
    world.git(&world.path("shop"), &["checkout", "-q", "."]);
    nothing_was_made(&world);
}

#[test]
fn worktreeinclude_brings_no_credentials_without_consent() {
    let world = cloned("");
    world.write("shop/.gitignore", ".env\nbuild.log\n");
    world.write("shop/.worktreeinclude", ".env\nbuild.log\n");
    world.commit("shop", "what to bring along");
    world.write("shop/.env", "PASSWORD=hunter2hunter2\n");
    world.write("shop/build.log", "built\n");
    world.job("");
    let tree = |plan: &str| {
        world.execute(plan).succeeded();
        world.trees(plan).remove(0)
    };
    let plan = world.plan("trusted");
    let without = tree(&plan);
    assert!(without.join("build.log").is_file());
    assert!(!without.join(".env").exists());
    let changed = world.told(&plan, "sandbox_state_changed");
    let warned = changed[0]["payload"]["warnings"].to_string();
    assert!(warned.contains(".env"), "{warned}");

    let plan = world.plan_of("shop", "trusted", &["--trust"]);
    assert!(tree(&plan).join(".env").is_file());
    world.write("shop/.worktreeinclude", "*\n");
    let plan = world.plan("trusted");
    assert!(!tree(&plan).join(".env").exists());
}
