//! A plan that was really executed: a repository, a tool actor, an action and a project, created
//! with the commands that users type.

use serde_json::Value;

use crate::environment::{CliRun, PATH, TestEnvironment};

/// Placeholder for the id of the executed plan in the arguments of a case.
pub(crate) const PLAN_PLACEHOLDER: &str = "PPPPPPPP";

/// Placeholder for the id of its sandbox.
pub(crate) const SANDBOX_PLACEHOLDER: &str = "SSSSSSSS";

/// Edits two places of a file, writes one, deletes one and moves one.
const ACTOR: &str = "\
name: local/tidy
type: tool
description: Tidies up
steps:
  - tool: builtin/file-read
    input: {path: cart.txt}
  - tool: builtin/file-edit
    input: {path: cart.txt, old: line 3, new: third line}
  - tool: builtin/file-edit
    input: {path: cart.txt, old: line 18, new: last line but two}
  - tool: builtin/file-write
    input: {path: docs/notes.md, content: \"# Notes\\n\\nTidied.\\n\"}
  - tool: builtin/file-delete
    input: {path: menu.txt}
  - tool: builtin/file-move
    input: {from: old name.txt, to: kept/new name.txt}
";

const ACTION: &str = "\
name: local/tidy-up
description: Tidy up the shop
strategy_actor: builtin/direct
execution_actor: local/tidy
definition_of_done: It is tidy
";

const REPOSITORY: &str = "
set -e
export GIT_AUTHOR_DATE=@1700000000+0000 GIT_COMMITTER_DATE=@1700000000+0000
mkdir -p shop && cd shop
git init -q -b main .
git config user.name Ada && git config user.email ada@example.com
seq -f 'line %g' 1 20 > cart.txt
printf 'Caf\\351: 3\\r\\n' > menu.txt
printf 'kept as it is\\n' > 'old name.txt'
git add -A && git commit -q -m 'Begin'
";

/// Runs a script in the work directory; it must succeed.
#[track_caller]
pub(crate) fn run_script(environment: &TestEnvironment, script: &str) -> CliRun {
    environment.shell(&[], script).succeeded()
}

/// Creates a plan with this actor and action, without executing it; returns its id.
pub(crate) fn create_plan_with(
    environment: &mut TestEnvironment,
    actor: &str,
    action: &str,
) -> String {
    environment.set_variable("PATH", PATH);
    run_script(environment, REPOSITORY);
    environment.write("work/actor.yaml", actor);
    environment.write("work/action.yaml", action);
    for arguments in [
        &["actor", "add", "--config", "actor.yaml"][..],
        &["action", "create", "--config", "action.yaml"],
        &["project", "create", "shop", "--path", "shop"],
    ] {
        environment.run(arguments).succeeded();
    }
    use_action(environment)
}

/// Creates another plan of the same action.
pub(crate) fn use_action(environment: &mut TestEnvironment) -> String {
    let used = ["plan", "use", "local/tidy-up", "shop", "--format", "json"];
    let used: Value = environment.run(&used).succeeded().json();
    let id = used["data"]["plan_id"].as_str().unwrap().to_owned();
    environment.define_placeholder(PLAN_PLACEHOLDER, &id);
    id
}

/// Executes the plan until nothing is left to do.
#[track_caller]
pub(crate) fn execute_until_done(environment: &TestEnvironment, plan: &str) -> CliRun {
    for _ in 0..3 {
        let run = environment.run(&["plan", "execute", plan]);
        if run.code != Some(5) {
            return run;
        }
    }
    panic!("the plan still waits for approval");
}

/// Creates and executes the plan; returns its id.
pub(crate) fn create_executed_plan(environment: &mut TestEnvironment) -> String {
    let plan = create_plan_with(environment, ACTOR, ACTION);
    execute_until_done(environment, &plan).succeeded();
    let list = ["sandbox", "list", "--plan", &plan, "--format", "json"];
    let list = environment.run(&list).succeeded().json();
    let sandbox = list["data"]["sandboxes"][0]["id"].as_str();
    environment.define_placeholder(SANDBOX_PLACEHOLDER, sandbox.unwrap());
    plan
}

/// Like [`create_executed_plan`], with a check that passes as long as the notes exist.
pub(crate) fn create_checked_plan(environment: &mut TestEnvironment) -> String {
    let checked = format!("{ACTION}checks:\n  - run: test -f docs/notes.md\n");
    let plan = create_plan_with(environment, ACTOR, &checked);
    execute_until_done(environment, &plan).succeeded();
    plan
}

/// The set-up of cases.
pub(crate) fn with_executed_plan(environment: &mut TestEnvironment) {
    create_executed_plan(environment);
}

pub(crate) fn with_plan(environment: &mut TestEnvironment) {
    create_plan(environment);
}

/// Creates the plan without executing it; returns its id.
pub(crate) fn create_plan(environment: &mut TestEnvironment) -> String {
    create_plan_with(environment, ACTOR, ACTION)
}
