//! Output of validations and their attachments for people and programs.

use cleveragents_definitions::FORMAT_VERSION;
use cleveragents_domain::{AttachmentScope, ValidationMode, ValidationSource};
use cleveragents_engine::validations::AttachmentView;
use cleveragents_ports::ValidationRow;
use serde_json::{Value, json};

use crate::output::{OutputView, Tone, ViewCell};

/// How many characters of a hash are displayed.
const HASH_PREFIX_LENGTH: usize = 12;

pub(super) const ATTACHMENT_HEADERS: [&str; 6] =
    ["id", "validation", "mode", "resource", "scope", "args"];

/// Returns a validation for JSON output.
pub(super) fn data(row: &ValidationRow) -> Value {
    let validation = &row.validation;
    let (run, wraps, input, transform) = match &validation.source {
        ValidationSource::Run(command) => (Some(command), None, None, None),
        ValidationSource::Wraps(wrapped) => (
            None,
            Some(&wrapped.tool),
            Some(&wrapped.input),
            Some(&wrapped.transform),
        ),
    };
    json!({
        "name": validation.name,
        "description": validation.description,
        "type": "validation",
        "mode": validation.mode,
        "run": run,
        "wraps": wraps,
        "input": input,
        "transform": transform,
        "timeout": validation.timeout,
        "capability": {"read_only": true, "writes": false, "checkpointable": false},
        "hash": row.hash,
        "schema_version": FORMAT_VERSION,
        "version": row.version,
        "created": row.created_at,
        "updated": row.updated_at,
    })
}

/// Returns a validation for people.
pub(super) fn panel(title: &str, row: &ValidationRow) -> OutputView {
    let validation = &row.validation;
    let mut rows: Vec<(&str, ViewCell)> = vec![
        (
            "name",
            ViewCell::new(validation.name.to_string(), Tone::Strong),
        ),
        ("mode", mode(validation.mode)),
        ("description", validation.description.clone().into()),
    ];
    match &validation.source {
        ValidationSource::Run(command) => rows.push(("run", command.clone().into())),
        ValidationSource::Wraps(wrapped) => rows.extend([
            ("wraps", wrapped.tool.to_string().into()),
            ("input", wrapped.input.to_string().into()),
            ("transform", wrapped.transform.clone().into()),
        ]),
    }
    let hash: String = row.hash.chars().take(HASH_PREFIX_LENGTH).collect();
    rows.extend([
        ("timeout", format!("{} s", validation.timeout).into()),
        ("hash", hash.into()),
        ("added", row.created_at.to_string().into()),
        ("updated", row.updated_at.to_string().into()),
    ]);
    OutputView::new().panel(title, rows)
}

pub(super) fn mode(mode: ValidationMode) -> ViewCell {
    match mode {
        ValidationMode::Required => ViewCell::new(mode.to_string(), Tone::Strong),
        ValidationMode::Informational => ViewCell::from(mode.to_string()),
    }
}

/// Returns an attachment for JSON output.
pub(super) fn attachment_data(view: &AttachmentView) -> Value {
    let attachment = &view.attachment;
    json!({
        "attachment_id": attachment.id,
        "validation": attachment.validation,
        "mode": view.validation.mode,
        "resource": view.resource,
        "resource_id": attachment.resource,
        "scope": attachment.scope.kind(),
        "scope_target": attachment.scope.target(),
        "args": attachment.args,
        "created_at": attachment.created_at,
    })
}

pub(super) fn attachment_row(view: &AttachmentView) -> Vec<ViewCell> {
    vec![
        ViewCell::new(view.attachment.id.short(), Tone::Strong),
        view.attachment.validation.to_string().into(),
        mode(view.validation.mode),
        view.resource.to_string().into(),
        scope(&view.attachment.scope).into(),
        args(view).into(),
    ]
}

/// Returns the panel for an attachment that was added or removed.
pub(super) fn attachment_panel(title: &str, view: &AttachmentView) -> OutputView {
    let mut rows: Vec<(&str, ViewCell)> = vec![
        (
            "attachment",
            ViewCell::new(view.attachment.id.short(), Tone::Strong),
        ),
        ("validation", view.attachment.validation.to_string().into()),
        ("mode", mode(view.validation.mode)),
        ("resource", view.resource.to_string().into()),
        ("scope", scope(&view.attachment.scope).into()),
    ];
    if !view.attachment.args.is_empty() {
        rows.push(("args", args(view).into()));
    }
    OutputView::new().panel(title, rows)
}

fn scope(scope: &AttachmentScope) -> String {
    match scope {
        AttachmentScope::Direct => "direct".to_owned(),
        AttachmentScope::Project(name) => format!("project {name}"),
        AttachmentScope::Plan(plan) => format!("plan {}", plan.short()),
    }
}

fn args(view: &AttachmentView) -> String {
    let text = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    };
    let pairs: Vec<String> = view.attachment.args.iter().map(text).collect();
    pairs.join(" ")
}
