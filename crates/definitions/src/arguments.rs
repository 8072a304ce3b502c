//! Checks `NAME=VALUE` texts given on use against the arguments an action declares.

use std::collections::BTreeMap;

use cleveragents_domain::Action;
use cleveragents_domain::action::{ArgumentError, TEXT_MAXIMUM};
use serde_json::Value;

use super::nearest::nearest;
use super::pattern::Pattern;

/// Error of values that do not match an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GivenArgumentError {
    #[error("{given:?} is not an argument: write it as NAME=VALUE")]
    NotAPair { given: String },
    #[error("the value of the argument `{name}` is longer than {TEXT_MAXIMUM} bytes")]
    TooLong { name: String },
    #[error("there is no argument `{name}`; did you mean `{near}`?")]
    Misspelt { name: String, near: String },
    #[error("the argument `{name}` must match the pattern `{pattern}`, not be {given:?}")]
    Pattern {
        name: String,
        pattern: String,
        given: String,
    },
    #[error("the pattern of the argument `{name}` is not a regular expression: {reason}")]
    NotAPattern { name: String, reason: String },
    #[error(transparent)]
    Argument(#[from] ArgumentError),
}

/// Maximum length of given text quoted in an error message.
const SHOWN_MAXIMUM: usize = 60;

/// Returns the values for a plan of `action`: the given ones, and the defaults of the others.
pub fn read_arguments(
    action: &Action,
    given: &[impl AsRef<str>],
) -> Result<BTreeMap<String, Value>, GivenArgumentError> {
    let mut texts = BTreeMap::new();
    for each in given {
        let (name, value) = split(each.as_ref())?;
        if value.len() > TEXT_MAXIMUM {
            let name = name.to_owned();
            return Err(GivenArgumentError::TooLong { name });
        }
        if texts.insert(name.to_owned(), value.to_owned()).is_some() {
            let name = name.to_owned();
            return Err(ArgumentError::GivenTwice { name }.into());
        }
    }
    let values = action.parse_arguments(&texts).map_err(suggest)?;
    check_patterns(action, &values)?;
    Ok(values)
}

fn split(given: &str) -> Result<(&str, &str), GivenArgumentError> {
    match given.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name, value)),
        _ => Err(GivenArgumentError::NotAPair {
            given: given.chars().take(SHOWN_MAXIMUM).collect(),
        }),
    }
}

fn suggest(error: ArgumentError) -> GivenArgumentError {
    match &error {
        ArgumentError::Unknown { name, known } => {
            match nearest(name, known.iter().map(String::as_str)) {
                Some(near) => GivenArgumentError::Misspelt {
                    name: name.clone(),
                    near: near.to_owned(),
                },
                None => error.into(),
            }
        }
        _ => error.into(),
    }
}

fn check_patterns(
    action: &Action,
    values: &BTreeMap<String, Value>,
) -> Result<(), GivenArgumentError> {
    for argument in &action.arguments {
        let (Some(text), Some(Value::String(value))) =
            (&argument.pattern, values.get(&argument.name))
        else {
            continue;
        };
        let name = || argument.name.clone();
        let pattern = Pattern::new(text).map_err(|reason| GivenArgumentError::NotAPattern {
            name: name(),
            reason,
        })?;
        if !pattern.matches(value) {
            return Err(GivenArgumentError::Pattern {
                name: name(),
                pattern: text.clone(),
                given: value.chars().take(SHOWN_MAXIMUM).collect(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{DefinitionSource, read_action};
    use super::*;

    const YAML: &str = "\
name: local/lint
description: Lint
strategy_actor: builtin/direct
execution_actor: builtin/direct
definition_of_done: Clean
arguments:
  - {name: branch, type: string, pattern: '[a-z]+(/[a-z]+)*', required: true}
  - {name: max-files, type: integer, default: 4}
";

    fn action() -> Action {
        let source = DefinitionSource::new("lint.yaml", YAML);
        let draft = read_action(&source, &|_| None).unwrap();
        let id = "01JZZZZZZZ0000000000ABCDEF".parse().unwrap();
        draft.into_action(id, Default::default())
    }

    fn refusal(given: &[&str]) -> String {
        read_arguments(&action(), given).unwrap_err().to_string()
    }

    #[test]
    fn values_are_read_as_declared() {
        let values = read_arguments(&action(), &["branch=a/b", "max_files=5"]).unwrap();
        assert_eq!(json!(values), json!({"branch": "a/b", "max-files": 5}));
        let values = read_arguments(&action(), &["branch=a"]).unwrap();
        assert_eq!(json!(values), json!({"branch": "a", "max-files": 4}));
    }

    #[test]
    fn wrong_values_are_refused_with_a_hint() {
        let long = format!("branch={}", "x".repeat(TEXT_MAXIMUM + 1));
        for (given, said) in [
            (
                &["branch"][..],
                "\"branch\" is not an argument: write it as NAME=VALUE",
            ),
            (&["=x"], "\"=x\" is not an argument: write it as NAME=VALUE"),
            (
                &["branch=a", "branch=b"],
                "the argument `branch` was given twice",
            ),
            (
                &["brnach=a"],
                "there is no argument `brnach`; did you mean `branch`?",
            ),
            (
                &["branch=a", "zzz=1"],
                "there is no argument `zzz`; this action takes branch, max-files",
            ),
            (&[], "the argument `branch` is required (a string)"),
            (
                &["branch=a", "max-files=many"],
                "the argument `max-files` must be an integer, not \"many\"",
            ),
            (
                &["branch=a=B"],
                "the argument `branch` must match the pattern `[a-z]+(/[a-z]+)*`, not be \"a=B\"",
            ),
            (
                &[&long],
                "the value of the argument `branch` is longer than 65536 bytes",
            ),
        ] {
            assert_eq!(refusal(given), said);
        }
    }
}
