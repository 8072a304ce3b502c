//! From an attachment to what is run, and from a tool's output to a verdict.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_domain::action::TEXT_MAXIMUM;
use cleveragents_domain::action::argument::template_name;
use cleveragents_domain::validation::Verdict;
use cleveragents_domain::{NamespacedName, Validation, ValidationSource};
use serde_json::{Value, json};

use crate::definitions::filling::{FillError, Scope, arguments_in, compute, fill, fill_text};

/// How many arguments an attachment may have.
const ARGUMENTS_MAXIMUM: usize = 100;

/// What is run for a validation, everything filled in.
#[derive(Debug, Clone, PartialEq)]
pub enum Prepared {
    /// A command for `sh -c`, judged by `Verdict::of_command`.
    Command(String),
    /// A tool, judged by [`judge_output`].
    Tool { tool: NamespacedName, input: Value },
}

/// Why arguments do not fit a validation.
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
        known(.takes)
    )]
    Unknown {
        validation: NamespacedName,
        name: String,
        takes: Vec<String>,
    },
    #[error(transparent)]
    Fill(#[from] FillError),
}

fn known(takes: &[String]) -> String {
    match takes {
        [] => "it takes none".to_owned(),
        takes => format!("it takes {}", takes.join(", ")),
    }
}

/// How much of a given text is repeated to whoever gave it.
const SHOWN_MAXIMUM: usize = 60;

/// Reads `NAME=VALUE` texts. A value that is written as JSON writes a number or a boolean is one,
/// any other is a text.
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
        if values.insert(name.clone(), typed(value)).is_some() {
            return Err(ArgumentsError::Twice { name });
        }
    }
    Ok(values)
}

/// Only what reads back exactly as it was written is taken for a number: `007` and `1e3` are texts.
fn typed(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Bool(_) | Value::Number(_))) if value.to_string().as_str() == text => {
            value
        }
        _ => Value::from(text),
    }
}

/// Refuses arguments that the validation does not take, and says if one that it needs is missing,
/// when it is attached and not only when it is run.
pub fn check_arguments(
    validation: &Validation,
    arguments: &BTreeMap<String, Value>,
) -> Result<(), ArgumentsError> {
    let takes = arguments_of(validation)?;
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

fn arguments_of(validation: &Validation) -> Result<BTreeSet<String>, FillError> {
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

/// What an attachment with these `arguments` asks to be run.
pub fn prepare(
    validation: &Validation,
    arguments: &BTreeMap<String, Value>,
) -> Result<Prepared, FillError> {
    let scope = Scope::default().with_arguments(arguments);
    match &validation.source {
        ValidationSource::Run(command) => fill_text("run", command, &scope).map(Prepared::Command),
        ValidationSource::Wraps(wrapped) => Ok(Prepared::Tool {
            tool: wrapped.tool.clone(),
            input: fill("input", &wrapped.input, &scope)?,
        }),
    }
}

/// What the `output` of the tool that a validation wraps means. A validation that cannot be judged
/// did not pass.
pub fn judge_output(
    validation: &Validation,
    arguments: &BTreeMap<String, Value>,
    output: &Value,
) -> Verdict {
    let ValidationSource::Wraps(wrapped) = &validation.source else {
        return Verdict::failed("the validation runs a command and wraps no tool");
    };
    let scope = Scope::default()
        .with_arguments(arguments)
        .with("output", output);
    match compute("transform", &wrapped.transform, &scope) {
        Ok(value) => Verdict::of_json(&value).unwrap_or_else(|| {
            Verdict::failed("`transform` gave neither true nor false nor an object with `passed`")
        }),
        Err(error) => Verdict::failed(error.to_string()),
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

    fn given(pairs: &[&str]) -> BTreeMap<String, Value> {
        read_arguments(pairs).unwrap()
    }

    #[test]
    fn arguments_are_read_as_what_they_are_written_as() {
        assert_eq!(
            given(&[
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
    fn an_attachment_gives_what_the_validation_takes() {
        let tests = validation(json!({"run": "cargo test -p {{ args.a_package }}"}));
        assert_eq!(check_arguments(&tests, &given(&["a-package=x"])), Ok(()));
        let said = |pairs: &[&str]| {
            let checked = check_arguments(&tests, &given(pairs));
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
        let error = check_arguments(&none, &given(&["b=1"])).unwrap_err();
        assert!(error.to_string().ends_with("it takes none"), "{error}");
        let judged = wrapping("output.count < args.most");
        assert_eq!(
            check_arguments(&judged, &given(&["pattern=TODO", "most=3"])),
            Ok(())
        );
    }

    #[test]
    fn what_is_run_has_everything_filled_in() {
        let command = validation(json!({"run": "test {{ args.a }} -lt {{ args.b }}"}));
        assert_eq!(
            prepare(&command, &given(&["a=1", "b=x"])),
            Ok(Prepared::Command("test 1 -lt x".to_owned()))
        );
        let single = validation(json!({"run": "{{ args.a }}"}));
        assert_eq!(
            prepare(&single, &given(&["a=1"])),
            Ok(Prepared::Command("1".to_owned()))
        );
        assert_eq!(
            prepare(&wrapping("output"), &given(&["pattern=TODO"])),
            Ok(Prepared::Tool {
                tool: "builtin/file-search".parse().unwrap(),
                input: json!({"pattern": "TODO", "limit": 9}),
            })
        );
    }

    #[test]
    fn an_output_is_judged_by_the_transform() {
        let output = json!({"matches": [{"line": 3}], "count": 1});
        let judge =
            |transform: &str| judge_output(&wrapping(transform), &given(&["most=1"]), &output);
        assert!(judge("output.count <= args.most").passed);
        assert!(!judge("output.matches | length == 0").passed);
        assert_eq!(
            judge("{'passed': false, 'message': 'left: ' ~ output.count, 'data': output.matches}"),
            Verdict {
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
        assert!(!judge_output(&command, &BTreeMap::new(), &json!(true)).passed);
    }
}
