//! Templates over JSON: the strings of a step's input, its `when`, the `transform` of a validation.
//!
//! A string is a template. If it is a single `{{ expression }}`, it becomes the expression's value
//! with its type; any other becomes text. Templates see only a [`TemplateScope`]: no files, no
//! clock, no loops. Their cost is bounded: `*`, the only operator by which a short text makes a
//! long value, is refused; fuel and a size limit are a second line of defence.

mod environment;
mod json;
mod name_check;
mod names;

use std::collections::BTreeMap;

use cleveragents_domain::action::argument::template_name;
use minijinja::machinery::{Token, tokenize};
use minijinja::{ErrorKind, Value};
use serde_json::Value as Json;

pub use name_check::arguments_in;
pub(super) use name_check::{check, check_expression, check_text};
pub(super) use names::TemplateNames;

pub(super) use environment::{FUEL_MAXIMUM, environment};
use environment::{fuel_for, syntax};
use json::{ByteBudget, to_json, to_value};

/// Maximum size of a filled-in value, in bytes of JSON.
const FILLED_MAXIMUM: usize = 1 << 20;
/// The allowed statements.
const STATEMENTS: [&str; 4] = ["if", "elif", "else", "endif"];
/// Maximum number of values joined by `~` and `+` in one expression: each join copies everything
/// before it.
const JOINS_MAXIMUM: u64 = 20;
/// Maximum length of a wrong statement quoted in a message.
const SHOWN_MAXIMUM: usize = 40;

/// Error of a template that could not be filled in; `text` is its location, such as `input.path`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    #[error("`{text}`, line {line}: there is no `{name}`; {}", known_names(.near.as_deref(), .known))]
    Unknown {
        text: String,
        line: usize,
        name: String,
        near: Option<String>,
        known: Vec<String>,
    },
    #[error(
        "`{text}`, line {line}: unknown statement `{{% {statement}`; templates have \
         `if`, `elif`, `else` and `raw`"
    )]
    Statement {
        text: String,
        line: usize,
        statement: String,
    },
    #[error("`{text}`, line {line}: `*` is not available in templates; compute it in a tool")]
    Operator { text: String, line: usize },
    #[error(
        "`{text}`, line {line}: one expression may join {JOINS_MAXIMUM} values by `~` and `+`; \
         a text may hold several expressions"
    )]
    Joins { text: String, line: usize },
    #[error("`{text}`, line {line}: this cannot be filled in: {reason}")]
    Failed {
        text: String,
        line: usize,
        reason: String,
    },
    #[error("`{text}` is an expression: write it without `{{{{` and `}}}}`")]
    Braces { text: String },
    #[error("`{text}` must give true or false, not {found}")]
    NotABoolean { text: String, found: String },
    #[error("`{text}` gives {found}, which is not a JSON value")]
    NotJson { text: String, found: String },
    #[error("`{text}` would be larger than {FILLED_MAXIMUM} bytes")]
    TooLarge { text: String },
    #[error("`{text}` takes too long to fill in")]
    TooMuchWork { text: String },
}

impl FillError {
    /// The location of the template.
    pub fn text(&self) -> &str {
        match self {
            Self::Unknown { text, .. }
            | Self::Statement { text, .. }
            | Self::Operator { text, .. }
            | Self::Joins { text, .. }
            | Self::Failed { text, .. }
            | Self::Braces { text }
            | Self::NotABoolean { text, .. }
            | Self::NotJson { text, .. }
            | Self::TooLarge { text }
            | Self::TooMuchWork { text } => text,
        }
    }
}

fn known_names(near: Option<&str>, known: &[String]) -> String {
    match (near, known) {
        (Some(near), _) => format!("did you mean `{near}`? Known are {}", known.join(", ")),
        (None, []) => "nothing is known there".to_owned(),
        (None, known) => format!("known are {}", known.join(", ")),
    }
}

/// The names that templates can use.
#[derive(Debug, Clone, Default)]
pub struct TemplateScope {
    roots: BTreeMap<String, Value>,
    /// Size of the largest value, from which the fuel is computed.
    largest: usize,
}

impl TemplateScope {
    /// Returns this scope with `value` added as `name`.
    #[must_use]
    pub fn with(mut self, name: &str, value: &Json) -> Self {
        self.largest = self.largest.max(json::size_of(value));
        self.roots.insert(name.to_owned(), to_value(value));
        self
    }

    /// Returns this scope with `arguments` added as `args`; a hyphen in a name becomes `_`.
    #[must_use]
    pub fn with_arguments(mut self, arguments: &BTreeMap<String, Json>) -> Self {
        let mut values = BTreeMap::new();
        for (name, value) in arguments {
            self.largest = self.largest.max(json::size_of(value));
            values.insert(template_name(name), to_value(value));
        }
        self.roots.insert("args".to_owned(), Value::from(values));
        self
    }

    /// Returns this scope with the outputs of earlier steps added as `steps`.
    #[must_use]
    pub fn with_steps(mut self, steps: &StepOutputs) -> Self {
        self.largest = self.largest.max(steps.largest);
        let values = steps.outputs.clone();
        self.roots.insert("steps".to_owned(), Value::from(values));
        self
    }
}

/// The outputs of the steps so far. An output is converted once, however many steps use it.
#[derive(Debug, Clone, Default)]
pub struct StepOutputs {
    outputs: BTreeMap<String, Value>,
    largest: usize,
}

impl StepOutputs {
    /// Adds the output of the step `id`.
    pub fn record(&mut self, id: &str, output: &Json) {
        self.largest = self.largest.max(json::size_of(output));
        self.outputs.insert(id.to_owned(), to_value(output));
    }

    /// Marks the step `id` as skipped.
    pub fn skip(&mut self, id: &str) {
        self.record(id, &serde_json::json!({"skipped": true}));
    }
}

/// Returns `value` with every string filled in; `text` is its location.
pub fn fill(text: &str, value: &Json, scope: &TemplateScope) -> Result<Json, FillError> {
    // One budget for all strings of a value: many small templates can grow as much as one large.
    let mut room = ByteBudget::new(FILLED_MAXIMUM);
    let filled = fill_within(text, value, scope, &mut room)?;
    // The budget counts contents. The encoded text is longer by quotes and escapes.
    if filled.to_string().len() > FILLED_MAXIMUM {
        return Err(too_large_error(text));
    }
    Ok(filled)
}

fn fill_within(
    text: &str,
    value: &Json,
    scope: &TemplateScope,
    room: &mut ByteBudget,
) -> Result<Json, FillError> {
    match value {
        Json::String(template) => fill_string(text, template, scope, room),
        Json::Array(items) => {
            let fill = |(index, item)| fill_within(&format!("{text}[{index}]"), item, scope, room);
            items.iter().enumerate().map(fill).collect()
        }
        Json::Object(entries) => entries
            .iter()
            .map(|(key, value)| {
                let filled = fill_within(&format!("{text}.{key}"), value, scope, room)?;
                Ok((key.clone(), filled))
            })
            .collect(),
        other => Ok(other.clone()),
    }
}

fn fill_string(
    text: &str,
    template: &str,
    scope: &TemplateScope,
    room: &mut ByteBudget,
) -> Result<Json, FillError> {
    if let Some(expression) = single_expression(template) {
        let value = evaluate(text, expression, scope)?;
        return to_json(&value, room).map_err(|refusal| refusal.into_fill_error(text));
    }
    let filled = render(text, template, scope, room)?;
    Ok(Json::String(filled))
}

/// Fills in a command or another text.
pub fn fill_text(text: &str, template: &str, scope: &TemplateScope) -> Result<String, FillError> {
    render(text, template, scope, &mut ByteBudget::new(FILLED_MAXIMUM))
}

pub fn evaluate_json(
    text: &str,
    expression: &str,
    scope: &TemplateScope,
) -> Result<Json, FillError> {
    let value = evaluate(text, expression, scope)?;
    let mut room = ByteBudget::new(FILLED_MAXIMUM);
    to_json(&value, &mut room).map_err(|refusal| refusal.into_fill_error(text))
}

/// Evaluates an expression that must be a boolean.
pub fn evaluate_bool(
    text: &str,
    expression: &str,
    scope: &TemplateScope,
) -> Result<bool, FillError> {
    match evaluate_json(text, expression, scope)? {
        Json::Bool(value) => Ok(value),
        other => Err(FillError::NotABoolean {
            text: text.to_owned(),
            found: describe(&other),
        }),
    }
}

fn describe(value: &Json) -> String {
    match value {
        Json::Null => "nothing".to_owned(),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "a mapping".to_owned(),
        other => {
            let shown: String = other.to_string().chars().take(SHOWN_MAXIMUM).collect();
            format!("the value {shown}")
        }
    }
}

fn evaluate(text: &str, expression: &str, scope: &TemplateScope) -> Result<Value, FillError> {
    // Before the evaluation: fuel counts instructions, and one join can copy a megabyte.
    let joins = inspect(text, expression, TemplateForm::Expression)?;
    let failed = |error: minijinja::Error| to_fill_error(text, &error);
    let environment = environment(fuel_for(scope.largest, joins)).map_err(failed)?;
    let compiled = environment.compile_expression(expression).map_err(failed)?;
    let used = || compiled.undeclared_variables(true);
    let value = compiled.eval(Value::from(scope.roots.clone()));
    match value {
        // The engine returns an undefined value for a whole expression; inside a text it fails by
        // itself.
        Ok(value) if value.is_undefined() => Err(undefined_error(text, expression, used(), scope)),
        Ok(value) => Ok(value),
        Err(error) if error.kind() == ErrorKind::UndefinedError => {
            Err(undefined_error(text, expression, used(), scope))
        }
        Err(error) => Err(failed(error)),
    }
}

fn render(
    text: &str,
    template: &str,
    scope: &TemplateScope,
    room: &mut ByteBudget,
) -> Result<String, FillError> {
    // Most strings are no templates. Building an environment for each would dominate a step.
    if !template.contains('{') {
        room.take(template.len())
            .map_err(|refusal| refusal.into_fill_error(text))?;
        return Ok(template.to_owned());
    }
    let joins = inspect(text, template, TemplateForm::Text)?;
    let failed = |error: minijinja::Error| to_fill_error(text, &error);
    let environment = environment(fuel_for(scope.largest, joins)).map_err(failed)?;
    let compiled = environment
        .template_from_named_str(text, template)
        .map_err(failed)?;
    let mut output = json::BudgetedWriter::new(room);
    let context = Value::from(scope.roots.clone());
    // The size limit is reported first: it is the cause if the writer refused the output.
    let rendered = compiled.render_captured_to(context, &mut output).map(drop);
    let filled = output
        .finish()
        .map_err(|refusal| refusal.into_fill_error(text))?;
    match rendered {
        Ok(()) => Ok(filled),
        Err(error) if error.kind() == ErrorKind::UndefinedError => {
            let used = compiled.undeclared_variables(true);
            Err(undefined_error(text, template, used, scope))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Whether a text is parsed as a template or as one expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TemplateForm {
    Text,
    Expression,
}

fn single_expression(template: &str) -> Option<&str> {
    let inside = template.strip_prefix("{{")?.strip_suffix("}}")?;
    let inside = inside.strip_prefix(['-', '+']).unwrap_or(inside);
    let inside = inside.strip_suffix(['-', '+']).unwrap_or(inside);
    // Two expressions in a row do not count: `a }} {{ b` does not parse.
    minijinja::machinery::parse_expr(inside).ok()?;
    Some(inside)
}

/// Refuses every statement and operator that could make a small template costly. It uses the same
/// parser as the rendering, so that nothing can be hidden from it. Returns the largest number of
/// values that one expression joins.
fn inspect(text: &str, template: &str, form: TemplateForm) -> Result<u64, FillError> {
    let syntax = syntax().map_err(|error| to_fill_error(text, &error))?;
    let mut opened = false;
    let (mut joins, mut most_joins) = (0, 0);
    for token in tokenize(template, form == TemplateForm::Expression, syntax) {
        let (token, span) = token.map_err(|error| to_fill_error(text, &error))?;
        let line = usize::from(span.start_line).max(1);
        let text = || text.to_owned();
        match token {
            Token::Mul | Token::Pow => return Err(FillError::Operator { text: text(), line }),
            Token::Ident(word) if opened && !STATEMENTS.contains(&word) => {
                return Err(FillError::Statement {
                    text: text(),
                    line,
                    statement: word.chars().take(SHOWN_MAXIMUM).collect(),
                });
            }
            Token::VariableStart | Token::BlockStart => joins = 0,
            Token::Tilde | Token::Plus => joins += 1,
            _ => {}
        }
        if joins >= JOINS_MAXIMUM {
            return Err(FillError::Joins { text: text(), line });
        }
        most_joins = most_joins.max(joins);
        opened = matches!(token, Token::BlockStart);
    }
    Ok(most_joins)
}

/// Refuses a text that could cost more than its length suggests. Used for the templates of actions
/// too.
pub(super) fn check_cost(text: &str, template: &str) -> Result<(), FillError> {
    inspect(text, template, TemplateForm::Text).map(drop)
}

/// Returns which of the used names is undefined.
fn undefined_error(
    text: &str,
    template: &str,
    used: impl IntoIterator<Item = String>,
    scope: &TemplateScope,
) -> FillError {
    let unknown = used
        .into_iter()
        .filter_map(|name| names::find_missing(&name, &scope.roots))
        .map(|(name, known)| (names::line_of_name(template, &name), name, known))
        .min();
    match unknown {
        Some((line, name, known)) => names::unknown_name_error(text, line, name, known),
        None => FillError::Failed {
            text: text.to_owned(),
            line: 1,
            reason: "a value it uses does not exist".to_owned(),
        },
    }
}

fn to_fill_error(text: &str, error: &minijinja::Error) -> FillError {
    let text = text.to_owned();
    if error.kind() == ErrorKind::OutOfFuel {
        return FillError::TooMuchWork { text };
    }
    let reason = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    FillError::Failed {
        text,
        line: error.line().unwrap_or(1),
        reason,
    }
}

fn too_large_error(text: &str) -> FillError {
    let text = text.to_owned();
    FillError::TooLarge { text }
}

#[cfg(test)]
mod tests;
