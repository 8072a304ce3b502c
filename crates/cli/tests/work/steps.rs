//! The calls of a tool actor: their inputs, their failures, and which are repeated.

use crate::world::{TRUSTED, TestWorld};

#[test]
fn step_templates_are_rendered() {
    let world = TestWorld::new();
    world.define_worker(
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
    world.define_worker_job(
        "arguments:\n- {name: file, type: string, required: true}\n\
         - {name: how-often, type: integer, default: 3}\n",
    );
    let plan = world.create_plan_for("shop", TRUSTED, &["--arg", "file=dir/b"]);
    let data = world.execute(&plan).succeeded().data();
    assert_eq!(data["tool_calls"], 3, "one is skipped: {data}");
    let files = world.sandbox_files(&plan);
    assert_eq!(files["out"], "0 3-HELLO: one\n");
    assert!(files.contains_key("a"));
    let plan = world.create_plan_for(
        "shop",
        TRUSTED,
        &["--arg", "file=dir/b", "--arg", "how-often=6"],
    );
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let files = world.sandbox_files(&plan);
    assert!(
        !files.contains_key("a") && !files.contains_key("out"),
        "{files:?}"
    );
}

#[test]
fn a_template_with_an_unknown_value_fails_the_plan() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/file-write, input: {path: made, content: '{{ args.nothing }}'}}",
    );
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored")
        .prints("nothing");
    assert_eq!(world.errors(&plan).len(), 1);
    assert_eq!(world.sandbox_files(&plan), world.files("shop"));
}

#[test]
fn only_the_failed_command_is_retried() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n\
         - {tool: builtin/shell, input: {command: 'echo tried >> $HOME/tries; test $(wc -l < $HOME/tries) -ge 3'}}\n\
         - {tool: builtin/shell, input: {command: 'echo 2 >> log'}}\n",
    );
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    for round in 1..=2 {
        let run = world
            .execute(&plan)
            .exits(1)
            .reports_state("execute/errored");
        run.prints("exit code 1")
            .prints(&format!("agents plan execute {plan}"));
        let errors = world.json_data(&["plan", "errors", &plan]);
        assert_eq!(errors["summary"]["occurrences"], round, "{errors}");
        assert_eq!(errors["summary"]["total"], 1, "{errors}");
        assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n");
        world.apply(&plan).exits(4);
    }
    let kept = world.json_data(&["plan", "checkpoints", &plan]);
    assert!(kept["summary"]["total"].as_u64().unwrap() >= 3, "{kept}");
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
    assert_eq!(world.events_of_kind(&plan, "tool_invoked").len(), 5);
    let data = world.json_data(&["plan", "status", &plan]);
    assert_eq!(data["error"], serde_json::Value::Null, "{data}");
}

#[test]
fn a_failed_call_is_recorded_and_retried() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/file-write, input: {path: one, content: one}}\n\
         - {tool: builtin/file-delete, input: {path: missing}}\n\
         - {tool: builtin/file-write, input: {path: two, content: two}}\n",
    );
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored")
        .prints("missing");
    assert_eq!(world.errors(&plan).len(), 1);
    assert_eq!(world.events_of_kind(&plan, "tool_errored").len(), 1);
    // With a corrected actor the plan continues where it stopped.
    world.define_worker(
        "- {tool: builtin/file-write, input: {path: one, content: one}}\n\
         - {tool: builtin/file-delete, input: {path: a}}\n\
         - {tool: builtin/file-write, input: {path: two, content: two}}\n",
    );
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let files = world.sandbox_files(&plan);
    assert!(files.contains_key("one") && files.contains_key("two") && !files.contains_key("a"));
    assert_eq!(world.events_of_kind(&plan, "tool_invoked").len(), 4);
}

#[test]
fn a_changed_call_is_not_treated_as_completed() {
    let world = TestWorld::new();
    world.define_worker(
        "- {id: first, tool: builtin/shell, input: {command: 'printf old'}}\n\
         - {tool: builtin/shell, input: {command: 'false'}}\n",
    );
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan).exits(1);
    world.define_worker(
        "- {id: first, tool: builtin/shell, input: {command: 'printf new'}}\n\
         - {tool: builtin/file-write, input: {path: out, content: '{{ steps.first.stdout }}'}}\n",
    );
    world.execute(&plan).succeeded();
    assert_eq!(world.sandbox_files(&plan)["out"], "0 new");
}

#[test]
fn a_file_changed_after_reading_is_not_overwritten() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/file-read, input: {path: a}}\n\
         - {tool: builtin/shell, input: {command: 'echo other > a'}}\n\
         - {tool: builtin/file-write, input: {path: a, content: mine}}\n",
    );
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    assert_eq!(world.sandbox_files(&plan)["a"], "0 other\n");
    let errors = world.errors(&plan);
    assert!(
        errors.len() == 1 && errors[0].contains("changed"),
        "{errors:?}"
    );
    // Files that were read before are still known after the resume.
    world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    assert_eq!(world.sandbox_files(&plan)["a"], "0 other\n");
}

#[test]
fn a_timeout_ends_all_processes_of_a_command() {
    let world = TestWorld::new();
    let marker = "31536077";
    world.define_worker(&format!(
        "- {{tool: builtin/shell, input: {{command: 'echo begun > begun; \
         setsid sleep {marker} & sleep {marker}', timeout: 1}}}}"
    ));
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    assert!(!crate::event_follower::is_process_running(marker));
    let errors = world.json_data(&["plan", "errors", &plan]);
    assert_eq!(errors["errors"][0]["category"], "timeout", "{errors}");
    assert_eq!(world.sandbox_files(&plan)["begun"], "0 begun\n");
}

#[test]
fn a_reverted_plan_starts_with_fresh_files() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n\
         - {tool: builtin/shell, input: {command: 'false'}}\n",
    );
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan).exits(1);
    world.run(&["plan", "revert", &plan]).succeeded();
    assert_eq!(world.state(&plan), "strategize/queued");
    world.define_worker("- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n");
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(
        world.sandbox_files(&plan)["log"],
        "0 1\n",
        "the first one is given up"
    );
    world.apply(&plan).succeeded();
    assert_eq!(world.read("shop/log"), "1\n");
}
