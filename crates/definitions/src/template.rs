//! Templates in the texts of an action: `{{ args.x }}` and `{% if args.x %}`.
//!
//! A template sees only the action's arguments: no files, no other templates, no clock. It has no
//! assignments and no loops, so its cost is bounded by the length of its text; fuel and an output
//! limit are a second line of defence. An optional argument that was not given is `none`: false in
//! a condition, and printed as nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use cleveragents_domain::action::argument::template_name;
use cleveragents_domain::{Argument, ArgumentType};
use minijinja::{ErrorKind, Value};

use super::interpolation::{FUEL_MAXIMUM, FillError, check_cost, environment};
use super::nearest::nearest;

/// Maximum length of a rendered text, in bytes.
const OUTPUT_MAXIMUM: usize = 1 << 20;
/// Maximum length of a wrong statement quoted in a message.
const SHOWN_MAXIMUM: usize = 40;
/// The allowed statements.
const STATEMENTS: [&str; 6] = ["if", "elif", "else", "endif", "raw", "endraw"];

/// Error of a text that could not be rendered; `text` is its name, such as `definition_of_done`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error(
        "`{text}`, line {line}: there is no `{name}`; {}",
        known_names(.near.as_deref(), .known)
    )]
    Unknown {
        text: String,
        line: usize,
        name: String,
        near: Option<String>,
        known: Vec<String>,
    },
    #[error(
        "`{text}`, line {line}: unknown statement `{{% {statement}`; templates have \
         `if`, `elif`, `else` and `raw` (write a literal `{{%` as `{{{{ \"{{\" }}}}%`)"
    )]
    Statement {
        text: String,
        line: usize,
        statement: String,
    },
    #[error("`{text}`, line {line}: the template cannot be rendered: {reason}")]
    Failed {
        text: String,
        line: usize,
        reason: String,
    },
    #[error(transparent)]
    Costly(Box<FillError>),
    #[error("`{text}` would be longer than {OUTPUT_MAXIMUM} bytes")]
    TooLong { text: String },
    #[error("`{text}` takes too long to render")]
    TooMuchWork { text: String },
}

fn known_names(near: Option<&str>, known: &[String]) -> String {
    match (near, known) {
        (Some(near), _) => format!("did you mean `{near}`? Known are {}", known.join(", ")),
        (None, []) => "this action has no arguments".to_owned(),
        (None, known) => format!("known are {}", known.join(", ")),
    }
}

impl From<FillError> for TemplateError {
    fn from(error: FillError) -> Self {
        match error {
            FillError::Statement {
                text,
                line,
                statement,
            } => Self::Statement {
                text,
                line,
                statement,
            },
            FillError::Failed { text, line, reason } => Self::Failed { text, line, reason },
            costly => Self::Costly(Box::new(costly)),
        }
    }
}

/// The values of `args` in a template: one per declared argument.
#[derive(Debug, Clone)]
pub struct TemplateArguments {
    names: BTreeSet<String>,
    context: Value,
}

impl TemplateArguments {
    /// Takes the given `values`; a declared argument without one is `none`.
    pub fn new(declared: &[Argument], values: &BTreeMap<String, serde_json::Value>) -> Self {
        let value = |argument: &Argument| values.get(&argument.name).map(convert);
        Self::from_values(declared, value)
    }

    fn from_values(declared: &[Argument], value: impl Fn(&Argument) -> Option<Value>) -> Self {
        let entry = |argument: &Argument| {
            let value = value(argument).unwrap_or_else(|| Value::from(()));
            (template_name(&argument.name), value)
        };
        let values: BTreeMap<String, Value> = declared.iter().map(entry).collect();
        Self {
            names: values.keys().cloned().collect(),
            context: Value::from(BTreeMap::from([("args".to_owned(), Value::from(values))])),
        }
    }

    fn has(&self, used: &str) -> bool {
        match used.split('.').collect::<Vec<_>>().as_slice() {
            ["args"] => true,
            ["args", name, ..] => self.names.contains(*name),
            _ => false,
        }
    }
}

/// Sample values to check the templates of an action, so that an undeclared name is found when the
/// action is created, not when it is used.
#[derive(Debug, Clone)]
pub(super) struct TemplateSamples {
    all: TemplateArguments,
    fewest: TemplateArguments,
}

impl TemplateSamples {
    pub(super) fn new(declared: &[Argument]) -> Self {
        let always = |argument: &Argument| argument.required || argument.default.is_some();
        Self {
            all: TemplateArguments::from_values(declared, |argument| Some(sample(argument))),
            fewest: TemplateArguments::from_values(declared, |argument| {
                always(argument).then(|| sample(argument))
            }),
        }
    }

    /// Renders `text` with all arguments given, and again with no optional ones.
    pub(super) fn check(&self, name: &str, text: &str) -> Result<(), TemplateError> {
        render(name, text, &self.all)?;
        render(name, text, &self.fewest).map(drop)
    }
}

/// Arguments are always scalars.
fn convert(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(value) => Value::from(*value),
        serde_json::Value::String(value) => Value::from(value.as_str()),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::from(integer),
            (None, Some(float)) => Value::from(float),
            (None, None) => Value::from(number.to_string()),
        },
        other => Value::from(other.to_string()),
    }
}

/// Renders `text`, called `name` in messages, with `arguments`.
pub fn render(
    name: &str,
    text: &str,
    arguments: &TemplateArguments,
) -> Result<String, TemplateError> {
    check_statements(name, text)?;
    check_cost(name, text)?;
    let failed = |error: minijinja::Error| to_template_error(name, &error);
    let environment = environment(FUEL_MAXIMUM).map_err(failed)?;
    let template = environment
        .template_from_named_str(name, text)
        .map_err(failed)?;
    check_names(name, text, template.undeclared_variables(true), arguments)?;
    let mut output = LimitedOutput::default();
    let rendered = template
        .render_captured_to(arguments.context.clone(), &mut output)
        .map(drop);
    if output.is_full {
        let text = name.to_owned();
        return Err(TemplateError::TooLong { text });
    }
    rendered.map_err(failed)?;
    String::from_utf8(output.bytes).map_err(|error| TemplateError::Failed {
        text: name.to_owned(),
        line: 1,
        reason: error.to_string(),
    })
}

fn sample(argument: &Argument) -> Value {
    if let Some(default) = &argument.default {
        return convert(default);
    }
    match argument.argument_type {
        ArgumentType::String | ArgumentType::Path => Value::from("sample"),
        ArgumentType::Integer => Value::from(7),
        ArgumentType::Number => Value::from(7.5),
        ArgumentType::Boolean => Value::from(true),
        ArgumentType::Choice => argument
            .choices
            .first()
            .map_or(Value::from(""), Value::from),
    }
}

/// Refuses every statement except the few that cannot make a small template costly. It checks each
/// `{%`, even between `raw` and `endraw`, so that no statement can be hidden from it.
fn check_statements(name: &str, text: &str) -> Result<(), TemplateError> {
    for (offset, opening) in text.match_indices("{%") {
        let inside = text[offset + opening.len()..]
            .trim_start_matches(['-', '+'])
            .trim_start();
        let length = inside
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(inside.len());
        let statement = &inside[..length];
        if !STATEMENTS.contains(&statement) {
            return Err(TemplateError::Statement {
                text: name.to_owned(),
                line: line_of(text, offset),
                statement: statement.chars().take(SHOWN_MAXIMUM).collect(),
            });
        }
    }
    Ok(())
}

/// Refuses an undefined name, even in a branch that these arguments do not reach.
fn check_names(
    name: &str,
    text: &str,
    used: impl IntoIterator<Item = String>,
    arguments: &TemplateArguments,
) -> Result<(), TemplateError> {
    let unknown = used
        .into_iter()
        .filter(|used| !arguments.has(used))
        .map(|used| (line_of_name(text, &used), used))
        .min();
    let Some((line, used)) = unknown else {
        return Ok(());
    };
    let names = arguments.names.iter();
    let known: Vec<String> = names.map(|each| format!("args.{each}")).collect();
    Err(TemplateError::Unknown {
        text: name.to_owned(),
        line,
        near: nearest(&used, known.iter().map(String::as_str)).map(str::to_owned),
        name: used,
        known,
    })
}

fn line_of_name(text: &str, name: &str) -> usize {
    let last = name.rsplit('.').next().unwrap_or(name);
    let found = text.find(name).or_else(|| text.find(last));
    found.map_or(1, |offset| line_of(text, offset))
}

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

fn to_template_error(name: &str, error: &minijinja::Error) -> TemplateError {
    let text = name.to_owned();
    if error.kind() == ErrorKind::OutOfFuel {
        return TemplateError::TooMuchWork { text };
    }
    let reason = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    TemplateError::Failed {
        text,
        line: error.line().unwrap_or(1),
        reason,
    }
}

/// Output of a template, with a size limit.
#[derive(Debug, Default)]
struct LimitedOutput {
    bytes: Vec<u8>,
    is_full: bool,
}

impl io::Write for LimitedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > OUTPUT_MAXIMUM {
            self.is_full = true;
            return Err(io::Error::other("the text is too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
