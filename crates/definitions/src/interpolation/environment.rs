//! The filters and tests of templates, and how values are printed.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};

use super::FILLED_MAXIMUM;
use super::json::{ByteBudget, JsonConversionError, to_json};

/// Maximum number of instructions of a template.
pub(crate) const FUEL_MAXIMUM: u64 = 20_000;
/// Minimum number of instructions that is always allowed, even for large values.
const FUEL_MINIMUM: u64 = 200;
/// Maximum number of bytes that all instructions together may move.
const WORK_MAXIMUM: u64 = 1 << 32;

/// Returns the fuel for a template whose largest value has `largest` bytes and whose expressions
/// join at most `joins` of them: an instruction may copy everything joined so far.
pub(super) fn fuel_for(largest: usize, joins: u64) -> u64 {
    let largest = u64::try_from(largest).unwrap_or(u64::MAX).max(1);
    let copied = largest.saturating_mul(joins + 1);
    (WORK_MAXIMUM / copied).clamp(FUEL_MINIMUM, FUEL_MAXIMUM)
}

/// Keeps a newline at the end of a text.
pub(super) fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder().keep_trailing_newline(true).build()
}

/// Returns the only environment of templates: those of actions and those over JSON differ in what
/// they can see, not in what they can do.
pub(crate) fn environment<'a>(fuel: u64) -> Result<Environment<'a>, Error> {
    let mut environment = Environment::empty();
    environment.set_syntax(syntax()?);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(fuel));
    // The name of a text must not affect how it is escaped.
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(print);
    add_filters(&mut environment);
    environment.add_test("defined", |value: Value| !value.is_undefined());
    environment.add_test("undefined", |value: Value| value.is_undefined());
    environment.add_test("none", |value: Value| value.is_none());
    environment.add_test("skipped", |step: Value| {
        step.get_attr("skipped").is_ok_and(|value| value.is_true())
    });
    Ok(environment)
}

/// Prints lists, mappings and booleans as JSON, and `none` as nothing.
fn print(
    output: &mut minijinja::Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => Ok(()),
        ValueKind::Bool | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
            output.write_str(&json_text(value)?).map_err(Error::from)
        }
        _ => minijinja::escape_formatter(output, state, value),
    }
}

fn json_text(value: &Value) -> Result<String, Error> {
    let json = to_json(value, &mut ByteBudget::new(FILLED_MAXIMUM)).map_err(to_minijinja_error)?;
    Ok(json.to_string())
}

fn to_minijinja_error(refusal: JsonConversionError) -> Error {
    Error::new(ErrorKind::InvalidOperation, refusal.to_string())
}

fn add_filters(environment: &mut Environment<'_>) {
    environment.add_filter("default", |value: Value, other: Value| {
        if value.is_none() || value.is_undefined() {
            other
        } else {
            value
        }
    });
    environment.add_filter("lower", |text: String| text.to_lowercase());
    environment.add_filter("upper", |text: String| text.to_uppercase());
    environment.add_filter("trim", |text: String| text.trim().to_owned());
    environment.add_filter("lines", |text: String| {
        text.lines().map(Value::from).collect::<Vec<Value>>()
    });
    environment.add_filter("json", |value: Value| json_text(&value));
    environment.add_filter("length", |value: Value| {
        let length = value.len();
        length.ok_or_else(|| filter_error("length", &value))
    });
    environment.add_filter("first", |value: Value| value.get_item_by_index(0));
    environment.add_filter("last", |value: Value| match value.len() {
        Some(length) if length > 0 => value.get_item_by_index(length - 1),
        _ => Ok(Value::UNDEFINED),
    });
    environment.add_filter("join", join);
}

fn join(value: Value, between: String) -> Result<String, Error> {
    let mut joined = String::new();
    for (index, item) in value.try_iter()?.enumerate() {
        if index > 0 {
            joined.push_str(&between);
        }
        match item.as_str() {
            Some(text) => joined.push_str(text),
            None => joined.push_str(&json_text(&item)?),
        }
        if joined.len() > FILLED_MAXIMUM {
            return Err(to_minijinja_error(JsonConversionError::TooLarge));
        }
    }
    Ok(joined)
}

fn filter_error(filter: &str, value: &Value) -> Error {
    let kind = value.kind();
    let detail = format!("{kind} has no `{filter}`");
    Error::new(ErrorKind::InvalidOperation, detail)
}
