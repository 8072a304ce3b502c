//! Project commands: invalid names, plans that block a deletion, and questions.

use serde_json::json as value;

use crate::bad_input::assert_refused;
use crate::data_directory::json_data;
use crate::environment::TestEnvironment;
use crate::plan_fixture::create_plan;
use crate::resource_paths::{create_folder, create_repository};

/// Arguments, the exit code, and parts of the output; no parts if clap reports the error.
type InvalidProjectCase<'a> = (&'a [&'a str], i32, &'a [&'a str]);

/// Asserts that each is refused and nothing is created.
fn assert_all_refused(wrong: &[InvalidProjectCase<'_>]) {
    for (arguments, code, parts) in wrong {
        let environment = TestEnvironment::new();
        let run = environment.run(arguments);
        if parts.is_empty() {
            assert_eq!(run.code, Some(*code), "{run:?}");
        } else {
            assert_refused(&run, *code, parts);
        }
        let projects = json_data(&environment, &["project", "list"]);
        assert_eq!(projects["summary"]["total"], 0, "{arguments:?}");
    }
}

#[test]
fn wrong_names_are_refused() {
    let long = "n".repeat(101);
    let huge = "n".repeat(100 * 1024);
    let profile = ["project", "create", "x", "--automation-profile"];
    assert_all_refused(&[
        (&["project", "create", ".."], 2, &["`.` is not allowed"]),
        (&["project", "create", "../x"], 2, &["namespace"]),
        (&["project", "create", "a\u{1b}b"], 2, &["is not allowed"]),
        (&["project", "create", ""], 2, &["must not be empty"]),
        (&["project", "create", &long], 2, &["100 characters"]),
        (&["project", "create", &huge], 2, &["102400 bytes"]),
        (&["project", "show", "a/b/c"], 2, &["is not allowed"]),
        (&["project", "delete", " "], 2, &["is not allowed"]),
        (
            &["project", "link-resource", "a b", "x"],
            2,
            &["of a project"],
        ),
        (
            &["project", "link-resource", "x", "a b"],
            2,
            &["of a resource"],
        ),
        (&["resource", "show", "-x"], 2, &[]),
        (&["resource", "remove", "a,b"], 2, &["of a resource"]),
        (&["resource", "tree", "a,b"], 2, &["of a resource"]),
        (
            &[&profile[..], &["a b"]].concat(),
            2,
            &["of an automation profile"],
        ),
        (
            &[&profile[..], &["team/none"]].concat(),
            3,
            &["no automation profile `team/none`"],
        ),
    ]);
}

#[test]
fn invalid_texts_and_filters_are_refused() {
    let text = "x".repeat(5000);
    let rule = ["project", "create", "x", "--invariant"];
    let description = ["project", "create", "x", "--description"];
    assert_all_refused(&[
        (&[&rule[..], &[" "]].concat(), 2, &["needs a text"]),
        (&[&rule[..], &[&text]].concat(), 2, &["4096 bytes"]),
        (&[&description[..], &[&text]].concat(), 2, &["4096 bytes"]),
        (&["project", "list", "("], 2, &["not a regular expression"]),
        (&["project", "list", "--limit", "0"], 2, &[]),
        (&["project", "list", "--limit", "-1"], 2, &[]),
        (&["project", "list", "--limit", "many"], 2, &[]),
        (&["resource", "list", "--type", "url"], 2, &["git-checkout"]),
        (&["resource", "add", "fs-directory", "x"], 2, &[]),
    ]);
}

#[test]
fn a_missing_project_is_not_found() {
    assert_all_refused(&[
        (&["project", "show", "x"], 3, &["agents project list"]),
        (&["project", "delete", "x"], 3, &["no project `local/x`"]),
        (&["project", "delete", "x", "--force"], 3, &["no project"]),
        (&["project", "link-resource", "x", "y"], 3, &["no project"]),
        (
            &["project", "unlink-resource", "x", "y"],
            3,
            &["no project"],
        ),
        (&["resource", "show", "x"], 3, &["agents resource list"]),
        (&["resource", "remove", "x"], 3, &["no resource `local/x`"]),
        (&["resource", "tree", "x"], 3, &["no resource `local/x`"]),
    ]);
    let environment = TestEnvironment::new();
    environment.run(&["project", "create", "x"]).succeeded();
    for verb in ["link-resource", "unlink-resource"] {
        let run = environment.run(&["project", verb, "x", "y"]);
        assert_refused(&run, 3, &["no resource `local/y`"]);
    }
}

#[test]
fn a_project_is_created_whole_or_not_at_all() {
    let environment = TestEnvironment::new();
    create_repository(&environment, "work/shop");
    environment.run(&["project", "create", "shop"]).succeeded();
    let again = ["project", "create", "shop", "--path", "shop"];
    let run = environment.run(&again);
    assert_refused(
        &run,
        4,
        &["`local/shop` is taken", "agents project show local/shop"],
    );
    let found = json_data(&environment, &["resource", "list"]);
    assert_eq!(found["summary"]["total"], 0);
    // A path that is given twice becomes one resource.
    let twice = [
        "project", "create", "bank", "--path", "shop", "--path", "./shop",
    ];
    let created = json_data(&environment, &twice);
    assert_eq!(created["resources"].as_array().unwrap().len(), 1);
    assert_eq!(created["resources"][0]["reused"], false);
}

#[test]
fn directories_of_one_name_are_numbered_in_their_order() {
    let environment = TestEnvironment::new();
    for path in ["work/b/shop", "work/a/shop", "work/c/my shop"] {
        create_folder(&environment, path);
    }
    let create = [
        "project", "create", "all", "--path", "b/shop", "--path", "a/shop",
    ];
    let create = [&create[..], &["--path", "c/my shop"]].concat();
    let created = json_data(&environment, &create);
    let names = created["resources"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|one| one["name"].clone()).collect();
    assert_eq!(
        names,
        [
            value!("local/shop"),
            value!("local/shop-2"),
            value!("local/my-shop")
        ]
    );
}

#[test]
fn unfinished_plans_block_deletion() {
    let environment = TestEnvironment::new();
    create_folder(&environment, "work/shop");
    let create = ["project", "create", "shop", "--path", "shop"];
    environment.run(&create).succeeded();
    let id = create_plan(&environment, "local/shop");
    let run = environment.run(&["project", "delete", "shop", "--yes", "-f", "json"]);
    assert_eq!(run.code, Some(4), "{run:?}");
    let data = run.json()["data"].clone();
    let blocked = value!([{"plan_id": id, "phase": "strategize", "state": "queued"}]);
    assert_eq!(data["delete_blocked"], blocked);
    let resolution = data["resolution"].as_array().unwrap();
    assert_eq!(resolution[1], "agents project delete local/shop --force");
    let shown = json_data(&environment, &["project", "show", "shop"]);
    assert_eq!(
        shown["plans"],
        value!({"total": 1, "unfinished": 1, "by_state": {"queued": 1}})
    );

    let deleted = json_data(&environment, &["project", "delete", "shop", "--force"]);
    let wanted = value!({
        "project": "local/shop",
        "resources_unlinked": ["local/shop"],
        "plans_cancelled": [id],
    });
    assert_eq!(deleted["deletion_summary"], wanted);
    let run = environment.run(&["project", "show", "shop"]);
    assert_refused(&run, 3, &["no project `local/shop`"]);
    json_data(&environment, &["resource", "remove", "local/shop"]);
    // The name is free again, and the cancelled plan stays cancelled.
    environment.run(&create).succeeded();
    let shown = json_data(&environment, &["project", "show", "shop"]);
    assert_eq!(shown["plans"]["by_state"], value!({"cancelled": 1}));
}

#[test]
fn linking_twice_creates_one_link() {
    let environment = TestEnvironment::new();
    create_folder(&environment, "work/docs");
    environment.run(&["project", "create", "shop"]).succeeded();
    let add = ["resource", "add", "fs-directory", "docs", "--path", "docs"];
    environment.run(&add).succeeded();
    for (verb, changed) in [
        ("link-resource", true),
        ("link-resource", false),
        ("unlink-resource", true),
        ("unlink-resource", false),
    ] {
        let answer = json_data(&environment, &["project", verb, "shop", "docs"]);
        assert_eq!(answer["changed"], changed, "{verb}");
    }
}
