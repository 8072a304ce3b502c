//! Output of validations and their attachments for people.

use cleveragents_api::validation::{AttachmentDetails, ValidationDetails};
use cleveragents_domain::ValidationMode;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::validation::AttachmentScopeKind;
use serde_json::Value;

use crate::output::{OutputView, Tone, ViewCell};

/// Number of displayed characters of a hash.
const HASH_PREFIX_LENGTH: usize = 12;

pub(super) const ATTACHMENT_HEADERS: [&str; 6] =
    ["id", "validation", "mode", "resource", "scope", "args"];

pub(super) fn panel(title: &str, validation: &ValidationDetails) -> OutputView {
    let mut rows: Vec<(&str, ViewCell)> = vec![
        (
            "name",
            ViewCell::new(validation.name.to_string(), Tone::Strong),
        ),
        ("mode", mode(validation.mode)),
        ("description", validation.description.clone().into()),
    ];
    let mut add = |name, value: Option<String>| {
        rows.extend(value.map(|value| (name, ViewCell::from(value))));
    };
    add("run", validation.run.clone());
    add("wraps", validation.wraps.as_ref().map(ToString::to_string));
    add("input", validation.input.as_ref().map(ToString::to_string));
    add("transform", validation.transform.clone());
    let hash: String = validation.hash.chars().take(HASH_PREFIX_LENGTH).collect();
    rows.extend([
        ("timeout", format!("{} s", validation.timeout).into()),
        ("hash", hash.into()),
        ("added", ViewCell::time(validation.created, Tone::Normal)),
        ("updated", validation.updated.to_string().into()),
    ]);
    OutputView::new().panel(title, rows)
}

pub(super) fn mode(mode: ValidationMode) -> ViewCell {
    match mode {
        ValidationMode::Required => ViewCell::new(mode.to_string(), Tone::Strong),
        ValidationMode::Informational => ViewCell::from(mode.to_string()),
    }
}

pub(super) fn attachment_row(attachment: &AttachmentDetails) -> Vec<ViewCell> {
    vec![
        ViewCell::new(attachment.attachment_id.short(), Tone::Strong),
        attachment.validation.to_string().into(),
        mode(attachment.mode),
        attachment.resource.to_string().into(),
        scope(attachment).into(),
        args(attachment).into(),
    ]
}

/// Returns the panel for an attachment that was added or removed.
pub(super) fn attachment_panel(title: &str, attachment: &AttachmentDetails) -> OutputView {
    let mut rows: Vec<(&str, ViewCell)> = vec![
        (
            "attachment",
            ViewCell::new(attachment.attachment_id.short(), Tone::Strong),
        ),
        ("validation", attachment.validation.to_string().into()),
        ("mode", mode(attachment.mode)),
        ("resource", attachment.resource.to_string().into()),
        ("scope", scope(attachment).into()),
    ];
    if !attachment.args.is_empty() {
        rows.push(("args", args(attachment).into()));
    }
    OutputView::new().panel(title, rows)
}

fn scope(attachment: &AttachmentDetails) -> String {
    let target = attachment.scope_target.clone().unwrap_or_default();
    match attachment.scope {
        AttachmentScopeKind::Direct => "direct".to_owned(),
        AttachmentScopeKind::Project => format!("project {target}"),
        AttachmentScopeKind::Plan => match target.parse::<PlanId>() {
            Ok(plan) => format!("plan {}", plan.short()),
            Err(_) => format!("plan {target}"),
        },
    }
}

fn args(attachment: &AttachmentDetails) -> String {
    let text = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    };
    let pairs: Vec<String> = attachment.args.iter().map(text).collect();
    pairs.join(" ")
}
