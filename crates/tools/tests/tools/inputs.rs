//! Every tool's definition, and every input that does not match its schema.

use std::time::Duration;

use cleveragents_domain::process::Network;
use cleveragents_domain::tool::{Repeatability, Safety, ToolAccess};
use cleveragents_ports::tools::{ToolFailure, Toolbox};
use cleveragents_tools::{Schemas, ShellSettings};
use serde_json::Value;

use crate::fixture::ToolFixture;

const NAMES: [&str; 19] = [
    "ask-user",
    "dir-create",
    "dir-delete",
    "file-copy",
    "file-delete",
    "file-edit",
    "file-list",
    "file-move",
    "file-read",
    "file-search",
    "file-write",
    "finish",
    "git-diff",
    "git-log",
    "git-status",
    "outline",
    "record-decision",
    "shell",
    "submit-strategy",
];

const WRITERS: [&str; 8] = [
    "dir-create",
    "dir-delete",
    "file-copy",
    "file-delete",
    "file-edit",
    "file-move",
    "file-write",
    "shell",
];

#[test]
fn every_tool_has_valid_schemas_and_a_description() {
    let fixture = ToolFixture::new();
    let definitions = fixture.tools.definitions();
    let names: Vec<String> = definitions.iter().map(|it| it.name.to_string()).collect();
    assert_eq!(names, NAMES.map(|name| format!("builtin/{name}")));
    for definition in definitions {
        let name = &definition.name;
        Schemas::compile(definition).unwrap();
        assert!(definition.description.ends_with('.'), "{name}");
        assert!(definition.description.len() > 40, "{name}");
        assert!(definition.timeout_seconds >= 60, "{name}");
        for schema in [&definition.input_schema, &definition.output_schema] {
            assert_eq!(schema["additionalProperties"], false, "{name}");
            for (property, schema) in schema["properties"].as_object().unwrap() {
                assert!(schema["description"].is_string(), "{name} {property}");
            }
        }
        let writes = definition.capability.access == ToolAccess::Writes;
        let short = name.to_string().replace("builtin/", "");
        assert_eq!(writes, WRITERS.contains(&short.as_str()), "{name}");
        assert_eq!(definition.capability.safety, Safety::Safe);
        assert_eq!(definition.capability.repeatable, Repeatability::Idempotent);
        assert!(definition.capability.side_effects.is_empty());
    }
    let unknown = "builtin/nothing".parse().unwrap();
    assert!(fixture.tools.tool(&unknown).is_none());
}

#[test]
fn a_shell_with_network_declares_a_side_effect() {
    let settings = ShellSettings {
        network: Network::Allow,
        max_timeout: Duration::from_secs(60),
        ..ShellSettings::default()
    };
    let fixture = ToolFixture::with(None, settings);
    let definition = fixture.tool("shell").definition();
    assert_eq!(definition.capability.side_effects, ["may use the network"]);
    assert_eq!(definition.capability.repeatable, Repeatability::OnceOnly);
    assert_eq!(definition.timeout_seconds, 90);
    assert_eq!(
        definition.input_schema["properties"]["timeout"]["maximum"],
        60
    );
}

/// Tool, input and expected error.
const INVALID_INPUTS: &[(&str, &str, &str)] = &[
    ("file-read", r#"{}"#, "`path` is missing"),
    (
        "file-read",
        r#"{"path": 1}"#,
        "at /path: expected string, found number",
    ),
    (
        "file-read",
        r#"{"path": "a", "start_line": 0}"#,
        "at /start_line: 0 is less than the minimum of 1",
    ),
    (
        "file-read",
        r#"{"path": "a", "end_line": "9"}"#,
        "at /end_line: expected integer, found string",
    ),
    (
        "file-read",
        r#"{"path": "a", "start_line": 1.5}"#,
        "at /start_line: expected integer, found number",
    ),
    ("file-read", r#"{"file": "a"}"#, "`file` is not expected"),
    ("file-read", r#""a""#, "expected object, found string"),
    ("file-read", r#"null"#, "expected object, found null"),
    ("file-write", r#"{"path": "a"}"#, "`content` is missing"),
    (
        "file-write",
        r#"{"path": "a", "content": null}"#,
        "at /content: expected string, found null",
    ),
    (
        "file-write",
        r#"{"path": "a", "content": "", "mode": 1}"#,
        "`mode` is not expected",
    ),
    (
        "file-edit",
        r#"{"path": "a", "old": "", "new": "x"}"#,
        "at /old: ",
    ),
    (
        "file-edit",
        r#"{"path": "a", "old": "x"}"#,
        "`new` is missing",
    ),
    (
        "file-edit",
        r#"{"path": "a", "old": "x", "new": "y", "all": "yes"}"#,
        "at /all: expected boolean, found string",
    ),
    ("file-move", r#"{"from": "a"}"#, "`to` is missing"),
    ("file-move", r#"{"to": "a"}"#, "`from` is missing"),
    (
        "file-copy",
        r#"{"from": ["a"], "to": "b"}"#,
        "at /from: expected string, found array",
    ),
    ("file-delete", r#"{"paths": ["a"]}"#, "`path` is missing"),
    (
        "file-list",
        r#"{"depth": 0}"#,
        "at /depth: 0 is less than the minimum of 1",
    ),
    (
        "file-list",
        r#"{"depth": 101}"#,
        "at /depth: 101 is greater than the maximum of 100",
    ),
    (
        "file-list",
        r#"{"path": null}"#,
        "at /path: expected string, found null",
    ),
    ("file-search", r#"{}"#, "`pattern` is missing"),
    ("file-search", r#"{"pattern": ""}"#, "at /pattern: "),
    (
        "file-search",
        r#"{"pattern": "a", "glob": ""}"#,
        "at /glob: ",
    ),
    ("dir-create", r#"{}"#, "`path` is missing"),
    (
        "dir-delete",
        r#"{"path": {}}"#,
        "at /path: expected string, found object",
    ),
    ("outline", r#"{}"#, "`path` is missing"),
    (
        "outline",
        r#"{"path": ["a.rs"]}"#,
        "at /path: expected string, found array",
    ),
    (
        "outline",
        r#"{"path": "a.rs", "depth": 1}"#,
        "`depth` is not expected",
    ),
    ("git-status", r#"{"path": "a"}"#, "`path` is not expected"),
    (
        "git-diff",
        r#"{"path": 7}"#,
        "at /path: expected string, found number",
    ),
    (
        "git-log",
        r#"{"limit": 0}"#,
        "at /limit: 0 is less than the minimum of 1",
    ),
    (
        "git-log",
        r#"{"limit": 100000}"#,
        "at /limit: 100000 is greater than the maximum of 200",
    ),
    ("shell", r#"{"command": ""}"#, "at /command: "),
    (
        "shell",
        r#"{"command": "true", "timeout": -1}"#,
        "at /timeout: -1 is less than the minimum of 1",
    ),
    (
        "shell",
        r#"{"command": "true", "timeout": 1000000}"#,
        "at /timeout: 1000000 is greater than the maximum of 1800",
    ),
    ("shell", r#"{"argv": ["true"]}"#, "`command` is missing"),
];

#[test]
fn invalid_inputs_are_refused_with_their_path() {
    let fixture = ToolFixture::new();
    for (tool, input, said) in INVALID_INPUTS {
        let input: Value = serde_json::from_str(input).unwrap();
        let failure = fixture.failure(tool, &input);
        let ToolFailure::Input { reason } = &failure else {
            panic!("{tool} {input}: {failure:?}");
        };
        assert!(reason.contains(said), "{tool} {input}: {reason}");
    }
    // A caller that skips the check gets an error too.
    let unchecked = Value::Null;
    assert!(matches!(
        fixture.failure("file-read", &unchecked),
        ToolFailure::Input { .. }
    ));
}
