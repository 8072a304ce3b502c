//! Commands about automation profiles.

use super::{SnapshotCase, case, without_setup};
use crate::environment::TestEnvironment;

pub(super) const CASES: &[SnapshotCase] = &[
    case(
        "automation-profile list",
        "",
        &["automation-profile", "list"],
        with_profile,
    ),
    case(
        "automation-profile show",
        "",
        &["automation-profile", "show", "cautious"],
        without_setup,
    ),
    case(
        "automation-profile show",
        "custom",
        &["automation-profile", "show", "night-shift"],
        with_profile,
    ),
    case(
        "automation-profile show",
        "unknown",
        &["automation-profile", "show", "supervized"],
        with_profile,
    ),
    case(
        "automation-profile add",
        "",
        &["automation-profile", "add", "--config", "night.yaml"],
        with_file,
    ),
    case(
        "automation-profile add",
        "taken",
        &["automation-profile", "add", "--config", "night.yaml"],
        with_profile,
    ),
    case(
        "automation-profile add",
        "update",
        &[
            "automation-profile",
            "add",
            "--config",
            "night.yaml",
            "--update",
        ],
        with_profile,
    ),
    case(
        "automation-profile add",
        "built-in",
        &[
            "automation-profile",
            "add",
            "--config",
            "manual.yaml",
            "--update",
        ],
        with_file,
    ),
    case(
        "automation-profile add",
        "wrong",
        &["automation-profile", "add", "--config", "wrong.yaml"],
        with_file,
    ),
];

/// Returns the definition of a profile with this name.
pub(crate) fn profile(name: &str) -> String {
    format!(
        "name: {name}\ndescription: Executes automatically, within a budget; you apply\n\
         thresholds:\n  decompose_task: 0.0\n  create_tool: 0.0\n  select_tool: 1.0\n  \
         edit_code: 0.25\n  execute_command: 0.0\n  create_file: 0.0\n  delete_content: 1.0\n  \
         access_network: 1.0\n  install_dependency: 0.0\n  modify_config: 0.0\n  \
         approve_plan: 1.0\n\
         require_sandbox: true\nrequire_checkpoints: true\nallow_unsafe_tools: false\n\
         guards: {{tool_denylist: [builtin/shell], max_total_cost: 5.0}}\n\
         limits: {{max_retries_per_step: 2}}\n"
    )
}

fn with_file(environment: &mut TestEnvironment) {
    environment.write("work/night.yaml", profile("local/night-shift"));
    environment.write("work/manual.yaml", profile("manual"));
    let wrong = profile("local/x").replace("create_tool: 0.0", "create_tol: 3");
    environment.write(
        "work/wrong.yaml",
        wrong.replace("edit_code: 0.25", "edit_code: 1.5"),
    );
}

fn with_profile(environment: &mut TestEnvironment) {
    with_file(environment);
    let add = ["automation-profile", "add", "--config", "night.yaml"];
    environment.run(&add).succeeded();
}
