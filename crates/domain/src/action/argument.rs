//! Typed arguments of an action: their declarations and the given values.
//!
//! A hyphen in an argument's name becomes `_` in templates, so `max-files` and `max_files` are the
//! same argument. `pattern` is not checked here, because this crate has no regular-expression
//! engine.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::DESCRIPTION_MAXIMUM;
use crate::text_enum::text_enum;

/// The longest an argument's name may be, in bytes.
pub const NAME_MAXIMUM: usize = 100;

/// The declaration of an argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    pub name: String,
    #[serde(rename = "type")]
    pub argument_type: ArgumentType,
    #[serde(default)]
    pub required: bool,
    pub default: Option<Value>,
    #[serde(default)]
    pub description: String,
    pub pattern: Option<String>,
    /// Only for `choice`, and then not empty.
    #[serde(default)]
    pub choices: Vec<String>,
}

text_enum! {
    ArgumentType: "argument type" {
        String = "string",
        Integer = "integer",
        Number = "number",
        Boolean = "boolean",
        Path = "path",
        Choice = "choice",
    }
}

/// Error of an invalid declaration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentDeclarationError {
    #[error(
        "{name:?} is not an argument name: begin with a letter or `_`, continue with letters, \
         digits, `_` and `-`, at most {NAME_MAXIMUM} of them"
    )]
    Name { name: String },
    #[error("the arguments `{first}` and `{second}` are the same, because `-` reads as `_`")]
    Repeated { first: String, second: String },
    #[error("the argument `{name}` is a choice and needs `choices`")]
    ChoicesMissing { name: String },
    #[error("the argument `{name}` is a {argument_type} and takes no `choices`")]
    ChoicesNotAllowed {
        name: String,
        argument_type: ArgumentType,
    },
    #[error("the argument `{name}` has the choice `{choice}` twice")]
    ChoiceRepeated { name: String, choice: String },
    #[error("the default of `{name}` is {value}, which is not {expected}")]
    Default {
        name: String,
        value: String,
        expected: String,
    },
    #[error("the description of the argument `{name}` is longer than {DESCRIPTION_MAXIMUM} bytes")]
    DescriptionTooLong { name: String },
}

/// Error of values that do not match the declarations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    #[error("the argument `{name}` is required ({expected})")]
    Missing { name: String, expected: String },
    #[error("there is no argument `{name}`{}", known_arguments(.known))]
    Unknown { name: String, known: Vec<String> },
    #[error("the argument `{name}` was given twice")]
    GivenTwice { name: String },
    #[error("the argument `{name}` must be {expected}, not {given:?}")]
    WrongType {
        name: String,
        expected: String,
        given: String,
    },
    #[error("the argument `{name}` must be one of {}, not {given:?}", .choices.join(", "))]
    NotAChoice {
        name: String,
        choices: Vec<String>,
        given: String,
    },
}

fn known_arguments(known: &[String]) -> String {
    if known.is_empty() {
        "; this action takes none".to_owned()
    } else {
        format!("; this action takes {}", known.join(", "))
    }
}

/// The name of an argument in templates.
pub fn template_name(name: &str) -> String {
    name.replace('-', "_")
}

impl Argument {
    /// Describes the legal values, for error messages.
    fn expected(&self) -> String {
        match self.argument_type {
            ArgumentType::String => "a string".to_owned(),
            ArgumentType::Integer => "an integer".to_owned(),
            ArgumentType::Number => "a number".to_owned(),
            ArgumentType::Boolean => "true or false".to_owned(),
            ArgumentType::Path => "a path".to_owned(),
            ArgumentType::Choice => format!("one of {}", self.choices.join(", ")),
        }
    }

    fn accepts(&self, value: &Value) -> bool {
        match (self.argument_type, value) {
            (ArgumentType::String, Value::String(_)) | (ArgumentType::Boolean, Value::Bool(_)) => {
                true
            }
            (ArgumentType::Integer, Value::Number(number)) => number.is_i64(),
            (ArgumentType::Number, Value::Number(_)) => true,
            (ArgumentType::Path, Value::String(text)) => is_path(text),
            (ArgumentType::Choice, Value::String(text)) => self.choices.contains(text),
            _ => false,
        }
    }

    /// Parses a value as the user typed it.
    fn read(&self, given: &str) -> Result<Value, ArgumentError> {
        let value = match self.argument_type {
            ArgumentType::String => Some(Value::from(given)),
            ArgumentType::Integer => given.parse::<i64>().ok().map(Value::from),
            ArgumentType::Number => read_number(given),
            ArgumentType::Boolean => given.parse::<bool>().ok().map(Value::from),
            ArgumentType::Path => is_path(given).then(|| Value::from(given)),
            ArgumentType::Choice if self.choices.iter().any(|choice| choice == given) => {
                Some(Value::from(given))
            }
            ArgumentType::Choice => {
                return Err(ArgumentError::NotAChoice {
                    name: self.name.clone(),
                    choices: self.choices.clone(),
                    given: given.to_owned(),
                });
            }
        };
        value.ok_or_else(|| ArgumentError::WrongType {
            name: self.name.clone(),
            expected: self.expected(),
            given: given.to_owned(),
        })
    }

    fn validate(&self) -> Result<(), ArgumentDeclarationError> {
        let name = self.name.clone();
        if !is_argument_name(&name) {
            let name = name.chars().take(NAME_MAXIMUM).collect();
            return Err(ArgumentDeclarationError::Name { name });
        }
        if self.description.len() > DESCRIPTION_MAXIMUM {
            return Err(ArgumentDeclarationError::DescriptionTooLong { name });
        }
        self.validate_choices()?;
        match &self.default {
            Some(value) if !self.accepts(value) => Err(ArgumentDeclarationError::Default {
                name,
                value: value.to_string(),
                expected: self.expected(),
            }),
            _ => Ok(()),
        }
    }

    fn validate_choices(&self) -> Result<(), ArgumentDeclarationError> {
        let name = self.name.clone();
        let argument_type = self.argument_type;
        match (argument_type, self.choices.is_empty()) {
            (ArgumentType::Choice, true) => {
                return Err(ArgumentDeclarationError::ChoicesMissing { name });
            }
            (ArgumentType::Choice, false) | (_, true) => {}
            (_, false) => {
                return Err(ArgumentDeclarationError::ChoicesNotAllowed {
                    name,
                    argument_type,
                });
            }
        }
        let mut seen = BTreeSet::new();
        match self.choices.iter().find(|choice| !seen.insert(*choice)) {
            Some(choice) => Err(ArgumentDeclarationError::ChoiceRepeated {
                name,
                choice: choice.clone(),
            }),
            None => Ok(()),
        }
    }
}

/// Integers stay integers, so that `3` is not printed as `3.0`.
fn read_number(given: &str) -> Option<Value> {
    if let Ok(integer) = given.parse::<i64>() {
        return Some(Value::from(integer));
    }
    let number = given.parse::<f64>().ok()?;
    serde_json::Number::from_f64(number).map(Value::Number)
}

fn is_path(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

pub(crate) fn is_argument_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.starts_with(first) && name.chars().all(rest) && name.len() <= NAME_MAXIMUM
}

/// Checks each declaration, and that all names are distinct in templates.
pub(super) fn validate_declarations(
    arguments: &[Argument],
) -> Result<(), ArgumentDeclarationError> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for argument in arguments {
        argument.validate()?;
        if let Some(first) = seen.insert(template_name(&argument.name), &argument.name) {
            return Err(ArgumentDeclarationError::Repeated {
                first: first.to_owned(),
                second: argument.name.clone(),
            });
        }
    }
    Ok(())
}

/// Parses `given` according to `arguments`. The result is keyed by the declared names.
pub(super) fn parse_arguments(
    arguments: &[Argument],
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Value>, ArgumentError> {
    let mut values = BTreeMap::new();
    for (name, text) in given {
        let same = |argument: &&Argument| template_name(&argument.name) == template_name(name);
        let Some(argument) = arguments.iter().find(same) else {
            return Err(ArgumentError::Unknown {
                name: name.clone(),
                known: arguments.iter().map(|each| each.name.clone()).collect(),
            });
        };
        let value = argument.read(text)?;
        if values.insert(argument.name.clone(), value).is_some() {
            let name = argument.name.clone();
            return Err(ArgumentError::GivenTwice { name });
        }
    }
    for argument in arguments {
        if values.contains_key(&argument.name) {
            continue;
        }
        if let Some(default) = &argument.default {
            values.insert(argument.name.clone(), default.clone());
        } else if argument.required {
            return Err(ArgumentError::Missing {
                name: argument.name.clone(),
                expected: argument.expected(),
            });
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declare(json: Value) -> Vec<Argument> {
        serde_json::from_value(json).unwrap()
    }

    fn refusal(json: Value) -> String {
        validate_declarations(&declare(json))
            .unwrap_err()
            .to_string()
    }

    fn parse(
        arguments: &[Argument],
        given: &[(&str, &str)],
    ) -> Result<BTreeMap<String, Value>, ArgumentError> {
        let own = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        parse_arguments(arguments, &given.iter().map(own).collect())
    }

    #[test]
    fn names_are_identifiers_with_hyphens() {
        for name in ["a", "_x", "max-files", "Max_Files2"] {
            let arguments = declare(json!([{"name": name, "type": "string"}]));
            assert_eq!(validate_declarations(&arguments), Ok(()), "{name}");
        }
        let long = "x".repeat(NAME_MAXIMUM + 1);
        for name in ["", "-x", "2x", "a b", "a\0", "é", "a.b", &long] {
            let said = refusal(json!([{"name": name, "type": "string"}]));
            assert!(said.contains("is not an argument name"), "{said}");
        }
    }

    #[test]
    fn names_must_differ_in_templates() {
        assert_eq!(template_name("max-files"), "max_files");
        assert_eq!(
            refusal(json!([
                {"name": "max-files", "type": "integer"},
                {"name": "max_files", "type": "integer"},
            ])),
            "the arguments `max-files` and `max_files` are the same, because `-` reads as `_`"
        );
    }

    #[test]
    fn only_choice_arguments_have_choices() {
        let good = json!([{"name": "a", "type": "choice", "choices": ["x", "y"], "default": "y"}]);
        assert_eq!(validate_declarations(&declare(good)), Ok(()));
        for (wrong, said) in [
            (
                json!([{"name": "a", "type": "choice"}]),
                "the argument `a` is a choice and needs `choices`",
            ),
            (
                json!([{"name": "a", "type": "path", "choices": ["x"]}]),
                "the argument `a` is a path and takes no `choices`",
            ),
            (
                json!([{"name": "a", "type": "choice", "choices": ["x", "x"]}]),
                "the argument `a` has the choice `x` twice",
            ),
        ] {
            assert_eq!(refusal(wrong), said);
        }
    }

    #[test]
    fn a_default_has_the_declared_type() {
        for (argument_type, default, fits) in [
            ("string", json!("x"), true),
            ("string", json!(1), false),
            ("integer", json!(-1), true),
            ("integer", json!(1.5), false),
            ("number", json!(1.5), true),
            ("number", json!("1.5"), false),
            ("boolean", json!(false), true),
            ("boolean", json!("false"), false),
            ("path", json!("src"), true),
            ("path", json!("a\0"), false),
            ("path", json!(""), false),
        ] {
            let arguments = declare(json!([
                {"name": "a", "type": argument_type, "default": default}
            ]));
            let valid = validate_declarations(&arguments).is_ok();
            assert_eq!(valid, fits, "{argument_type} {default}");
        }
        assert_eq!(
            refusal(json!([{"name": "a", "type": "choice", "choices": ["x"], "default": "y"}])),
            "the default of `a` is \"y\", which is not one of x"
        );
    }

    #[test]
    fn a_description_has_a_bound() {
        let long = "x".repeat(DESCRIPTION_MAXIMUM + 1);
        let said = refusal(json!([{"name": "a", "type": "string", "description": long}]));
        assert!(said.contains("longer than 4096 bytes"), "{said}");
    }

    #[test]
    fn values_are_read_as_their_types() {
        let arguments = declare(json!([
            {"name": "s", "type": "string"},
            {"name": "i", "type": "integer"},
            {"name": "n", "type": "number"},
            {"name": "b", "type": "boolean"},
            {"name": "p", "type": "path"},
            {"name": "c", "type": "choice", "choices": ["x", "y"]},
        ]));
        for (name, text, value) in [
            ("s", "", json!("")),
            ("i", "-7", json!(-7)),
            ("n", "3", json!(3)),
            ("n", "2.5", json!(2.5)),
            ("b", "true", json!(true)),
            ("p", "src/a", json!("src/a")),
            ("c", "y", json!("y")),
        ] {
            let values = parse(&arguments, &[(name, text)]).unwrap();
            assert_eq!(values, BTreeMap::from([(name.to_owned(), value)]));
        }
        for (name, text, said) in [
            (
                "i",
                "1.5",
                "the argument `i` must be an integer, not \"1.5\"",
            ),
            ("n", "NaN", "the argument `n` must be a number, not \"NaN\""),
            (
                "b",
                "yes",
                "the argument `b` must be true or false, not \"yes\"",
            ),
            ("p", "a\0", "the argument `p` must be a path, not \"a\\0\""),
            ("c", "z", "the argument `c` must be one of x, y, not \"z\""),
            (
                "q",
                "1",
                "there is no argument `q`; this action takes s, i, n, b, p, c",
            ),
        ] {
            assert_eq!(
                parse(&arguments, &[(name, text)]).unwrap_err().to_string(),
                said
            );
        }
        let none = parse(&[], &[("q", "1")]).unwrap_err().to_string();
        assert_eq!(none, "there is no argument `q`; this action takes none");
    }

    #[test]
    fn an_omitted_argument_is_defaulted_missing_or_absent() {
        let arguments = declare(json!([
            {"name": "must", "type": "integer", "required": true},
            {"name": "may-default", "type": "integer", "default": 4},
            {"name": "may", "type": "integer"},
        ]));
        assert_eq!(
            parse(&arguments, &[]).unwrap_err().to_string(),
            "the argument `must` is required (an integer)"
        );
        let values = parse(&arguments, &[("must", "1")]).unwrap();
        assert_eq!(json!(values), json!({"must": 1, "may-default": 4}));
        let values = parse(&arguments, &[("must", "1"), ("may_default", "5")]).unwrap();
        assert_eq!(json!(values), json!({"must": 1, "may-default": 5}));
        let twice = [("must", "1"), ("may-default", "5"), ("may_default", "5")];
        assert!(matches!(
            parse(&arguments, &twice),
            Err(ArgumentError::GivenTwice { .. })
        ));
    }
}
