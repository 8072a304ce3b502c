//! Renders next steps as commands.
//!
//! A request has the noun and verb of its command, and its fields have the names of the command's
//! arguments, so the command tree alone says how to write it.

use std::sync::LazyLock;

use clap::{Arg, Command};
use cleveragents_api::plan::PlanStart;
use cleveragents_api::{NextStep, Request};
use cleveragents_app::shell_quote;
use cleveragents_domain::AbsolutePath;
use serde_json::{Map, Value};

use crate::arguments::GlobalArguments;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel};

/// Built once, because an answer may have many steps.
static COMMANDS: LazyLock<Command> = LazyLock::new(crate::command);

/// Returns the text for people: a command to run, or advice.
pub fn render(step: &NextStep) -> String {
    match step {
        NextStep::Text { text } => text.clone(),
        NextStep::Request {
            name,
            arguments,
            condition,
        } => {
            let line = command_line(name, arguments);
            match condition {
                Some(condition) => format!("{condition}: {line}"),
                None => line,
            }
        }
        NextStep::Watch { plan } => format!("agents plan log {plan} --follow"),
    }
}

/// The global options that decide on which plans a command works, as they were typed. A printed
/// command repeats them, because without them it would find other plans.
#[derive(Debug, Default)]
pub struct RepeatedOptions(String);

impl RepeatedOptions {
    pub fn from_arguments(arguments: &GlobalArguments) -> Self {
        let options = [
            ("data-dir", arguments.data_dir.as_deref()),
            ("config-path", arguments.config_path.as_deref()),
        ];
        let typed = options.into_iter().filter_map(|(name, path)| {
            let path = path?.to_string_lossy();
            Some(format!(" --{name} {}", shell_quote(&path)))
        });
        Self(typed.collect())
    }

    /// Adds the options to the commands that the outcome of a command hints at.
    pub fn add_to(
        &self,
        outcome: Result<CommandAnswer, CommandFailure>,
    ) -> Result<CommandAnswer, CommandFailure> {
        if self.0.is_empty() {
            return outcome;
        }
        match outcome {
            Ok(mut answer) => {
                let hints = answer.messages.iter_mut();
                for hint in hints.filter(|it| it.level == MessageLevel::Hint) {
                    hint.text = self.add_to_line(&hint.text);
                }
                Ok(answer)
            }
            Err(mut failure) => {
                for step in &mut failure.next_steps {
                    *step = NextStep::from(self.add_to_line(&render(step)));
                }
                Err(failure)
            }
        }
    }

    /// A hint is a command, or a condition and a command, or advice.
    fn add_to_line(&self, line: &str) -> String {
        const PROGRAM: &str = "agents ";
        let (condition, command) = match line.split_once(": ") {
            Some((condition, command)) if command.starts_with(PROGRAM) => {
                (format!("{condition}: "), command)
            }
            _ => (String::new(), line),
        };
        match command.strip_prefix(PROGRAM) {
            Some(rest) => format!("{condition}agents{} {rest}", self.0),
            None => line.to_owned(),
        }
    }
}

/// Returns the subcommands that send the request with this name.
pub fn command_path(name: &str) -> Vec<String> {
    if name == PlanStart::NAME {
        // The command for a whole plan is not a verb of `plan`.
        return vec!["run".to_owned()];
    }
    name.split('.').map(|it| it.replace('_', "-")).collect()
}

fn command_line(name: &str, arguments: &Map<String, Value>) -> String {
    let path = command_path(name);
    let mut line = format!("agents {}", path.join(" "));
    let Some(command) = find(&COMMANDS, &path) else {
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
        Value::String(text) => line.push_str(&format!(" {}", quote(text))),
        // A choice with a value: `--to branch NAME`.
        Value::Object(choice) => {
            for (name, value) in choice {
                let value = unescape_path(value.as_str().unwrap_or_default());
                line.push_str(&format!(" {name} {}", shell_quote(&value)));
            }
        }
        other => line.push_str(&format!(" {other}")),
    }
}

/// Quotes a value for a shell; of `NAME=VALUE` only the value, as users type it.
fn quote(text: &str) -> String {
    let is_name = |name: &str| !name.is_empty() && shell_quote(name) == name;
    match text.split_once('=') {
        Some((name, value)) if is_name(name) && !value.is_empty() => {
            format!("{name}={}", shell_quote(value))
        }
        _ => shell_quote(text),
    }
}

/// Returns an absolute path, which is percent-encoded in requests, as users type it; any other text
/// as it is.
fn unescape_path(text: &str) -> String {
    match text.parse::<AbsolutePath>() {
        Ok(path) => String::from_utf8_lossy(path.as_bytes()).into_owned(),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_api::action::{ActionCreate, ActionList, ActionShow};
    use cleveragents_api::plan::{PlanApply, PlanCheckpoints, PlanUse};
    use cleveragents_api::tool::ToolRun;
    use cleveragents_api::validation::ValidationAttach;
    use cleveragents_app::RequestError;
    use cleveragents_domain::apply_record::Destination;
    use cleveragents_domain::id::PlanId;
    use cleveragents_domain::{ActionState, NamespacedName};
    use cleveragents_engine::actors::ActorRegistryError;
    use cleveragents_engine::execution::ExecutionError;
    use cleveragents_engine::lifecycle::LifecycleError;
    use cleveragents_engine::projects::ProjectError;
    use cleveragents_engine::validations::ValidationRegistryError;

    use super::*;

    fn steps(error: impl Into<RequestError>) -> Vec<String> {
        error.into().next_steps.iter().map(render).collect()
    }

    #[test]
    fn steps_about_projects_are_written_as_commands() {
        let resource: NamespacedName = "local/shop".parse().unwrap();
        let taken = ProjectError::PathTaken {
            path: "/srv/shop".parse().unwrap(),
            resource: resource.clone(),
        };
        let linked = ProjectError::Linked {
            resource,
            projects: vec!["local/web".to_owned()],
        };
        assert_eq!(
            steps(LifecycleError::NoProject),
            ["agents project create NAME --path DIR"]
        );
        assert_eq!(
            steps(taken),
            [
                "agents resource show local/shop",
                "agents project link-resource PROJECT local/shop"
            ]
        );
        assert_eq!(
            steps(linked),
            ["agents project unlink-resource local/web local/shop"]
        );
    }

    #[test]
    fn steps_about_definitions_and_plans_are_written_as_commands() {
        let id: PlanId = "01JZZZZZZZ0000000000ABCDEF".parse().unwrap();
        let in_use = ActorRegistryError::InUse {
            name: "local/greeter".parse().unwrap(),
            actions: vec!["local/lint".parse().unwrap()],
        };
        let attached = ValidationRegistryError::AttachedAlready {
            validation: "local/tests".parse().unwrap(),
            attachment: id.to_string(),
        };
        let changed = ExecutionError::StrategyChanged {
            plan: id,
            found: String::new(),
        };
        assert_eq!(
            steps(in_use),
            [
                "agents action archive local/lint",
                "agents actor remove local/greeter --force"
            ]
        );
        assert_eq!(
            steps(attached),
            [
                "agents validation list",
                "agents validation detach 00abcdef"
            ]
        );
        assert_eq!(
            steps(changed),
            [
                format!("agents plan verify {id}"),
                format!("agents plan revert {id}")
            ]
        );
    }

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
            (
                NextStep::fill_in::<PlanCheckpoints>(&[("plan", "PLAN")]),
                "agents plan checkpoints PLAN",
            ),
            (
                NextStep::fill_in::<ToolRun>(&[("name", "builtin/shell"), ("input", "JSON")]),
                "agents tool run builtin/shell --input JSON",
            ),
            (
                NextStep::fill_in::<ValidationAttach>(&[
                    ("resource", "RESOURCE"),
                    ("validation", "VALIDATION"),
                    ("args", "NAME=VALUE"),
                ]),
                "agents validation attach RESOURCE VALIDATION NAME=VALUE",
            ),
            ("read the file".into(), "read the file"),
        ] {
            assert_eq!(render(&step), expected);
        }
    }

    #[test]
    fn a_destination_is_written_as_two_words() {
        let branch = Destination::Branch("a b".to_owned());
        let patch = AbsolutePath::from_bytes("/tmp/50% off.patch").unwrap();
        for (to, expected) in [
            (branch, "branch 'a b'"),
            (Destination::Patch(patch), "patch '/tmp/50% off.patch'"),
        ] {
            let apply = PlanApply {
                plan: "4k2m9x0q".parse().unwrap(),
                to: Some(to),
                mark_applied: false,
                force_checks: None,
            };
            let expected = format!("agents plan apply 4K2M9X0Q --to {expected}");
            assert_eq!(render(&NextStep::send(&apply)), expected);
        }
    }

    #[test]
    fn values_are_quoted_and_a_condition_comes_first() {
        let use_action = NextStep::fill_in::<PlanUse>(&[("action", "local/lint")])
            .with_argument("projects", vec!["local/shop"])
            .with_argument("arguments", vec!["level=a b", "a b=c", "=c"])
            .with_condition("when it is idle");
        assert_eq!(
            render(&use_action),
            "when it is idle: agents plan use local/lint local/shop --arg level='a b' \
             --arg 'a b=c' --arg '=c'"
        );
        let run = NextStep::fill_in::<PlanStart>(&[("task", "TASK"), ("base", "worktree")]);
        assert_eq!(render(&run), "agents run TASK --base worktree");
    }
}
