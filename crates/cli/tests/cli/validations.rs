//! Validation commands: refusals, attachments and removal.

use serde_json::{Value, json};

use crate::bad_definitions::assert_refused;
use crate::cases::{TESTS, with_validations};
use crate::environment::TestEnvironment;
use crate::plan_fixture::create_plan;
use crate::terminal::terminal_output_with_reply;

fn environment_with_validations() -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    with_validations(&mut environment);
    environment
}

fn list_validations(environment: &TestEnvironment) -> Value {
    let run = environment.run(&["validation", "list", "-f", "json"]);
    run.succeeded().json()["data"].take()
}

fn attach(environment: &TestEnvironment, arguments: &[&str]) -> String {
    let all = [&["validation", "attach", "-f", "json"], arguments].concat();
    let json = environment.run(&all).succeeded().json();
    let attached = &json["data"]["validation_attached"];
    attached["attachment_id"].as_str().unwrap().to_owned()
}

#[test]
fn an_invalid_validation_is_refused_with_its_position() {
    let environment = TestEnvironment::new();
    let with = |from: &str, to: &str| TESTS.replace(from, to);
    for (text, parts) in [
        (String::new(), vec![":1:1: "]),
        ("name: [".to_owned(), vec!["not YAML"]),
        (
            with("name:", "version: 3\nname:"),
            vec!["version 3", "newer"],
        ),
        (
            with("mode: required", "mode: strict"),
            vec!["bad.yaml:3:7: ", "use required, informational"],
        ),
        (
            with("mode: required\n", ""),
            vec!["the key `mode` is missing"],
        ),
        (
            with("timeout: 900", "timeout: 86401"),
            vec!["bad.yaml:5:10: ", "from 1 to 86400"],
        ),
        (
            with("timeout: 900", "timeuot: 900"),
            vec!["did you mean `timeout`?"],
        ),
        (
            with("local/tests", "builtin/tests"),
            vec!["this program's own"],
        ),
        (
            with("timeout: 900", "wraps: builtin/file-search"),
            vec!["either `run` or `wraps`"],
        ),
        (
            with("run: cargo test --package {{ args.package }}\n", ""),
            vec!["needs `run`, a command, or `wraps`"],
        ),
        (
            with("args.package", "arg.package"),
            vec!["there is no `arg`", "did you mean `args`?"],
        ),
        (
            with("timeout: 900", "transform: output"),
            vec!["`transform` goes with `wraps`"],
        ),
    ] {
        environment.write("work/bad.yaml", &text);
        let run = environment.run(&["validation", "add", "--config", "bad.yaml"]);
        assert_refused(&run, 2, &parts);
    }
    assert!(!environment.path(".cleveragents").exists());
}

#[test]
fn invalid_validation_arguments_are_refused() {
    let environment = environment_with_validations();
    let plan = "01JZZZZZZZ0000000000ABCDEF";
    for (arguments, code, part) in [
        (&["add"][..], 2, "--config"),
        (
            &["add", "--config", "none.yaml"],
            2,
            "cannot read none.yaml",
        ),
        (&["add", "--config", "tests.yaml"], 4, "--update"),
        (&["list", "--mode", "some"], 2, "required, informational"),
        (&["list", "("], 2, "unclosed group"),
        (&["show", "none"], 3, "there is no validation `local/none`"),
        (
            &["remove", "none"],
            3,
            "there is no validation `local/none`",
        ),
        (&["detach", "abc"], 2, "at least 4"),
        (&["detach", plan], 3, "there is no attachment"),
    ] {
        let run = environment.run(&[&["validation"], arguments].concat());
        assert_refused(&run, code, &[part]);
    }
}

#[test]
fn an_invalid_attachment_is_refused() {
    let environment = environment_with_validations();
    let plan = "01JZZZZZZZ0000000000ABCDEF";
    for (arguments, code, part) in [
        (&["attach", "local/shop"][..], 2, "VALIDATION"),
        (
            &["attach", "local/bank", "no-todo"],
            3,
            "there is no resource `local/bank`",
        ),
        (
            &["attach", "local/shop", "none"],
            3,
            "there is no validation `local/none`",
        ),
        (
            &["attach", "--project", "bank", "local/shop", "no-todo"],
            3,
            "there is no project `local/bank`",
        ),
        (
            &["attach", "--plan", plan, "local/shop", "no-todo"],
            3,
            "there is no plan",
        ),
        (
            &["attach", "--plan", "abc", "local/shop", "no-todo"],
            2,
            "at least 4",
        ),
        (
            &[
                "attach",
                "--project",
                "shop",
                "--plan",
                plan,
                "local/shop",
                "no-todo",
            ],
            2,
            "cannot be used with",
        ),
    ] {
        let run = environment.run(&[&["validation"], arguments].concat());
        assert_refused(&run, code, &[part]);
    }
    assert_eq!(list_validations(&environment)["summary"]["attachments"], 0);
}

#[test]
fn mismatched_arguments_are_refused() {
    let environment = environment_with_validations();
    for (arguments, code, part) in [
        (
            &["attach", "local/shop", "tests"][..],
            2,
            "there is no `args.package`",
        ),
        (
            &["attach", "local/shop", "tests", "package"],
            2,
            "write it as NAME=VALUE",
        ),
        (
            &["attach", "local/shop", "tests", "package=a", "package=b"],
            2,
            "given twice",
        ),
        (
            &["attach", "local/shop", "no-todo", "package=a"],
            2,
            "it takes none",
        ),
        (
            &["attach", "a b", "no-todo"],
            2,
            "cannot be the name of a resource",
        ),
    ] {
        let run = environment.run(&[&["validation"], arguments].concat());
        assert_refused(&run, code, &[part]);
    }
    assert_eq!(list_validations(&environment)["summary"]["attachments"], 0);
}

#[test]
fn a_validation_is_attached_in_each_scope_and_detached() {
    let environment = environment_with_validations();
    let plan = create_plan(&environment, "local/shop");
    let direct = attach(&environment, &["local/shop", "tests", "package=cart"]);
    let project = attach(&environment, &["-p", "shop", "local/docs", "no-todo"]);
    let of_plan = attach(&environment, &["--plan", &plan, "local/shop", "no-todo"]);
    let data = list_validations(&environment);
    let scopes: Vec<(&Value, &Value)> = data["attachments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| (&each["scope"], &each["scope_target"]))
        .collect();
    assert_eq!(
        scopes,
        [
            (&json!("plan"), &json!(plan)),
            (&json!("project"), &json!("local/shop")),
            (&json!("direct"), &Value::Null),
        ]
    );
    assert_eq!(data["attachments"][2]["args"], json!({"package": "cart"}));
    // It is in the plan's journal, and a detach removes it like the others.
    let log = environment.run(&["plan", "log", &plan, "-f", "json"]);
    let log = log.succeeded().json();
    let last = log["data"]["events"].as_array().unwrap().last().unwrap();
    assert_eq!(last["kind"], "validation_attached");
    assert_eq!(last["payload"]["id"], of_plan);
    for id in [&direct, &project, &of_plan] {
        let detach = ["validation", "detach", &id[18..], "-f", "json"];
        let json = environment.run(&detach).succeeded().json();
        assert_eq!(json["data"]["validation_detached"]["attachment_id"], **id);
    }
    let again = environment.run(&["validation", "detach", &direct]);
    assert_refused(&again, 3, &["there is no attachment", "validation list"]);
    environment
        .run(&["validation", "remove", "tests"])
        .succeeded();
    assert_eq!(list_validations(&environment)["summary"]["total"], 1);
}

#[test]
fn detach_takes_what_attach_took() {
    let environment = environment_with_validations();
    let plan = create_plan(&environment, "local/shop");
    let first = ["local/shop", "tests", "package=cart"];
    let second = ["local/shop", "tests", "package=menu"];
    let of_project = ["-p", "shop", "local/docs", "no-todo"];
    let of_plan = ["--plan", &plan, "local/shop", "no-todo"];
    let all = [&first[..], &second, &of_project, &of_plan];
    let ids = all.map(|arguments| attach(&environment, arguments));
    let detach = |arguments: &[&str]| {
        environment.run(&[&["validation", "detach", "--yes", "-f", "json"], arguments].concat())
    };
    // Without arguments, the two attachments of the same validation are ambiguous.
    let ambiguous = detach(&first[..2]);
    assert_eq!(ambiguous.code, Some(2), "{ambiguous:?}");
    for id in &ids[..2] {
        let short = id[18..].to_lowercase();
        assert!(format!("{ambiguous:?}").contains(&short), "{ambiguous:?}");
    }
    // The scope belongs to the attachment.
    let without_scope = detach(&of_project[2..]);
    assert_eq!(without_scope.code, Some(3), "{without_scope:?}");
    for (arguments, id) in all.iter().zip(&ids) {
        let json = detach(arguments).succeeded().json();
        assert_eq!(json["data"]["validation_detached"]["attachment_id"], **id);
        assert_eq!(detach(arguments).code, Some(3), "{arguments:?}");
    }
    assert_eq!(list_validations(&environment)["summary"]["attachments"], 0);
}

#[test]
fn attachments_are_deleted_with_their_project() {
    let environment = environment_with_validations();
    attach(&environment, &["-p", "shop", "local/docs", "no-todo"]);
    attach(&environment, &["local/docs", "no-todo"]);
    let delete = ["project", "delete", "shop", "--yes"];
    environment.run(&delete).succeeded();
    assert_eq!(list_validations(&environment)["summary"]["attachments"], 1);
    let remove = ["resource", "remove", "local/docs"];
    environment.run(&remove).succeeded();
    assert_eq!(list_validations(&environment)["summary"]["attachments"], 0);
}

#[test]
fn removing_a_gate_needs_confirmation() {
    let environment = environment_with_validations();
    let id = attach(&environment, &["local/docs", "no-todo"]);
    let seen = terminal_output_with_reply(&environment, &["validation", "detach", &id], "\n");
    assert!(
        seen.contains("Detach local/no-todo from local/docs (")
            && seen.contains("nothing was detached"),
        "{seen}"
    );
    assert_eq!(list_validations(&environment)["summary"]["attachments"], 1);
    terminal_output_with_reply(&environment, &["validation", "detach", &id], "yes\n");
    assert_eq!(list_validations(&environment)["summary"]["attachments"], 0);
}

#[test]
fn one_of_eight_equal_attaches_succeeds() {
    let environment = environment_with_validations();
    let attach: Vec<Vec<&str>> = vec![vec!["validation", "attach", "local/docs", "no-todo"]; 8];
    let runs = environment.run_concurrently(&attach);
    let codes = |code| runs.iter().filter(|run| run.code == Some(code)).count();
    assert_eq!((codes(0), codes(4)), (1, 7), "{runs:?}");
}
