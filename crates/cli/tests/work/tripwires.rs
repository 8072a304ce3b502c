//! A repository whose configuration names a program wherever git can be told to: no command of ours
//! runs it.

use crate::hostile_configuration::{FILTERS, HOOKS, attributes, configuration};
use crate::world::World;

const EDIT: &str = "\
- {tool: builtin/file-read, input: {path: f.1}}
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
- {tool: builtin/shell, input: {command: 'echo new > new'}}
";

/// A shop whose configuration is hostile, with a file for each filter.
#[expect(clippy::disallowed_methods, reason = "a test's file needs no fsync")]
fn shop() -> World {
    let world = World::new();
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

/// Makes git look at the contents again, which it does through filters.
fn touch(world: &World) {
    for number in 0..FILTERS.len() {
        let path = world.path(&format!("shop/f.{number}"));
        std::fs::remove_file(path).unwrap();
        world.write(&format!("shop/f.{number}"), "content\n");
    }
}

#[test]
fn no_command_runs_what_a_repository_names() {
    let world = shop();
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
        touch(&world);
        let plan = world.executed(EDIT);
        unused("execute");
        for command in ["status", "diff", "artifacts", "checkpoints", "log"] {
            world.data(&["plan", command, &plan]);
        }
        unused("looking at a plan");
        let apply = [&["plan", "apply", &plan, "--to"], destination].concat();
        world.ask(&apply).succeeded().stands("apply/applied");
        unused(&format!("apply to {destination:?}"));
        touch(&world);
        world.ask(&["plan", "unapply", &plan]);
        unused(&format!("unapply from {destination:?}"));
    }
    for command in [
        &["sandbox", "list"][..],
        &["gc"],
        &["diagnostics"],
        &["info"],
    ] {
        world.ask(command);
        unused(command[0]);
    }
    let path = world.path("shop").display().to_string();
    world.ask(&[
        "resource",
        "add",
        "git-checkout",
        "local/again",
        "--path",
        &path,
    ]);
    world.ask(&["run", "local/job", "--path", &path, "--yes"]);
    unused("run");
    // The user's own git runs it, so the tripwire is one.
    touch(&world);
    world.try_git(&world.path("shop"), &["add", "f.1"]);
    assert!(world.path("mark").exists());
}
