//! Actor commands: refused definitions and concurrent registrations.

use serde_json::{Value, json};

use crate::bad_definitions::assert_refused;
use crate::cases::{GREETER, small_action};
use crate::environment::TestEnvironment;
use crate::terminal::terminal_output_with_reply;

fn with_greeter() -> TestEnvironment {
    let environment = TestEnvironment::new();
    environment.write("work/greeter.yaml", GREETER);
    environment
}

fn count_custom_actors(environment: &TestEnvironment) -> u64 {
    let run = environment.run(&["actor", "list", "-f", "json"]);
    let json = run.succeeded().json();
    json["data"]["summary"]["custom"].as_u64().unwrap()
}

fn add_greeter(environment: &TestEnvironment) {
    let add = ["actor", "add", "--config", "greeter.yaml"];
    environment.run(&add).succeeded();
}

/// Definitions with an invalid header, each with the expected messages.
fn invalid_headers() -> Vec<(String, Vec<&'static str>)> {
    let with = |from: &str, to: &str| GREETER.replace(from, to);
    vec![
        (String::new(), vec![":1:1: ", "empty"]),
        ("[1]".to_owned(), vec![":1:1: ", "mapping"]),
        ("name: [".to_owned(), vec!["bad.yaml:1:", "not YAML"]),
        (
            with("version: 1", "version: 2"),
            vec!["version 2 of an actor is newer", "newer `agents`"],
        ),
        (
            with("type: tool", "type: llm"),
            vec![
                "bad.yaml:6:1: ",
                "the key `steps` is not supported",
                "type `tool`",
            ],
        ),
        (
            with("type: tool", "type: graph"),
            vec!["`graph` are not supported yet", "type: llm", "type: tool"],
        ),
        (
            with("type: tool", "type: tools"),
            vec!["bad.yaml:4:7: ", "did you mean `tool`?"],
        ),
        (with("type: tool\n", ""), vec!["the key `type` is missing"]),
        (
            with("description:", "desciption:"),
            vec!["bad.yaml:5:1: ", "did you mean `description`?"],
        ),
        (
            with("type: tool", "type: tool\nmodel: gpt"),
            vec!["the key `model` is not supported", "type `llm`"],
        ),
        (
            with("local/greeter", "builtin/greeter"),
            vec!["bad.yaml:3:7: ", "this program's own"],
        ),
        (
            with("local/greeter", "../greeter"),
            vec!["bad.yaml:3:7: ", "`.`"],
        ),
        (
            with("Writes a greeting into a file", "${NOBODY_SET_THIS}"),
            vec!["NOBODY_SET_THIS"],
        ),
        (
            with("Writes a greeting into a file", "' '"),
            vec!["`description` must not be empty"],
        ),
    ]
}

/// Definitions with invalid steps, each with the expected messages.
fn invalid_steps() -> Vec<(String, Vec<&'static str>)> {
    let steps = |steps: &str| {
        let head = GREETER.split("steps:").next().unwrap();
        format!("{head}steps: {steps}\n")
    };
    vec![
        (steps("[]"), vec!["at least one step"]),
        (
            steps("[{}]"),
            vec!["the key `tool` of `steps[0]` is missing"],
        ),
        (
            steps("[{tool: a/b, id: x}, {tool: a/b, id: x}]"),
            vec!["bad.yaml:6:45: ", "is that of `steps[0]` already"],
        ),
        (
            steps("[{tool: a/b, id: x-y}]"),
            vec!["invalid step id `x-y`"],
        ),
        (
            steps("[{tool: a/b, input: [x]}]"),
            vec!["`steps[0].input` must be a mapping"],
        ),
        (
            steps("[{tool: a/b, input: {x: '{{ args. }}'}}]"),
            vec!["`steps[0].input.x`, line 1: ", "syntax error"],
        ),
        (
            steps("[{tool: a/b, input: {x: '{{ steps.y.z }}'}}]"),
            vec!["there is no `steps.y`"],
        ),
        (
            steps("[{tool: a/b, input: {x: '{% for a in b %}{% endfor %}'}}]"),
            vec!["unknown statement"],
        ),
        (
            steps("[{tool: a/b, input: {x: '{{ [[1] * 99] * 99 }}'}}]"),
            vec!["`*` is not available"],
        ),
        (
            steps("[{tool: a/b, when: '{{ args.x }}'}]"),
            vec!["without `{{` and `}}`"],
        ),
        (
            steps("[{tool: a/b, when: true}]"),
            vec!["must be a text", "put it in quotes"],
        ),
        (
            steps("[{tool: a b}]"),
            vec!["`steps[0].tool`: ` ` is not allowed"],
        ),
        (
            steps("[{tool: a/b, resource: ''}]"),
            vec!["`steps[0].resource`: ", "must not be empty"],
        ),
        (
            steps(&format!("[{}]", "{tool: a/b},".repeat(1001))),
            vec!["1001 entries"],
        ),
    ]
}

#[test]
fn an_invalid_actor_is_refused_with_its_position() {
    let environment = with_greeter();
    for (text, parts) in invalid_headers().into_iter().chain(invalid_steps()) {
        environment.write("work/bad.yaml", &text);
        for command in ["validate", "add"] {
            let run = environment.run(&["actor", command, "--config", "bad.yaml"]);
            assert_refused(&run, 2, &parts);
        }
        let validate = ["actor", "validate", "--config", "bad.yaml", "-f", "json"];
        let json = environment.run(&validate).json();
        assert_eq!(json["data"]["error"]["kind"], "definition");
        assert_eq!(json["data"]["problems"][0]["file"], "bad.yaml");
    }
    // Files are parsed before the data directory is created.
    assert!(!environment.path(".cleveragents").exists());
    assert_eq!(count_custom_actors(&environment), 0);
}

#[test]
fn invalid_actor_arguments_are_refused() {
    let environment = with_greeter();
    add_greeter(&environment);
    for (arguments, code, part) in [
        (&["add"][..], 2, "--config"),
        (
            &["add", "--config", "none.yaml"],
            2,
            "cannot read none.yaml",
        ),
        (&["add", "--config", "."], 2, "cannot read ."),
        (
            &["add", "--config", "greeter.yaml", "local/other"],
            2,
            "the file defines local/greeter, not local/other",
        ),
        (
            &["add", "--config", "greeter.yaml", "a b"],
            2,
            "cannot be the name of an actor",
        ),
        (&["add", "--config", "greeter.yaml"], 4, "--update"),
        (&["list", "--type", "robot"], 2, "use llm, tool, graph"),
        (&["list", "("], 2, "unclosed group"),
        (&["show"], 2, "NAME"),
        (&["show", "none"], 3, "there is no actor `local/none`"),
        (&["show", "a b"], 2, "cannot be the name of an actor"),
        (&["remove", "none"], 3, "there is no actor `local/none`"),
        (&["remove", "none", "--force"], 3, "there is no actor"),
        (&["remove", "builtin/direct"], 4, "is built in"),
        (&["remove", "builtin/coder"], 4, "is built in"),
        (&["remove", "builtin/none"], 3, "there is no actor"),
        (&["validate"], 2, "--config"),
    ] {
        let run = environment.run(&[&["actor"], arguments].concat());
        assert_refused(&run, code, &[part]);
    }
    assert_eq!(count_custom_actors(&environment), 1);
}

#[test]
fn an_actor_is_shown_as_it_was_written() {
    let environment = with_greeter();
    add_greeter(&environment);
    let show = ["actor", "show", "greeter", "-f", "json"];
    let data = environment.run(&show).succeeded().json()["data"].take();
    let details = &data["actor_details"];
    assert_eq!(details["name"], "local/greeter");
    assert_eq!(details["type"], "tool");
    assert_eq!(details["builtin"], false);
    assert_eq!(details["config_hash"].as_str().unwrap().len(), 64);
    assert_eq!(details["config"]["kind"]["steps"], data["steps"]);
    assert_eq!(
        data["tools"],
        json!(["builtin/file-write", "builtin/shell"])
    );
    assert_eq!(data["steps"][1]["input"]["timeout"], 5);
    for key in ["options", "graph_structure", "access", "usage"] {
        assert!(data.get(key).is_some(), "{key}");
    }
    let list = environment.run(&["actor", "list", "-f", "json"]);
    let names: Vec<Value> = list.succeeded().json()["data"]["actors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|actor| actor["name"].clone())
        .collect();
    assert_eq!(names, ["builtin/coder", "builtin/direct", "local/greeter"]);
}

#[test]
fn variables_are_filled_in_when_the_actor_is_added() {
    let mut environment = with_greeter();
    let text = GREETER.replace("Hello", "${GREETING}");
    environment.write("work/greeter.yaml", text);
    environment.set_variable("GREETING", "Good day");
    add_greeter(&environment);
    environment.remove_variable("GREETING");
    let show = ["actor", "show", "greeter", "-f", "json"];
    let json = environment.run(&show).succeeded().json();
    let content = &json["data"]["steps"][0]["input"]["content"];
    assert_eq!(content, "Good day, {{ args.name }}!");
}

#[test]
fn one_of_eight_concurrent_adds_succeeds() {
    let environment = with_greeter();
    let add: Vec<Vec<&str>> = vec![vec!["actor", "add", "--config", "greeter.yaml"]; 8];
    let runs = environment.run_concurrently(&add);
    let codes = |code| runs.iter().filter(|run| run.code == Some(code)).count();
    assert_eq!((codes(0), codes(4)), (1, 7), "{runs:?}");
    assert_eq!(count_custom_actors(&environment), 1);
}

#[test]
fn removing_an_actor_needs_confirmation() {
    let environment = with_greeter();
    add_greeter(&environment);
    let remove = ["actor", "remove", "greeter"];
    let seen = terminal_output_with_reply(&environment, &remove, "n\n");
    assert!(seen.contains("Remove actor local/greeter? [y/N]"), "{seen}");
    assert!(seen.contains("nothing was removed"), "{seen}");
    assert_eq!(count_custom_actors(&environment), 1);
    terminal_output_with_reply(&environment, &remove, "y\n");
    assert_eq!(count_custom_actors(&environment), 0);
}

#[test]
fn an_actor_of_an_archived_action_can_be_removed() {
    let environment = with_greeter();
    add_greeter(&environment);
    let named = small_action("local/greet").replace("local/coder", "local/greeter");
    environment.write("work/greet.yaml", named);
    let create = ["action", "create", "--config", "greet.yaml"];
    environment.run(&create).succeeded();
    let remove = ["actor", "remove", "greeter", "--yes"];
    let run = environment.run(&remove);
    assert_refused(&run, 4, &["is in use", "local/greet", "--force"]);
    environment.run(&["action", "archive", "greet"]).succeeded();
    environment.run(&remove).succeeded();
    assert_eq!(count_custom_actors(&environment), 0);
}
