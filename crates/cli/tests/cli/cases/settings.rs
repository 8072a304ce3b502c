//! Commands about settings.

use super::{SnapshotCase, without_setup};
use crate::environment::TestEnvironment;

pub(super) const CASES: &[SnapshotCase] = &[
    SnapshotCase {
        command: "config get",
        about: "",
        arguments: &["config", "get", "plan.concurrency"],
        prepare: with_settings,
        line_limit: None,
    },
    SnapshotCase {
        command: "config get",
        about: "chain",
        arguments: &["config", "get", "core.automation-profile", "--verbose"],
        prepare: with_settings,
        line_limit: None,
    },
    SnapshotCase {
        command: "config get",
        about: "ignored",
        arguments: &["config", "get", "core.automation-profile", "--verbose"],
        prepare: with_full_auto_project,
        line_limit: None,
    },
    SnapshotCase {
        command: "config get",
        about: "unknown",
        arguments: &["config", "get", "plan.concurency"],
        prepare: without_setup,
        line_limit: None,
    },
    SnapshotCase {
        command: "config get",
        about: "malformed",
        arguments: &["config", "get", "plan.concurrency"],
        prepare: with_malformed_settings,
        line_limit: None,
    },
    SnapshotCase {
        command: "config set",
        about: "",
        arguments: &["config", "set", "plan.concurrency", "8"],
        prepare: with_settings,
        line_limit: None,
    },
    SnapshotCase {
        command: "config set",
        about: "secret",
        arguments: &["config", "set", "provider.openai.api-key", "my-own-secret"],
        prepare: without_setup,
        line_limit: None,
    },
    SnapshotCase {
        command: "config set",
        about: "range",
        arguments: &["config", "set", "plan.concurrency", "65"],
        prepare: without_setup,
        line_limit: None,
    },
    SnapshotCase {
        command: "config list",
        about: "",
        arguments: &["config", "list"],
        prepare: with_settings,
        line_limit: None,
    },
    SnapshotCase {
        command: "config unset",
        about: "",
        arguments: &["config", "unset", "plan.concurrency"],
        prepare: with_settings,
        line_limit: None,
    },
    SnapshotCase {
        command: "config unset",
        about: "nothing",
        arguments: &["config", "unset", "plan.concurrency"],
        prepare: without_setup,
        line_limit: None,
    },
];

fn with_settings(environment: &mut TestEnvironment) {
    environment.write(
        ".cleveragents/config.toml",
        "# mine\n[plan]\nconcurrency = 6 # enough\n\n[core]\nautomation-profile = \"cautious\"\n",
    );
    environment.write(
        "work/.agents/config.toml",
        "core.automation-profile = \"review\"\n",
    );
    environment.set_variable("CLEVERAGENTS_DATABASE_URL", "postgres://me:pass@db/agents");
    environment.set_variable("ANTHROPIC_API_KEY", "not-for-your-eyes");
}

/// A repository whose settings ask for full automation.
fn with_full_auto_project(environment: &mut TestEnvironment) {
    environment.write(
        "work/.agents/config.toml",
        "core.automation-profile = \"full-auto\"\n",
    );
}

fn with_malformed_settings(environment: &mut TestEnvironment) {
    environment.write(".cleveragents/config.toml", "[plan]\nconcurrency = = 6\n");
}
