//! Checks that the documentation of automation profiles matches the code: renders its tables and
//! compares them.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use cleveragents_domain::automation::{GateDecision, ThresholdName};
use cleveragents_domain::{AutomationProfile, BuiltInProfile, Confidence};

const PAGE: &str = "docs/automation-profiles.md";

/// Each threshold with its group and description.
fn threshold_table() -> String {
    let mut table =
        "| threshold | group | a plan that is less sure asks before it may |\n|---|---|---|\n"
            .to_owned();
    for name in ThresholdName::ALL {
        let (group, gates) = (name.group(), name.description());
        table.push_str(&format!("| `{name}` | `{group}` | {gates} |\n"));
    }
    table
}

/// Every threshold and flag of every built-in profile.
fn value_table() -> String {
    let names: Vec<&str> = BuiltInProfile::ALL.iter().map(|it| it.as_str()).collect();
    let mut table = format!("| | {} |\n|---|", names.join(" | "));
    table.push_str(&"---|".repeat(names.len()));
    table.push('\n');
    let mut row = |name: &str, cell: &dyn Fn(AutomationProfile) -> String| {
        let cells: Vec<String> = BuiltInProfile::ALL
            .iter()
            .map(|it| cell(it.profile()))
            .collect();
        table.push_str(&format!("| `{name}` | {} |\n", cells.join(" | ")));
    };
    for name in ThresholdName::ALL {
        let value =
            |profile: AutomationProfile| format!("{:.1}", profile.thresholds.get(*name).value());
        row(name.as_str(), &value);
    }
    let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    row("require_sandbox", &|profile| yes(profile.require_sandbox));
    row("require_checkpoints", &|profile| {
        yes(profile.require_checkpoints)
    });
    row("allow_unsafe_tools", &|profile| {
        yes(profile.allow_unsafe_tools)
    });
    row("allow_forced_checks", &|profile| {
        yes(profile.allow_forced_checks)
    });
    table
}

/// The behaviour of each command under each profile.
fn command_table() -> String {
    let mut table = "| profile | `use` | `execute` | `execute` again | `apply` |\n".to_owned();
    table.push_str("|---|---|---|---|---|\n");
    for built_in in BuiltInProfile::ALL {
        let sure = command_steps(&built_in.profile(), Confidence::ONE);
        let unsure = command_steps(&built_in.profile(), Confidence::ZERO);
        let mut rows = vec![(built_in.to_string(), sure)];
        if unsure != sure {
            rows = vec![
                (format!("{built_in}, when sure"), sure),
                (format!("{built_in}, when not"), unsure),
            ];
        }
        for (name, [execute, again, apply]) in rows {
            table.push_str(&format!(
                "| {name} | creates | {execute} | {again} | {apply} |\n"
            ));
        }
    }
    table
}

/// The behaviour of `execute`, a second `execute`, and `apply`.
fn command_steps(profile: &AutomationProfile, confidence: Confidence) -> [&'static str; 3] {
    let executes = profile.gate(ThresholdName::StartExecute, confidence);
    let applies = profile.gate(ThresholdName::StartApply, confidence);
    match (executes, applies) {
        (GateDecision::Ask, GateDecision::Ask) => ["strategizes", "executes", "applies"],
        (GateDecision::Ask, GateDecision::Proceed) => ["strategizes", "executes and applies", "–"],
        (GateDecision::Proceed, GateDecision::Ask) => ["strategizes and executes", "–", "applies"],
        (GateDecision::Proceed, GateDecision::Proceed) => {
            ["strategizes, executes and applies", "–", "–"]
        }
    }
}

#[test]
fn the_docs_page_matches_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let tables = [threshold_table(), value_table(), command_table()];
    let stale = tables.iter().any(|table| !page.contains(table.as_str()));
    if stale {
        let fresh = root.join("target/automation-profiles.md");
        let mut file = File::create(&fresh).unwrap();
        file.write_all(tables.join("\n").as_bytes()).unwrap();
        panic!("{PAGE} has not the tables of the code, which are now in target/");
    }
    for built_in in BuiltInProfile::ALL {
        let row = format!("| `{built_in}` | {} |", built_in.profile().description);
        assert!(page.contains(&row), "no {row:?} in {PAGE}");
    }
}
