//! The names that a template uses, and which of them are defined.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::Value;

use super::FillError;
use crate::nearest::nearest;

/// Maximum number of known names in a message.
const KNOWN_MAXIMUM: usize = 20;

/// The names a template may use, known before there are values.
#[derive(Debug, Clone, Default)]
pub(crate) struct TemplateNames<'a> {
    /// The top-level names, such as `args`.
    pub(crate) roots: &'a [&'a str],
    /// The ids allowed after `steps`.
    pub(crate) steps: BTreeSet<&'a str>,
}

impl TemplateNames<'_> {
    /// Refuses the first of the `used` names that can never be defined.
    pub(super) fn check(
        &self,
        text: &str,
        template: &str,
        used: BTreeSet<String>,
    ) -> Result<(), FillError> {
        let first = used
            .into_iter()
            .filter(|name| !self.has(name))
            .map(|name| (line_of_name(template, &name), name))
            .min();
        match first {
            None => Ok(()),
            Some((line, name)) => {
                let (name, known) = self.unknown_part(&name);
                Err(unknown_name_error(text, line, name, known))
            }
        }
    }

    fn has(&self, used: &str) -> bool {
        let mut parts = used.split('.');
        let root = parts.next().unwrap_or_default();
        if !self.roots.contains(&root) {
            return false;
        }
        match (root, parts.next()) {
            ("steps", Some(id)) => self.steps.contains(id),
            _ => true,
        }
    }

    /// Returns the part of a name that is unknown, and the names known in its place.
    fn unknown_part(&self, used: &str) -> (String, Vec<String>) {
        let parts: Vec<&str> = used.split('.').take(2).collect();
        match parts.as_slice() {
            ["steps", id] if self.roots.contains(&"steps") => {
                let known = self.steps.iter().map(|id| format!("steps.{id}"));
                (format!("steps.{id}"), known.collect())
            }
            _ => {
                let known = self.roots.iter().map(|&root| root.to_owned());
                (parts[0].to_owned(), known.collect())
            }
        }
    }
}

pub(super) fn unknown_name_error(
    text: &str,
    line: usize,
    name: String,
    mut known: Vec<String>,
) -> FillError {
    // Compare only the last parts: a long common prefix would make all names look similar.
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let lasts: Vec<String> = known.iter().map(|each| last(each)).collect();
    let near = nearest(&last(&name), lasts.iter().map(String::as_str))
        .and_then(|near| known.iter().find(|each| last(each) == near))
        .cloned();
    if known.len() > KNOWN_MAXIMUM {
        known.truncate(KNOWN_MAXIMUM);
        known.push("…".to_owned());
    }
    FillError::Unknown {
        text: text.to_owned(),
        line,
        name,
        near,
        known,
    }
}

/// Returns the part of `used` that is undefined, and the names defined in its place.
pub(super) fn find_missing(
    used: &str,
    roots: &BTreeMap<String, Value>,
) -> Option<(String, Vec<String>)> {
    let mut parts = used.split('.');
    let root = parts.next()?;
    let Some(mut value) = roots.get(root).cloned() else {
        return Some((root.to_owned(), roots.keys().cloned().collect()));
    };
    let mut path = root.to_owned();
    for part in parts {
        let next = value.get_attr(part).unwrap_or(Value::UNDEFINED);
        if next.is_undefined() {
            let keys = value.try_iter().into_iter().flatten();
            let known = match value.kind() {
                minijinja::value::ValueKind::Map => {
                    keys.map(|key| format!("{path}.{key}")).collect()
                }
                _ => Vec::new(),
            };
            return Some((format!("{path}.{part}"), known));
        }
        path = format!("{path}.{part}");
        value = next;
    }
    None
}

pub(super) fn line_of_name(text: &str, name: &str) -> usize {
    let last = name.rsplit('.').next().unwrap_or(name);
    let found = text.find(name).or_else(|| text.find(last));
    found.map_or(1, |offset| text[..offset].matches('\n').count() + 1)
}
