//! Commands about the program, its data and the machine.

use super::{SnapshotCase, with_store, without_setup};
use crate::environment::{TestEnvironment, host_path};

pub(super) const CASES: &[SnapshotCase] = &[
    SnapshotCase {
        command: "init",
        about: "",
        arguments: &["init"],
        prepare: without_setup,
        line_limit: None,
    },
    SnapshotCase {
        command: "init",
        about: "again",
        arguments: &["init"],
        prepare: with_store,
        line_limit: None,
    },
    SnapshotCase {
        command: "info",
        about: "",
        arguments: &["info"],
        prepare: with_store,
        line_limit: None,
    },
    SnapshotCase {
        command: "diagnostics",
        about: "",
        arguments: &["diagnostics", "--offline"],
        prepare: with_git,
        line_limit: None,
    },
    SnapshotCase {
        command: "diagnostics",
        about: "broken",
        arguments: &["diagnostics"],
        prepare: with_corrupt_database,
        line_limit: None,
    },
    SnapshotCase {
        command: "backup",
        about: "",
        arguments: &["backup", "mine.tar"],
        prepare: with_store,
        line_limit: None,
    },
    SnapshotCase {
        command: "backup",
        about: "exists",
        arguments: &["backup", "saved.tar"],
        prepare: with_backup,
        line_limit: None,
    },
    SnapshotCase {
        command: "restore",
        about: "",
        arguments: &["restore", "saved.tar", "--data-dir", "../.other"],
        prepare: with_backup,
        line_limit: None,
    },
    SnapshotCase {
        command: "restore",
        about: "not-empty",
        arguments: &["restore", "saved.tar"],
        prepare: with_backup,
        line_limit: None,
    },
    SnapshotCase {
        command: "restore",
        about: "forced",
        arguments: &["restore", "saved.tar", "--force"],
        prepare: with_backup,
        line_limit: None,
    },
    SnapshotCase {
        command: "restore",
        about: "damaged",
        arguments: &["restore", "../.cleveragents/config.toml"],
        prepare: with_store,
        line_limit: None,
    },
    SnapshotCase {
        command: "gc",
        about: "",
        arguments: &["gc"],
        prepare: with_stale_lock,
        line_limit: None,
    },
    SnapshotCase {
        command: "gc",
        about: "dry-run",
        arguments: &["gc", "--dry-run"],
        prepare: with_stale_lock,
        line_limit: None,
    },
    SnapshotCase {
        command: "version",
        about: "",
        arguments: &["version"],
        prepare: without_setup,
        line_limit: None,
    },
    SnapshotCase {
        command: "completions",
        about: "",
        arguments: &["completions", "bash"],
        prepare: without_setup,
        line_limit: Some(8),
    },
    SnapshotCase {
        command: "man",
        about: "",
        arguments: &["man"],
        prepare: without_setup,
        line_limit: Some(8),
    },
    SnapshotCase {
        command: "man",
        about: "pages",
        arguments: &["man", "--out", "pages"],
        prepare: without_setup,
        line_limit: Some(9),
    },
];

fn with_backup(environment: &mut TestEnvironment) {
    with_store(environment);
    environment.run(&["backup", "saved.tar"]).succeeded();
}

/// Only git of the machine's programs.
fn with_git(environment: &mut TestEnvironment) {
    with_store(environment);
    let git = std::env::split_paths(&host_path())
        .map(|folder| folder.join("git"))
        .find(|program| program.is_file());
    let folder = environment.path("bin");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(git.unwrap(), folder.join("git")).unwrap();
    environment.set_variable("PATH", folder);
    environment.set_variable("ANTHROPIC_API_KEY", "not-for-your-eyes");
}

fn with_corrupt_database(environment: &mut TestEnvironment) {
    with_store(environment);
    let rubbish = "this is no database\n".repeat(1000);
    environment.write(".cleveragents/cleveragents.db", rubbish);
}

/// The lock file of a dead process, which nothing holds.
fn with_stale_lock(environment: &mut TestEnvironment) {
    with_store(environment);
    environment.write(".cleveragents/run/01JZZZZZZZ0000000000ABCDEF.lock", "{}");
}
