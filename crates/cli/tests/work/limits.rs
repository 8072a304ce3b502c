//! Limits for what a call may leave behind: beyond a limit the call fails with a message and leaves
//! nothing.

use crate::world::{TRUSTED, TestWorld};

fn create_plan(world: &TestWorld, steps: &str) -> String {
    world.define_worker(steps);
    world.define_worker_job("");
    world.create_plan(TRUSTED)
}

#[test]
fn a_call_over_the_capture_limit_is_undone() {
    let world = TestWorld::new();
    for (key, value) in [
        ("sandbox.limits.captured-files", "20"),
        ("sandbox.limits.captured-mib", "3"),
        ("sandbox.limits.file-mib", "2"),
    ] {
        world.run(&["config", "set", key, value]).succeeded();
    }
    for (command, said, setting) in [
        (
            "mkdir many; for i in $(seq 30); do echo > many/$i; done",
            "new files, up to many/",
            "sandbox.limits.captured-files",
        ),
        (
            "for i in 1 2 3; do truncate -s 1500K part$i; done",
            "up to part3",
            "sandbox.limits.captured-mib",
        ),
    ] {
        let step =
            format!("- {{tool: builtin/shell, input: {{command: 'echo 2 >> a; {command}'}}}}");
        let plan = create_plan(&world, &step);
        let run = world
            .execute(&plan)
            .exits(1)
            .reports_state("execute/errored");
        run.prints(said).prints(setting);
        assert_eq!(world.sandbox_files(&plan), world.files("shop"), "{command}");
    }
}

#[test]
fn a_command_over_a_limit_is_an_error_that_names_the_setting() {
    let world = TestWorld::new();
    let key = "sandbox.limits.file-mib";
    world.run(&["config", "set", key, "2"]).succeeded();
    let plan = create_plan(
        &world,
        "- {tool: builtin/shell, input: {command: 'truncate -s 1T x'}}",
    );
    let run = world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    run.prints("the limit is 2 MiB").prints(key);
}
