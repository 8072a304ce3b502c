//! Rule commands: refusals, output and removal.

use crate::bad_definitions::assert_refused;
use crate::cases::add_project;
use crate::environment::TestEnvironment;

fn environment_with_project() -> TestEnvironment {
    let environment = TestEnvironment::new();
    environment.run(&["init"]).succeeded();
    add_project(&environment);
    environment
}

fn count_rules(environment: &TestEnvironment) -> u64 {
    let run = environment.run(&["invariant", "list", "-f", "json"]);
    let json = run.succeeded().json();
    json["data"]["summary"]["total"].as_u64().unwrap()
}

#[test]
fn invalid_rules_are_refused_and_not_stored() {
    let environment = environment_with_project();
    let long = "x".repeat(4097);
    let plan = "01JZZZZZZZ0000000000ABCDEF";
    for (arguments, code, part) in [
        (&["add", ""][..], 2, "needs a text"),
        (&["add", " \n\t "], 2, "needs a text"),
        (&["add", &long], 2, "4096 bytes"),
        (&["add"], 2, "TEXT"),
        (
            &["add", "--project", "none", "x"],
            3,
            "no project `local/none`",
        ),
        (&["add", "--project", "a b", "x"], 2, "` `"),
        (&["add", "--project", "../x", "x"], 2, "`.`"),
        (&["add", "--action", "a\x1b[2J", "x"], 2, "not allowed"),
        (&["add", "--plan", plan, "x"], 3, "no plan"),
        (&["add", "--plan", "abc", "x"], 2, "at least 4"),
        (
            &["add", "--global", "--project", "shop", "x"],
            2,
            "cannot be used with",
        ),
        (
            &["add", "--action", "a", "--plan", plan, "x"],
            2,
            "cannot be used with",
        ),
        (
            &["add", "--non-overridable", "--project", "shop", "x"],
            2,
            "cannot be used with",
        ),
    ] {
        let run = environment.run(&[&["invariant"], arguments].concat());
        assert_refused(&run, code, &[part]);
    }
    assert_eq!(count_rules(&environment), 0);
}

#[test]
fn invalid_rule_queries_are_refused() {
    let environment = environment_with_project();
    let plan = "01JZZZZZZZ0000000000ABCDEF";
    for (arguments, code, part) in [
        (&["list", "--project", "none"][..], 3, "no project"),
        (&["list", "--plan", plan], 3, "no plan"),
        (&["list", "--effective"], 2, "--project or --plan"),
        (
            &["list", "--effective", "--global"],
            2,
            "cannot be used with",
        ),
        (
            &["list", "--effective", "--project", "none"],
            3,
            "no project",
        ),
        (&["list", "--effective", "--plan", plan], 3, "no plan"),
        (
            &["list", "--project", "shop", "--action", "a"],
            2,
            "two scopes",
        ),
        (&["list", "--limit", "many"], 2, "--limit"),
        (&["remove", "abc"], 2, "at least 4"),
        (&["remove", "not an id"], 2, "base 32"),
        (&["remove", "ABCDEF"], 3, "no invariant"),
    ] {
        let run = environment.run(&[&["invariant"], arguments].concat());
        assert_refused(&run, code, &[part]);
    }
}

#[test]
fn a_rule_is_unique_in_its_scope_and_removable_by_id_prefix() {
    let environment = environment_with_project();
    let add = |arguments: &[&str]| {
        let run = environment.run(&[&["invariant", "add", "-f", "json"], arguments].concat());
        run.succeeded().json()["data"]["invariants"][0].clone()
    };
    let first = add(&["Never push"]);
    let run = environment.run(&["invariant", "add", " never  PUSH ", "-f", "json"]);
    assert_eq!(run.code, Some(4));
    assert_eq!(run.json()["data"]["invariant_id"], first["id"]);
    let second = add(&["-p", "local/shop", "Never push"]);
    assert_eq!(count_rules(&environment), 2);
    // Ids generated in the same millisecond may share their first characters.
    let run = environment.run(&["invariant", "remove", "0"]);
    assert_refused(&run, 2, &["at least 4"]);
    for rule in [second, first] {
        let id = rule["id"].as_str().unwrap();
        let short = id[18..].to_lowercase();
        let run = environment.run(&["invariant", "remove", &short, "-f", "json"]);
        assert_eq!(run.succeeded().json()["data"]["id"], rule["id"]);
        assert_refused(
            &environment.run(&["invariant", "remove", id]),
            3,
            &["no invariant"],
        );
    }
    assert_eq!(count_rules(&environment), 0);
}

#[test]
fn rules_cannot_emit_terminal_escapes() {
    let environment = environment_with_project();
    let hostile = "a\x1b[2J\x07b\u{202e}c\nd";
    let run = environment.run(&["invariant", "add", hostile]).succeeded();
    assert!(!run.stdout.contains('\x1b'), "{run:?}");
    for format in ["rich", "plain", "table", "color"] {
        let run = environment
            .run(&["invariant", "list", "-f", format])
            .succeeded();
        assert!(run.stdout.contains("a\\x1b[2J\\x07b\\u{202e}c"), "{run:?}");
        assert!(
            !run.stdout.contains(['\x1b', '\x07', '\u{202e}']),
            "{run:?}"
        );
    }
    let json = environment.run(&["invariant", "list", "-f", "json"]).json();
    assert_eq!(json["data"]["invariants"][0]["text"], hostile);
}

#[test]
fn terminals_show_one_hundred_rules_and_json_all() {
    let environment = environment_with_project();
    let actions: Vec<String> = (0..120).map(|n| format!("--action=a{n}")).collect();
    let actions = actions.iter().map(String::as_str);
    let add: Vec<&str> = ["invariant", "add", "x"]
        .into_iter()
        .chain(actions)
        .collect();
    environment.run(&add).succeeded();
    let run = environment
        .run(&["invariant", "list", "-f", "plain"])
        .succeeded();
    assert_eq!(run.stdout.lines().count(), 101);
    assert!(run.stderr.contains("20 more"), "{run:?}");
    let json = environment.run(&["invariant", "list", "-f", "json"]).json();
    assert_eq!(json["data"]["invariants"].as_array().unwrap().len(), 120);
    let few = environment.run(&["invariant", "list", "-f", "json", "--limit", "7"]);
    let json = few.json();
    assert_eq!(json["data"]["invariants"].as_array().unwrap().len(), 7);
    assert_eq!(json["data"]["summary"]["total"], 120);
}
