//! Output of an action for people.

use cleveragents_api::action::{ActionDetails, ActionSource};
use cleveragents_domain::Argument;
use serde_json::Value;

use crate::output::{OutputView, Tone, ViewCell};

/// Returns the action under a title, with tables of its arguments, rules and checks.
pub(super) fn panels(title: &str, action: &ActionDetails) -> OutputView {
    let mut view = OutputView::new().panel(title, rows(action));
    if !action.arguments.is_empty() {
        let headers = [
            "argument",
            "type",
            "required",
            "default",
            "description",
            "accepts",
        ];
        let rows = action.arguments.iter().map(argument_row);
        view = view.table("Arguments", &headers, rows);
    }
    if !action.invariants.is_empty() {
        let rules = action.invariants.iter().map(|text| vec![text.into()]);
        view = view.table("Invariants", &["rule"], rules);
    }
    if !action.checks.is_empty() {
        view = view.table("Checks", &["command", "name", "timeout"], checks(action));
    }
    view
}

fn rows(action: &ActionDetails) -> Vec<(&'static str, ViewCell)> {
    let mut rows = vec![
        ("name", ViewCell::new(action.name.to_string(), Tone::Strong)),
        ("state", action.state.to_string().into()),
        ("description", action.description.clone().into()),
    ];
    let mut add = |name, value: Option<String>| {
        if let Some(value) = value {
            rows.push((name, value.trim_end().into()));
        }
    };
    add("details", action.long_description.clone());
    add("done when", Some(action.definition_of_done.clone()));
    add("strategy actor", Some(action.strategy_actor.to_string()));
    add("execution actor", Some(action.execution_actor.to_string()));
    for (name, actor) in [
        ("estimation actor", &action.estimation_actor),
        ("review actor", &action.review_actor),
        ("apply actor", &action.apply_actor),
        ("invariant actor", &action.invariant_actor),
    ] {
        add(name, actor.as_ref().map(ToString::to_string));
    }
    let profile = action.automation_profile.as_ref();
    add("automation profile", profile.map(ToString::to_string));
    let skills: Vec<String> = action.skills.iter().map(ToString::to_string).collect();
    add("skills", (!skills.is_empty()).then(|| skills.join(", ")));
    add("budget", budget(action));
    add("reusable", Some(yes_or_no(action.reusable)));
    add("read only", Some(yes_or_no(action.read_only)));
    add("plans", Some(action.plans.to_string()));
    let source = match action.source {
        ActionSource::Registered => "registered",
        ActionSource::File => "file",
    };
    add("source", Some(source.to_owned()));
    add("file", action.file.clone());
    add("version", action.version.map(|version| version.to_string()));
    let times = [
        ("created", action.created_at),
        ("updated", action.updated_at),
    ];
    rows.extend(
        times
            .into_iter()
            .filter_map(|(name, time)| Some((name, ViewCell::time(time?, Tone::Normal)))),
    );
    rows
}

fn budget(action: &ActionDetails) -> Option<String> {
    let budget = &action.budget;
    let parts: Vec<String> = [
        budget.usd.map(|usd| format!("{usd} USD")),
        budget.tokens.map(|tokens| format!("{tokens} tokens")),
        budget.wall.map(|wall| format!("{wall} s")),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn checks(action: &ActionDetails) -> Vec<Vec<ViewCell>> {
    let row = action.checks.iter().map(|check| {
        let timeout = check.timeout.map(|seconds| format!("{seconds} s"));
        vec![
            check.run.clone().into(),
            check.name.clone().unwrap_or_default().into(),
            timeout.unwrap_or_default().into(),
        ]
    });
    row.collect()
}

fn argument_row(argument: &Argument) -> Vec<ViewCell> {
    let accepts = match &argument.pattern {
        Some(pattern) => pattern.clone(),
        None => argument.choices.join(", "),
    };
    let default = match &argument.default {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    vec![
        ViewCell::new(&argument.name, Tone::Strong),
        argument.argument_type.to_string().into(),
        yes_or_no(argument.required).into(),
        default.into(),
        argument.description.clone().into(),
        accepts.into(),
    ]
}

pub(super) fn yes_or_no(value: bool) -> String {
    if value {
        "yes".to_owned()
    } else {
        "no".to_owned()
    }
}
