//! Prepares an attachment for running, and evaluates a tool's output.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_domain::action::TEXT_MAXIMUM;
use cleveragents_domain::action::argument::template_name;
use cleveragents_domain::validation::ValidationVerdict;
use cleveragents_domain::{NamespacedName, Validation, ValidationSource};
use serde_json::{Value, json};

use cleveragents_definitions::interpolation::{
    FillError, TemplateScope, arguments_in, evaluate_json, fill, fill_text,
};

/// Maximum number of arguments of an attachment.
const ARGUMENTS_MAXIMUM: usize = 100;

/// The run of a validation, with all templates filled in.
#[derive(Debug, Clone, PartialEq)]
pub enum PreparedValidation {
    /// A command for `sh -c`, evaluated by `ValidationVerdict::from_command`.
    Command(String),
    /// A tool, evaluated by [`evaluate_output`].
    Tool { tool: NamespacedName, input: Value },
}

/// Error of arguments that do not match a validation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsError {
    #[error("{given:?} is not an argument: write it as NAME=VALUE")]
    NotAPair { given: String },
    #[error("the argument `{name}` was given twice")]
    Twice { name: String },
    #[error("the value of the argument `{name}` is longer than {TEXT_MAXIMUM} bytes")]
    TooLong { name: String },
    #[error("an attachment may have {ARGUMENTS_MAXIMUM} arguments, not {count}")]
    TooMany { count: usize },
    #[error(
        "the validation `{validation}` has no argument `{name}`; {}",
        list_accepted(.takes)
    )]
    Unknown {
        validation: NamespacedName,
        name: String,
        takes: Vec<String>,
    },
    #[error(transparent)]
    Fill(#[from] FillError),
}

fn list_accepted(takes: &[String]) -> String {
    match takes {
        [] => "it takes none".to_owned(),
        takes => format!("it takes {}", takes.join(", ")),
    }
}

/// Maximum length of given text quoted in an error message.
const SHOWN_MAXIMUM: usize = 60;

/// Parses `NAME=VALUE` texts. A value that is a JSON number or boolean becomes one; any other is a
/// string.
pub fn read_arguments(
    given: &[impl AsRef<str>],
) -> Result<BTreeMap<String, Value>, ArgumentsError> {
    let count = given.len();
    if count > ARGUMENTS_MAXIMUM {
        return Err(ArgumentsError::TooMany { count });
    }
    let mut values = BTreeMap::new();
    for each in given.iter().map(AsRef::as_ref) {
        let (name, value) = match each.split_once('=') {
            Some((name, value)) if !name.is_empty() => (name.to_owned(), value),
            _ => {
                return Err(ArgumentsError::NotAPair {
                    given: each.chars().take(SHOWN_MAXIMUM).collect(),
                });
            }
        };
        if value.len() > TEXT_MAXIMUM {
            return Err(ArgumentsError::TooLong { name });
        }
        if values.insert(name.clone(), parse_value(value)).is_some() {
            return Err(ArgumentsError::Twice { name });
        }
    }
    Ok(values)
}

/// Only text that round-trips exactly is parsed as a number: `007` and `1e3` are strings.
fn parse_value(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Bool(_) | Value::Number(_))) if value.to_string().as_str() == text => {
            value
        }
        _ => Value::from(text),
    }
}

/// Fails if the validation does not take an argument, or a required one is missing. Called when it
/// is attached, so that the error does not appear only when it runs.
pub fn check_arguments(
    validation: &Validation,
    arguments: &BTreeMap<String, Value>,
) -> Result<(), ArgumentsError> {
    let takes = accepted_arguments(validation)?;
    let unknown = |name: &&String| !takes.contains(&template_name(name));
    if let Some(name) = arguments.keys().find(unknown) {
        return Err(ArgumentsError::Unknown {
            validation: validation.name.clone(),
            name: name.clone(),
            takes: takes.into_iter().collect(),
        });
    }
    prepare(validation, arguments)?;
    Ok(())
}

fn accepted_arguments(validation: &Validation) -> Result<BTreeSet<String>, FillError> {
    match &validation.source {
        ValidationSource::Run(command) => arguments_in("run", &json!(command)),
        ValidationSource::Wraps(wrapped) => {
            let mut takes = arguments_in("input", &wrapped.input)?;
            let transform = json!(format!("{{{{ {} }}}}", wrapped.transform));
            takes.append(&mut arguments_in("transform", &transform)?);
            Ok(takes)
        }
    }
}

/// Returns what to run for an attachment with these `arguments`.
pub fn prepare(
    validation: &Validation,
    arguments: &BTreeMap<String, Value>,
) -> Result<PreparedValidation, FillError> {
    let scope = TemplateScope::default().with_arguments(arguments);
    match &validation.source {
        ValidationSource::Run(command) => {
            fill_text("run", command, &scope).map(PreparedValidation::Command)
        }
        ValidationSource::Wraps(wrapped) => Ok(PreparedValidation::Tool {
            tool: wrapped.tool.clone(),
            input: fill("input", &wrapped.input, &scope)?,
        }),
    }
}

/// Evaluates the `output` of the tool that a validation wraps. A validation that cannot be
/// evaluated counts as failed.
pub fn evaluate_output(
    validation: &Validation,
    arguments: &BTreeMap<String, Value>,
    output: &Value,
) -> ValidationVerdict {
    let ValidationSource::Wraps(wrapped) = &validation.source else {
        return ValidationVerdict::failed("the validation runs a command and wraps no tool");
    };
    let scope = TemplateScope::default()
        .with_arguments(arguments)
        .with("output", output);
    match evaluate_json("transform", &wrapped.transform, &scope) {
        Ok(value) => ValidationVerdict::from_json(&value).unwrap_or_else(|| {
            ValidationVerdict::failed(
                "`transform` gave neither true nor false nor an object with `passed`",
            )
        }),
        Err(error) => ValidationVerdict::failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validation(source: Value) -> Validation {
        serde_json::from_value(json!({
            "name": "local/v", "description": "x", "mode": "required",
            "source": source, "timeout": 300,
        }))
        .unwrap()
    }

    fn wrapping(transform: &str) -> Validation {
        validation(json!({"wraps": {
            "tool": "builtin/file-search",
            "input": {"pattern": "{{ args.pattern }}", "limit": "{{ args.limit | default(9) }}"},
            "transform": transform,
        }}))
    }

    fn arguments(pairs: &[&str]) -> BTreeMap<String, Value> {
        read_arguments(pairs).unwrap()
    }

    #[test]
    fn argument_values_keep_their_written_type() {
        assert_eq!(
            arguments(&[
                "a=1", "b=true", "c=1.5", "d=007", "e=1e3", "f=", "g=x=y", "h=[1]", "i=\"q\""
            ]),
            BTreeMap::from(
                [
                    ("a", json!(1)),
                    ("b", json!(true)),
                    ("c", json!(1.5)),
                    ("d", json!("007")),
                    ("e", json!("1e3")),
                    ("f", json!("")),
                    ("g", json!("x=y")),
                    ("h", json!("[1]")),
                    ("i", json!("\"q\"")),
                ]
                .map(|(name, value)| (name.to_owned(), value))
            )
        );
        for (pairs, said) in [
            (
                vec!["x"],
                "\"x\" is not an argument: write it as NAME=VALUE",
            ),
            (vec!["=x"], "\"=x\" is not an argument"),
            (vec!["x=1", "x=2"], "the argument `x` was given twice"),
        ] {
            let error = read_arguments(&pairs).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let long = format!("x={}", "y".repeat(TEXT_MAXIMUM + 1));
        assert!(read_arguments(&[long]).is_err());
        assert!(read_arguments(&vec!["x=1"; ARGUMENTS_MAXIMUM + 1]).is_err());
    }

    #[test]
    fn attachment_arguments_must_match_the_validation() {
        let tests = validation(json!({"run": "cargo test -p {{ args.a_package }}"}));
        assert_eq!(
            check_arguments(&tests, &arguments(&["a-package=x"])),
            Ok(())
        );
        let said = |pairs: &[&str]| {
            let checked = check_arguments(&tests, &arguments(pairs));
            checked.unwrap_err().to_string()
        };
        assert_eq!(
            said(&["a-package=x", "b=1"]),
            "the validation `local/v` has no argument `b`; it takes a_package"
        );
        assert_eq!(
            said(&[]),
            "`run`, line 1: there is no `args.a_package`; nothing is known there"
        );
        let none = validation(json!({"run": "true"}));
        let error = check_arguments(&none, &arguments(&["b=1"])).unwrap_err();
        assert!(error.to_string().ends_with("it takes none"), "{error}");
        let judged = wrapping("output.count < args.most");
        assert_eq!(
            check_arguments(&judged, &arguments(&["pattern=TODO", "most=3"])),
            Ok(())
        );
    }

    #[test]
    fn a_prepared_validation_is_fully_rendered() {
        let command = validation(json!({"run": "test {{ args.a }} -lt {{ args.b }}"}));
        assert_eq!(
            prepare(&command, &arguments(&["a=1", "b=x"])),
            Ok(PreparedValidation::Command("test 1 -lt x".to_owned()))
        );
        let single = validation(json!({"run": "{{ args.a }}"}));
        assert_eq!(
            prepare(&single, &arguments(&["a=1"])),
            Ok(PreparedValidation::Command("1".to_owned()))
        );
        assert_eq!(
            prepare(&wrapping("output"), &arguments(&["pattern=TODO"])),
            Ok(PreparedValidation::Tool {
                tool: "builtin/file-search".parse().unwrap(),
                input: json!({"pattern": "TODO", "limit": 9}),
            })
        );
    }

    #[test]
    fn the_transform_evaluates_the_output() {
        let output = json!({"matches": [{"line": 3}], "count": 1});
        let judge = |transform: &str| {
            evaluate_output(&wrapping(transform), &arguments(&["most=1"]), &output)
        };
        assert!(judge("output.count <= args.most").passed);
        assert!(!judge("output.matches | length == 0").passed);
        assert_eq!(
            judge("{'passed': false, 'message': 'left: ' ~ output.count, 'data': output.matches}"),
            ValidationVerdict {
                passed: false,
                message: Some("left: 1".to_owned()),
                data: Some(json!([{"line": 3}])),
            }
        );
        for (transform, said) in [
            ("output.count", "neither true nor false"),
            ("{'ok': true}", "neither true nor false"),
            ("output.nope == 0", "there is no `output.nope`"),
            ("output.count +", "cannot be filled in"),
        ] {
            let verdict = judge(transform);
            assert!(!verdict.passed, "{transform}");
            let message = verdict.message.unwrap();
            assert!(message.contains(said), "{transform}: {message}");
        }
        let command = validation(json!({"run": "true"}));
        assert!(!evaluate_output(&command, &BTreeMap::new(), &json!(true)).passed);
    }
}
