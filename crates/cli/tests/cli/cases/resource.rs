//! Commands about resources.

use super::project::{with_directories, with_projects};
use super::{SnapshotCase, without_setup};
use crate::environment::TestEnvironment;

pub(super) const CASES: &[SnapshotCase] = &[
    SnapshotCase {
        command: "resource add",
        about: "",
        arguments: &[
            "resource",
            "add",
            "git-checkout",
            "team/shop",
            "--path",
            "shop",
        ],
        prepare: with_directories,
        line_limit: None,
    },
    SnapshotCase {
        command: "resource add",
        about: "checkout-as-folder",
        arguments: &["resource", "add", "fs-directory", "shop", "--path", "shop"],
        prepare: with_directories,
        line_limit: None,
    },
    SnapshotCase {
        command: "resource add",
        about: "path-taken",
        arguments: &["resource", "add", "fs-directory", "notes", "--path", "docs"],
        prepare: with_projects,
        line_limit: None,
    },
    SnapshotCase {
        command: "resource list",
        about: "",
        arguments: &["resource", "list"],
        prepare: with_nested_resources,
        line_limit: None,
    },
    SnapshotCase {
        command: "resource list",
        about: "type",
        arguments: &["resource", "list", "--type", "git-checkout"],
        prepare: with_nested_resources,
        line_limit: None,
    },
    SnapshotCase {
        command: "resource show",
        about: "",
        arguments: &["resource", "show", "local/shop"],
        prepare: with_projects,
        line_limit: None,
    },
    SnapshotCase {
        command: "resource tree",
        about: "",
        arguments: &["resource", "tree"],
        prepare: with_nested_resources,
        line_limit: None,
    },
    SnapshotCase {
        command: "resource tree",
        about: "one",
        arguments: &["resource", "tree", "local/shop"],
        prepare: with_nested_resources,
        line_limit: None,
    },
    SnapshotCase {
        command: "resource tree",
        about: "none",
        arguments: &["resource", "tree"],
        prepare: without_setup,
        line_limit: None,
    },
    SnapshotCase {
        command: "resource remove",
        about: "",
        arguments: &["resource", "remove", "team/alone"],
        prepare: with_nested_resources,
        line_limit: None,
    },
    SnapshotCase {
        command: "resource remove",
        about: "linked",
        arguments: &["resource", "remove", "local/docs"],
        prepare: with_projects,
        line_limit: None,
    },
];

/// The projects, a resource inside another, and one that is linked to no project.
fn with_nested_resources(environment: &mut TestEnvironment) {
    with_projects(environment);
    std::fs::create_dir(environment.path("work/alone")).unwrap();
    for (name, path) in [("team/sources", "shop/src"), ("team/alone", "alone")] {
        let add = ["resource", "add", "fs-directory", name, "--path", path];
        environment.run(&add).succeeded();
    }
}
