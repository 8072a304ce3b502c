//! A repository whose configuration names a program in every setting that makes git run one: no
//! command of ours runs it.

use crate::hostile_configuration::{FILTERS, HOOKS, attributes, configuration};
use crate::world::TestWorld;

const EDIT: &str = "\
- {tool: builtin/file-read, input: {path: f.1}}
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
- {tool: builtin/shell, input: {command: 'echo new > new'}}
";

/// A repository with a hostile configuration, with a file for each filter.
#[expect(clippy::disallowed_methods, reason = "a test's file needs no fsync")]
fn world_with_tripwires() -> TestWorld {
    let world = TestWorld::new();
    for number in 0..FILTERS.len() {
        world.write(&format!("shop/f.{number}"), "content\n");
    }
    std::fs::write(world.path("shop/.gitattributes"), attributes()).unwrap();
    world.commit("shop", "files with filters");
    let mark = world.path("mark");
    let text = format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\ncat\n", mark.display());
    world.write("evil", &text);
    world.set_mode("evil", 0o755);
    let config = world.path("shop/.git/config");
    let mut content = std::fs::read(&config).unwrap();
    content.extend(configuration(
        &world.path("evil"),
        &world.path("shop/.git/hooks"),
    ));
    std::fs::write(&config, content).unwrap();
    for hook in HOOKS {
        world.write(&format!("shop/.git/hooks/{hook}"), &text);
        world.set_mode(&format!("shop/.git/hooks/{hook}"), 0o755);
    }
    world
}

/// Makes git read the contents again, which it does through filters.
fn rewrite_filtered_files(world: &TestWorld) {
    for number in 0..FILTERS.len() {
        let path = world.path(&format!("shop/f.{number}"));
        std::fs::remove_file(path).unwrap();
        world.write(&format!("shop/f.{number}"), "content\n");
    }
}

#[test]
fn no_command_runs_programs_named_by_a_repository() {
    let world = world_with_tripwires();
    let unused = |what: &str| {
        let said = std::fs::read_to_string(world.path("mark")).unwrap_or_default();
        assert_eq!(said, "", "{what}: a program was run");
    };
    let patch = world.path("plan.patch");
    let destinations: [&[&str]; 4] = [
        &["branch", "agents/work"],
        &["worktree"],
        &["patch", patch.to_str().unwrap()],
        &["current"],
    ];
    for destination in destinations {
        rewrite_filtered_files(&world);
        let plan = world.create_executed_plan(EDIT);
        unused("execute");
        for command in ["status", "diff", "artifacts", "checkpoints", "log"] {
            world.json_data(&["plan", command, &plan]);
        }
        unused("looking at a plan");
        let apply = [&["plan", "apply", &plan, "--to"], destination].concat();
        world
            .run_json(&apply)
            .succeeded()
            .reports_state("apply/applied");
        unused(&format!("apply to {destination:?}"));
        rewrite_filtered_files(&world);
        world.run_json(&["plan", "unapply", &plan]);
        unused(&format!("unapply from {destination:?}"));
    }
    for command in [
        &["sandbox", "list"][..],
        &["gc"],
        &["diagnostics"],
        &["info"],
    ] {
        world.run_json(command);
        unused(command[0]);
    }
    let path = world.path("shop").display().to_string();
    world.run_json(&[
        "resource",
        "add",
        "git-checkout",
        "local/again",
        "--path",
        &path,
    ]);
    world.run_json(&["run", "local/job", "--path", &path, "--yes"]);
    unused("run");
    // Proves that the tripwire works: the user's own git runs it.
    rewrite_filtered_files(&world);
    world.try_git(&world.path("shop"), &["add", "f.1"]);
    assert!(world.path("mark").exists());
}
