//! Commands about projects.

use super::{Case, with_nothing};
use crate::environment::TestEnvironment;
use crate::places::{folder, repository};
use crate::plans::make_plan;

pub(super) const CASES: &[Case] = &[
    Case {
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
        prepare: with_places,
        head: None,
    },
    Case {
        command: "project create",
        about: "empty",
        arguments: &["project", "create", "shop"],
        prepare: with_nothing,
        head: None,
    },
    Case {
        command: "project create",
        about: "reused",
        arguments: &["project", "create", "bank", "--path", "shop"],
        prepare: with_projects,
        head: None,
    },
    Case {
        command: "project create",
        about: "taken",
        arguments: &["project", "create", "empty"],
        prepare: with_projects,
        head: None,
    },
    Case {
        command: "project create",
        about: "inside",
        arguments: &["project", "create", "shop", "--path", "shop/src"],
        prepare: with_places,
        head: None,
    },
    Case {
        command: "project list",
        about: "",
        arguments: &["project", "list"],
        prepare: with_projects,
        head: None,
    },
    Case {
        command: "project list",
        about: "limit",
        arguments: &["project", "list", "local/", "--limit", "1"],
        prepare: with_projects,
        head: None,
    },
    Case {
        command: "project list",
        about: "none",
        arguments: &["project", "list"],
        prepare: with_nothing,
        head: None,
    },
    Case {
        command: "project show",
        about: "",
        arguments: &["project", "show", "shop"],
        prepare: with_plan,
        head: None,
    },
    Case {
        command: "project show",
        about: "unknown",
        arguments: &["project", "show", "none"],
        prepare: with_nothing,
        head: None,
    },
    Case {
        command: "project delete",
        about: "",
        arguments: &["project", "delete", "shop"],
        prepare: with_projects,
        head: None,
    },
    Case {
        command: "project delete",
        about: "blocked",
        arguments: &["project", "delete", "shop"],
        prepare: with_plan,
        head: None,
    },
    Case {
        command: "project delete",
        about: "forced",
        arguments: &["project", "delete", "shop", "--force", "--yes"],
        prepare: with_plan,
        head: None,
    },
    Case {
        command: "project link-resource",
        about: "",
        arguments: &["project", "link-resource", "empty", "local/docs"],
        prepare: with_projects,
        head: None,
    },
    Case {
        command: "project unlink-resource",
        about: "",
        arguments: &["project", "unlink-resource", "shop", "local/docs"],
        prepare: with_projects,
        head: None,
    },
    Case {
        command: "project unlink-resource",
        about: "not-linked",
        arguments: &["project", "unlink-resource", "empty", "local/docs"],
        prepare: with_projects,
        head: None,
    },
];

pub(super) fn with_places(environment: &mut TestEnvironment) {
    repository(environment, "work/shop");
    folder(environment, "work/shop/src");
    folder(environment, "work/docs");
}

/// A project with two resources and a rule, and an empty one.
pub(super) fn with_projects(environment: &mut TestEnvironment) {
    with_places(environment);
    let shop = ["project", "create", "shop", "--path", "shop", "--path"];
    let more = ["docs", "--invariant", "No new dependencies"];
    environment.run(&[&shop[..], &more].concat()).succeeded();
    environment.run(&["project", "create", "empty"]).succeeded();
}

fn with_plan(environment: &mut TestEnvironment) {
    with_projects(environment);
    make_plan(environment, "local/shop");
}
