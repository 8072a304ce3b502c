//! The calls of a tool actor: what they are given, what fails them, and what is made again.

use crate::world::{ALONE, World};

#[test]
fn arguments_and_answers_of_steps_are_filled_in() {
    let world = World::new();
    world.worker(
        "- {id: read, tool: builtin/file-read, input: {path: '{{ args.file }}'}}\n\
         - id: told\n\
         \x20 tool: builtin/shell\n\
         \x20 input: {command: 'printf %s-%s {{ args.how_often }} hello'}\n\
         - {id: never, when: args.how_often > 5, tool: builtin/file-delete, input: {path: a}}\n\
         - id: write\n\
         \x20 when: steps.never is skipped and 'one' in steps.read.content\n\
         \x20 tool: builtin/file-write\n\
         \x20 input: {path: out, content: '{{ steps.told.stdout | upper }}: {{ steps.read.content }}'}\n",
    );
    world.job(
        "arguments:\n- {name: file, type: string, required: true}\n\
         - {name: how-often, type: integer, default: 3}\n",
    );
    let plan = world.plan_of("shop", ALONE, &["--arg", "file=dir/b"]);
    let data = world.execute(&plan).succeeded().data();
    assert_eq!(data["tool_calls"], 3, "one is skipped: {data}");
    let files = world.sandbox_files(&plan);
    assert_eq!(files["out"], "0 3-HELLO: one\n");
    assert!(files.contains_key("a"));
    let plan = world.plan_of(
        "shop",
        ALONE,
        &["--arg", "file=dir/b", "--arg", "how-often=6"],
    );
    world.execute(&plan).succeeded().stands("execute/complete");
    let files = world.sandbox_files(&plan);
    assert!(
        !files.contains_key("a") && !files.contains_key("out"),
        "{files:?}"
    );
}

#[test]
fn a_template_that_asks_for_what_is_not_there_fails_the_plan() {
    let world = World::new();
    world
        .worker("- {tool: builtin/file-write, input: {path: made, content: '{{ args.nothing }}'}}");
    world.job("");
    let plan = world.plan(ALONE);
    world
        .execute(&plan)
        .exits(1)
        .stands("execute/errored")
        .says("nothing");
    assert_eq!(world.errors(&plan).len(), 1);
    assert_eq!(world.sandbox_files(&plan), world.files("shop"));
}

#[test]
fn a_command_that_fails_fails_its_step_and_is_tried_again_alone() {
    let world = World::new();
    world.worker(
        "- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n\
         - {tool: builtin/shell, input: {command: 'echo tried >> $HOME/tries; test $(wc -l < $HOME/tries) -ge 3'}}\n\
         - {tool: builtin/shell, input: {command: 'echo 2 >> log'}}\n",
    );
    world.job("");
    let plan = world.plan(ALONE);
    for round in 1..=2 {
        let run = world.execute(&plan).exits(1).stands("execute/errored");
        run.says("exit code 1")
            .says(&format!("agents plan execute {plan}"));
        let errors = world.data(&["plan", "errors", &plan]);
        assert_eq!(errors["summary"]["occurrences"], round, "{errors}");
        assert_eq!(errors["summary"]["total"], 1, "{errors}");
        assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n");
        world.apply(&plan).exits(4);
    }
    let kept = world.data(&["plan", "checkpoints", &plan]);
    assert!(kept["summary"]["total"].as_u64().unwrap() >= 3, "{kept}");
    world.execute(&plan).succeeded().stands("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
    assert_eq!(world.told(&plan, "tool_invoked").len(), 5);
    let data = world.data(&["plan", "status", &plan]);
    assert_eq!(data["error"], serde_json::Value::Null, "{data}");
}

#[test]
fn a_call_that_fails_is_an_error_and_is_tried_again() {
    let world = World::new();
    world.worker(
        "- {tool: builtin/file-write, input: {path: one, content: one}}\n\
         - {tool: builtin/file-delete, input: {path: missing}}\n\
         - {tool: builtin/file-write, input: {path: two, content: two}}\n",
    );
    world.job("");
    let plan = world.plan(ALONE);
    world
        .execute(&plan)
        .exits(1)
        .stands("execute/errored")
        .says("missing");
    assert_eq!(world.errors(&plan).len(), 1);
    assert_eq!(world.told(&plan, "tool_errored").len(), 1);
    // An actor that was mended goes on where it stopped.
    world.worker(
        "- {tool: builtin/file-write, input: {path: one, content: one}}\n\
         - {tool: builtin/file-delete, input: {path: a}}\n\
         - {tool: builtin/file-write, input: {path: two, content: two}}\n",
    );
    world.execute(&plan).succeeded().stands("execute/complete");
    let files = world.sandbox_files(&plan);
    assert!(files.contains_key("one") && files.contains_key("two") && !files.contains_key("a"));
    assert_eq!(world.told(&plan, "tool_invoked").len(), 4);
}

#[test]
fn a_call_of_an_actor_that_was_changed_is_not_taken_for_the_one_that_was_made() {
    let world = World::new();
    world.worker(
        "- {id: first, tool: builtin/shell, input: {command: 'printf old'}}\n\
         - {tool: builtin/shell, input: {command: 'false'}}\n",
    );
    world.job("");
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(1);
    world.worker(
        "- {id: first, tool: builtin/shell, input: {command: 'printf new'}}\n\
         - {tool: builtin/file-write, input: {path: out, content: '{{ steps.first.stdout }}'}}\n",
    );
    world.execute(&plan).succeeded();
    assert_eq!(world.sandbox_files(&plan)["out"], "0 new");
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_written_over() {
    let world = World::new();
    world.worker(
        "- {tool: builtin/file-read, input: {path: a}}\n\
         - {tool: builtin/shell, input: {command: 'echo other > a'}}\n\
         - {tool: builtin/file-write, input: {path: a, content: mine}}\n",
    );
    world.job("");
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(1).stands("execute/errored");
    assert_eq!(world.sandbox_files(&plan)["a"], "0 other\n");
    let errors = world.errors(&plan);
    assert!(
        errors.len() == 1 && errors[0].contains("changed"),
        "{errors:?}"
    );
    // What was seen before is still known when the plan goes on.
    world.execute(&plan).exits(1).stands("execute/errored");
    assert_eq!(world.sandbox_files(&plan)["a"], "0 other\n");
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_all_it_started() {
    let world = World::new();
    let marker = "31536077";
    world.worker(&format!(
        "- {{tool: builtin/shell, input: {{command: 'echo begun > begun; \
         setsid sleep {marker} & sleep {marker}', timeout: 1}}}}"
    ));
    world.job("");
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(1).stands("execute/errored");
    assert!(!crate::following::runs(marker));
    let errors = world.data(&["plan", "errors", &plan]);
    assert_eq!(errors["errors"][0]["category"], "timeout", "{errors}");
    assert_eq!(world.sandbox_files(&plan)["begun"], "0 begun\n");
}

#[test]
fn a_plan_that_was_sent_back_begins_its_files_anew() {
    let world = World::new();
    world.worker(
        "- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n\
         - {tool: builtin/shell, input: {command: 'false'}}\n",
    );
    world.job("");
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(1);
    world.run(&["plan", "revert", &plan]).succeeded();
    assert_eq!(world.state(&plan), "strategize/queued");
    world.worker("- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n");
    world.execute(&plan).succeeded().stands("execute/complete");
    assert_eq!(
        world.sandbox_files(&plan)["log"],
        "0 1\n",
        "the first one is given up"
    );
    world.apply(&plan).succeeded();
    assert_eq!(world.read("shop/log"), "1\n");
}
