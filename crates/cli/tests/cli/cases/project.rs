//! Commands about projects.

use super::{SnapshotCase, without_setup};
use crate::environment::TestEnvironment;
use crate::plan_fixture::create_plan;
use crate::resource_paths::{create_folder, create_repository};

pub(super) const CASES: &[SnapshotCase] = &[
    SnapshotCase {
        command: "project create",
        about: "",
        arguments: &[
            "project",
            "create",
            "shop",
            "--path",
            "shop",
            "--path",
            "docs",
            "--invariant",
            "No new dependencies",
            "--description",
            "The shop",
            "--automation-profile",
            "cautious",
        ],
        prepare: with_directories,
        line_limit: None,
    },
    SnapshotCase {
        command: "project create",
        about: "empty",
        arguments: &["project", "create", "shop"],
        prepare: without_setup,
        line_limit: None,
    },
    SnapshotCase {
        command: "project create",
        about: "reused",
        arguments: &["project", "create", "bank", "--path", "shop"],
        prepare: with_projects,
        line_limit: None,
    },
    SnapshotCase {
        command: "project create",
        about: "taken",
        arguments: &["project", "create", "empty"],
        prepare: with_projects,
        line_limit: None,
    },
    SnapshotCase {
        command: "project create",
        about: "inside",
        arguments: &["project", "create", "shop", "--path", "shop/src"],
        prepare: with_directories,
        line_limit: None,
    },
    SnapshotCase {
        command: "project list",
        about: "",
        arguments: &["project", "list"],
        prepare: with_projects,
        line_limit: None,
    },
    SnapshotCase {
        command: "project list",
        about: "limit",
        arguments: &["project", "list", "local/", "--limit", "1"],
        prepare: with_projects,
        line_limit: None,
    },
    SnapshotCase {
        command: "project list",
        about: "none",
        arguments: &["project", "list"],
        prepare: without_setup,
        line_limit: None,
    },
    SnapshotCase {
        command: "project show",
        about: "",
        arguments: &["project", "show", "shop"],
        prepare: with_plan,
        line_limit: None,
    },
    SnapshotCase {
        command: "project show",
        about: "unknown",
        arguments: &["project", "show", "none"],
        prepare: without_setup,
        line_limit: None,
    },
    SnapshotCase {
        command: "project delete",
        about: "",
        arguments: &["project", "delete", "shop"],
        prepare: with_projects,
        line_limit: None,
    },
    SnapshotCase {
        command: "project delete",
        about: "blocked",
        arguments: &["project", "delete", "shop"],
        prepare: with_plan,
        line_limit: None,
    },
    SnapshotCase {
        command: "project delete",
        about: "forced",
        arguments: &["project", "delete", "shop", "--force", "--yes"],
        prepare: with_plan,
        line_limit: None,
    },
    SnapshotCase {
        command: "project link-resource",
        about: "",
        arguments: &["project", "link-resource", "empty", "local/docs"],
        prepare: with_projects,
        line_limit: None,
    },
    SnapshotCase {
        command: "project unlink-resource",
        about: "",
        arguments: &["project", "unlink-resource", "shop", "local/docs"],
        prepare: with_projects,
        line_limit: None,
    },
    SnapshotCase {
        command: "project unlink-resource",
        about: "not-linked",
        arguments: &["project", "unlink-resource", "empty", "local/docs"],
        prepare: with_projects,
        line_limit: None,
    },
];

pub(super) fn with_directories(environment: &mut TestEnvironment) {
    create_repository(environment, "work/shop");
    create_folder(environment, "work/shop/src");
    create_folder(environment, "work/docs");
}

/// A project with two resources and a rule, and an empty one.
pub(super) fn with_projects(environment: &mut TestEnvironment) {
    with_directories(environment);
    let shop = ["project", "create", "shop", "--path", "shop", "--path"];
    let more = ["docs", "--invariant", "No new dependencies"];
    environment.run(&[&shop[..], &more].concat()).succeeded();
    environment.run(&["project", "create", "empty"]).succeeded();
}

fn with_plan(environment: &mut TestEnvironment) {
    with_projects(environment);
    create_plan(environment, "local/shop");
}
