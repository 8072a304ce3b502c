//! Output of actors for people.

use cleveragents_api::actor::ActorInUse;
use cleveragents_domain::{Actor, ActorStep, Timestamp};

use super::model;
use crate::output::{OutputView, Tone, ViewCell};

/// Number of displayed characters of a hash.
const HASH_PREFIX_LENGTH: usize = 12;
/// Number of displayed characters of a step's input.
const INPUT_EXCERPT_LENGTH: usize = 60;

/// The fields of an actor that is stored.
pub(super) struct StoredActor<'a> {
    pub(super) hash: &'a str,
    pub(super) created: Timestamp,
    pub(super) updated: Timestamp,
}

/// Returns the panel for an actor that was added or removed.
pub(super) fn panel(title: &str, actor: &Actor, stored: &StoredActor<'_>) -> OutputView {
    OutputView::new().panel(title, rows(actor, Some(stored)))
}

/// Returns all details of an actor.
pub(super) fn panels(shown: &ActorInUse) -> OutputView {
    let details = &shown.actor_details;
    let actor = &details.config;
    let stored = match (&details.config_hash, details.created, details.updated) {
        (Some(hash), Some(created), Some(updated)) => Some(StoredActor {
            hash,
            created,
            updated,
        }),
        _ => None,
    };
    let mut rows = rows(actor, stored.as_ref());
    let actions = shown.usage.referenced_by_actions.iter();
    let actions: Vec<String> = actions.map(ToString::to_string).collect();
    rows.push((
        "used by",
        if actions.is_empty() {
            ViewCell::new("no action", Tone::Faint)
        } else {
            actions.join(", ").into()
        },
    ));
    let view = OutputView::new().panel("Actor", rows);
    if shown.steps.is_empty() {
        return view;
    }
    let headers = ["step", "id", "tool", "resource", "when", "input"];
    let steps = shown.steps.iter().enumerate();
    view.table(
        "Steps",
        &headers,
        steps.map(|(index, it)| step_row(index, it)),
    )
}

fn rows(actor: &Actor, stored: Option<&StoredActor<'_>>) -> Vec<(&'static str, ViewCell)> {
    let mut rows: Vec<(&'static str, ViewCell)> = vec![
        ("name", ViewCell::new(actor.name.to_string(), Tone::Strong)),
        ("type", actor.kind.actor_type().to_string().into()),
        ("description", actor.description.clone().into()),
    ];
    if let Some(llm) = model::llm(actor) {
        rows.extend(model::rows(llm));
    } else if stored.is_some() {
        rows.push(("steps", actor.steps().len().to_string().into()));
    }
    match stored {
        None => rows.push(("kind", ViewCell::new("built in", Tone::Faint))),
        Some(stored) => {
            let hash: String = stored.hash.chars().take(HASH_PREFIX_LENGTH).collect();
            rows.extend([
                ("hash", hash.into()),
                ("added", ViewCell::time(stored.created, Tone::Normal)),
                ("updated", ViewCell::time(stored.updated, Tone::Normal)),
            ]);
        }
    }
    rows
}

fn step_row(index: usize, step: &ActorStep) -> Vec<ViewCell> {
    let text = |text: &Option<String>| ViewCell::from(text.clone().unwrap_or_default());
    let resource = step.resource.as_ref().map(ToString::to_string);
    vec![
        (index + 1).to_string().into(),
        ViewCell::new(step.id.clone().unwrap_or_default(), Tone::Strong),
        step.tool.to_string().into(),
        text(&resource),
        text(&step.when),
        shorten(&step.input.to_string()).into(),
    ]
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(INPUT_EXCERPT_LENGTH) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_input_is_cut() {
        assert_eq!(
            shorten(&"é".repeat(200)).chars().count(),
            INPUT_EXCERPT_LENGTH + 1
        );
        assert_eq!(shorten("{}"), "{}");
    }
}
