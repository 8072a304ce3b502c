//! Plans for tests, created by the program itself.

use serde_json::Value;

use crate::environment::TestEnvironment;

pub(crate) const ACTION: &str = "\
name: local/lint
description: Lint {{ args.level }}
strategy_actor: builtin/direct
execution_actor: builtin/direct
definition_of_done: It is clean
arguments:
  - {name: level, type: choice, choices: [loose, strict], default: loose}
  - {name: depth, type: integer}
invariants: ['stay {{ args.level }}']
";

/// Registers the sample action, unless it is registered.
pub(crate) fn register_action(environment: &TestEnvironment) {
    environment.write("work/lint.yaml", ACTION);
    let create = ["action", "create", "--config", "lint.yaml", "--update"];
    environment.run(&create).succeeded();
}

/// Creates a plan from the sample action and returns its id.
pub(crate) fn create_plan(environment: &TestEnvironment, project: &str) -> String {
    register_action(environment);
    let used = environment.run(&["plan", "use", "lint", project, "--format", "json"]);
    let Value::String(id) = used.succeeded().json()["data"]["plan_id"].take() else {
        panic!("no plan id");
    };
    id
}
