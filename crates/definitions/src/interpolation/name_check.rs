//! Checks templates before there are values to fill in.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::environment::{environment, fuel_for};
use super::names::TemplateNames;
use super::{FillError, TemplateForm, inspect, single_expression, to_fill_error};

/// Checks that the templates in `value` parse and use only allowed names. Strings with a single
/// expression and other strings are both checked.
pub(crate) fn check(text: &str, value: &Json, names: &TemplateNames<'_>) -> Vec<FillError> {
    let mut problems = Vec::new();
    check_within(text, value, names, &mut problems);
    problems
}

fn check_within(
    text: &str,
    value: &Json,
    names: &TemplateNames<'_>,
    problems: &mut Vec<FillError>,
) {
    match value {
        Json::String(template) => problems.extend(check_text(text, template, names).err()),
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check_within(&format!("{text}[{index}]"), item, names, problems);
            }
        }
        Json::Object(entries) => {
            for (key, value) in entries {
                check_within(&format!("{text}.{key}"), value, names, problems);
            }
        }
        _ => {}
    }
}

/// Like [`check`], for one text.
pub(crate) fn check_text(
    text: &str,
    template: &str,
    names: &TemplateNames<'_>,
) -> Result<(), FillError> {
    if let Some(expression) = single_expression(template) {
        return check_expression(text, expression, names);
    }
    let used = names_in_text(text, template)?;
    names.check(text, template, used)
}

/// Like [`check`], for an expression.
pub(crate) fn check_expression(
    text: &str,
    expression: &str,
    names: &TemplateNames<'_>,
) -> Result<(), FillError> {
    if expression.trim_start().starts_with("{{") {
        let text = text.to_owned();
        return Err(FillError::Braces { text });
    }
    let used = names_in_expression(text, expression)?;
    names.check(text, expression, used)
}

/// Returns the arguments that the templates of a value use, as named in templates.
pub fn arguments_in(text: &str, value: &Json) -> Result<BTreeSet<String>, FillError> {
    let mut found = BTreeSet::new();
    match value {
        Json::String(template) => {
            let used = match single_expression(template) {
                Some(expression) => names_in_expression(text, expression)?,
                None => names_in_text(text, template)?,
            };
            let argument = |name: &String| {
                let rest = name.strip_prefix("args.")?;
                rest.split('.').next().map(str::to_owned)
            };
            found.extend(used.iter().filter_map(argument));
        }
        Json::Array(items) => {
            for item in items {
                found.append(&mut arguments_in(text, item)?);
            }
        }
        Json::Object(entries) => {
            for value in entries.values() {
                found.append(&mut arguments_in(text, value)?);
            }
        }
        _ => {}
    }
    Ok(found)
}

fn names_in_text(text: &str, template: &str) -> Result<BTreeSet<String>, FillError> {
    if !template.contains('{') {
        return Ok(BTreeSet::new());
    }
    inspect(text, template, TemplateForm::Text)?;
    let failed = |error: minijinja::Error| to_fill_error(text, &error);
    let environment = environment(fuel_for(0, 0)).map_err(failed)?;
    let compiled = environment
        .template_from_named_str(text, template)
        .map_err(failed)?;
    Ok(compiled.undeclared_variables(true).into_iter().collect())
}

fn names_in_expression(text: &str, expression: &str) -> Result<BTreeSet<String>, FillError> {
    inspect(text, expression, TemplateForm::Expression)?;
    let failed = |error: minijinja::Error| to_fill_error(text, &error);
    let environment = environment(fuel_for(0, 0)).map_err(failed)?;
    let compiled = environment.compile_expression(expression).map_err(failed)?;
    Ok(compiled.undeclared_variables(true).into_iter().collect())
}
