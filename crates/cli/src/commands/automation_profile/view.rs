//! Output of a profile for people.

use cleveragents_api::automation_profile::ProfileDetails;
use cleveragents_domain::Guards;
use cleveragents_domain::automation::{ThresholdGroup, ThresholdName};

use crate::output::{OutputView, Tone, ViewCell};

pub(super) fn panels(title: &str, profile: &ProfileDetails) -> OutputView {
    let kind = if profile.built_in {
        "built in"
    } else {
        "custom"
    };
    let rows = [
        (
            "name",
            ViewCell::new(profile.name.to_string(), Tone::Strong),
        ),
        ("description", profile.description.clone().into()),
        ("kind", kind.into()),
        ("require_sandbox", flag(profile.flags.require_sandbox)),
        (
            "require_checkpoints",
            flag(profile.flags.require_checkpoints),
        ),
        ("allow_unsafe_tools", flag(profile.flags.allow_unsafe_tools)),
        (
            "allow_forced_checks",
            flag(profile.flags.allow_forced_checks),
        ),
    ];
    let headers = ["threshold", "value", "asks you", "before"];
    let mut view = OutputView::new().panel(title, rows);
    for group in ThresholdGroup::ALL {
        let title = match group {
            ThresholdGroup::PhaseTransitions => "Phase transitions",
            ThresholdGroup::DecisionAutomation => "Decision automation",
            ThresholdGroup::SelfRepair => "Self-repair",
            ThresholdGroup::ExecutionControls => "Execution controls",
        };
        let rows = group.thresholds().map(|name| threshold_row(profile, name));
        view = view.table(title, &headers, rows);
    }
    view.panel(
        "Guards, in the order in which they are checked",
        guards(&profile.guards),
    )
    .panel("Limits", limits(profile))
}

fn threshold_row(profile: &ProfileDetails, name: ThresholdName) -> Vec<ViewCell> {
    let value = profile.thresholds.get(name).value();
    let tone = match value {
        value if value >= 1.0 => Tone::Good,
        value if value <= 0.0 => Tone::Doubtful,
        _ => Tone::Normal,
    };
    let asks = match value {
        value if value >= 1.0 => "always",
        value if value <= 0.0 => "never",
        _ => "below the threshold",
    };
    vec![
        name.to_string().into(),
        ViewCell::new(format!("{value:?}"), tone),
        asks.into(),
        name.description().into(),
    ]
}

fn guards(guards: &Guards) -> [(&'static str, ViewCell); 6] {
    let names = |names: &[_]| {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        names.join(", ")
    };
    let or = |text: String, empty: &str| {
        if text.is_empty() {
            ViewCell::new(empty, Tone::Faint)
        } else {
            ViewCell::from(text)
        }
    };
    let calls = guards.max_tool_calls_per_step.map(|it| it.to_string());
    let cost = guards.max_total_cost.map(|usd| format!("{usd} USD"));
    [
        ("tool_denylist", or(names(&guards.tool_denylist), "none")),
        (
            "tool_allowlist",
            or(names(&guards.tool_allowlist), "every tool not denied"),
        ),
        (
            "max_tool_calls_per_step",
            or(calls.unwrap_or_default(), "no limit"),
        ),
        ("max_total_cost", or(cost.unwrap_or_default(), "no limit")),
        (
            "require_approval_for_writes",
            flag(guards.require_approval_for_writes),
        ),
        (
            "require_approval_for_apply",
            flag(guards.require_approval_for_apply),
        ),
    ]
}

fn limits(profile: &ProfileDetails) -> [(&'static str, String); 2] {
    let limits = &profile.limits;
    [
        (
            "max_retries_per_step",
            limits.max_retries_per_step.to_string(),
        ),
        (
            "validation_retry_limit",
            limits.validation_retry_limit.to_string(),
        ),
    ]
}

fn flag(value: bool) -> ViewCell {
    if value {
        ViewCell::from("yes")
    } else {
        ViewCell::from("no")
    }
}
