//! Every request can be sent by a command, and its fields have the names of the command's
//! arguments, so that a next step can be written as a command.

use std::collections::BTreeMap;

use cleveragents_api::all_requests;
use cleveragents_cli::next_step;
use serde_json::Value;

/// Requests without a command of their own, with the reason.
const WITHOUT_COMMAND: &[(&str, &str)] = &[
    ("plan.find", "sent by commands that ask about a plan first"),
    ("plan.find_recent", "sent where the user types @last or @N"),
    ("plan.preview_apply", "sent before the question of an apply"),
    ("plan.preview_resume", "sent by `plan resume --dry-run`"),
];

/// Fields that the command line fills in itself, with the source of their value.
const FILLED_IN: &[(&str, &str)] = &[
    ("default_profile", "the user's settings"),
    ("folder", "the working directory"),
    ("may_be_action", "whether the task is a word of the command"),
    ("refuse_uncommitted", "whether the user can be asked"),
    ("repository_profile", "the settings of the repository"),
    ("trusted_hash", "the answer to a question"),
];

#[test]
fn every_request_has_a_command_or_a_reason_for_none() {
    let tree = cleveragents_cli::command();
    let without: BTreeMap<&str, &str> = WITHOUT_COMMAND.iter().copied().collect();
    for request in all_requests() {
        let path = next_step::command_path(request.name);
        let command = next_step::find(&tree, &path);
        if without.contains_key(request.name) {
            assert!(command.is_none(), "{}: it has a command", request.name);
            continue;
        }
        let Some(command) = command else {
            panic!("{}: no command, and no reason for none", request.name);
        };
        for field in fields(&request.schema()) {
            let is_argument = command
                .get_arguments()
                .any(|it| it.get_id() == field.as_str());
            let is_filled_in = FILLED_IN.iter().any(|(name, _)| *name == field);
            assert!(
                is_argument || is_filled_in,
                "{}: the field `{field}` is no argument of `agents {}`",
                request.name,
                path.join(" ")
            );
        }
    }
}

/// Returns the names of the request's fields.
fn fields(schema: &Value) -> Vec<String> {
    let request = &schema["properties"]["request"];
    let request = match request["$ref"].as_str() {
        Some(reference) => schema.pointer(reference.trim_start_matches('#')).unwrap(),
        None => request,
    };
    let properties = request["properties"].as_object();
    properties.map_or(Vec::new(), |it| it.keys().cloned().collect())
}
