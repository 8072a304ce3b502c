//! Renders next steps as commands.
//!
//! A request has the noun and verb of its command, and its fields have the names of the command's
//! arguments, so the command tree alone says how to write it.

use clap::{Arg, Command};
use cleveragents_api::NextStep;
use cleveragents_app::shell_quote;
use serde_json::{Map, Value};

/// Returns the text for people: a command to run, or advice.
pub fn render(step: &NextStep) -> String {
    match step {
        NextStep::Text { text } => text.clone(),
        NextStep::Request { name, arguments } => command_line(name, arguments),
    }
}

fn command_line(name: &str, arguments: &Map<String, Value>) -> String {
    let path: Vec<String> = name.split('.').map(|it| it.replace('_', "-")).collect();
    let mut line = format!("agents {}", path.join(" "));
    let tree = crate::command();
    let Some(command) = find(&tree, &path) else {
        return line;
    };
    for argument in command.get_arguments() {
        if let Some(value) = arguments.get(argument.get_id().as_str()) {
            push(&mut line, argument, value);
        }
    }
    line
}

/// Returns the command at `path` in the tree.
pub fn find<'a>(tree: &'a Command, path: &[String]) -> Option<&'a Command> {
    path.iter()
        .try_fold(tree, |command, name| command.find_subcommand(name))
}

fn push(line: &mut String, argument: &Arg, value: &Value) {
    if let Value::Array(values) = value {
        values.iter().for_each(|value| push(line, argument, value));
        return;
    }
    if let Some(long) = argument.get_long() {
        line.push_str(&format!(" --{long}"));
    }
    match value {
        Value::Bool(_) | Value::Null => {}
        Value::String(text) => line.push_str(&format!(" {}", shell_quote(text))),
        other => line.push_str(&format!(" {other}")),
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_api::action::{ActionCreate, ActionList, ActionShow};
    use cleveragents_domain::ActionState;

    use super::*;

    #[test]
    fn a_request_is_written_as_its_command() {
        let show = ActionShow {
            name: "local/lint".parse().unwrap(),
            folder: Some("/srv/shop".into()),
        };
        let list = ActionList {
            pattern: Some("^a b".to_owned()),
            state: Some(ActionState::Archived),
            limit: Some(5),
            ..ActionList::default()
        };
        let create = NextStep::fill_in::<ActionCreate>(&[("config", "FILE")]);
        for (step, expected) in [
            (NextStep::send(&show), "agents action show local/lint"),
            (NextStep::send(&ActionList::default()), "agents action list"),
            (
                NextStep::send(&list),
                "agents action list '^a b' --state archived --limit 5",
            ),
            (
                create.with_flag("update"),
                "agents action create --config FILE --update",
            ),
            ("read the file".into(), "read the file"),
        ] {
            assert_eq!(render(&step), expected);
        }
    }
}
