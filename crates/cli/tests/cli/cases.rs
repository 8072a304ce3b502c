//! The table of commands whose output is pinned by snapshots, as JSON and plain text.

mod actions;
mod actors;
mod decisions;
mod demo;
mod invariants;
mod plans;
mod profiles;
mod project;
mod resource;
mod results;
mod runs;
mod sandboxes;
mod settings;
mod system;
mod tools;
mod validations;
mod work;

use crate::environment::TestEnvironment;
use crate::snapshot_filters;

pub(crate) use actions::small_action;
pub(crate) use actors::{GREETER, LLM};
pub(crate) use invariants::add_project;
pub(crate) use profiles::profile;
pub(crate) use validations::{TESTS, with_validations};

/// Number of parallel processes.
const PARALLEL_PROCESSES: usize = 4;

pub(crate) const FORMATS: [&str; 2] = ["plain", "json"];

/// One run of a command.
pub(crate) struct SnapshotCase {
    /// The subcommand. Every command of the tree needs at least one case.
    pub(crate) command: &'static str,
    /// The name of the variant; empty for the default case.
    pub(crate) about: &'static str,
    pub(crate) arguments: &'static [&'static str],
    pub(crate) prepare: fn(&mut TestEnvironment),
    /// Number of pinned lines of an answer that grows with every new command.
    pub(crate) line_limit: Option<usize>,
}

/// The cases, one file per noun.
const CASE_GROUPS: &[&[SnapshotCase]] = &[
    system::CASES,
    demo::CASES,
    settings::CASES,
    actions::CASES,
    actors::CASES,
    profiles::CASES,
    project::CASES,
    resource::CASES,
    decisions::CASES,
    plans::CASES,
    invariants::CASES,
    tools::CASES,
    validations::CASES,
    results::CASES,
    sandboxes::CASES,
    runs::CASES,
    work::CASES,
];

pub(crate) fn cases() -> impl Iterator<Item = &'static SnapshotCase> {
    CASE_GROUPS.iter().copied().flatten()
}

/// Returns a case whose whole output is pinned.
pub(crate) const fn case(
    command: &'static str,
    about: &'static str,
    arguments: &'static [&'static str],
    prepare: fn(&mut TestEnvironment),
) -> SnapshotCase {
    SnapshotCase {
        command,
        about,
        arguments,
        prepare,
        line_limit: None,
    }
}

pub(crate) fn without_setup(_: &mut TestEnvironment) {}

pub(crate) fn with_store(environment: &mut TestEnvironment) {
    environment.run(&["init"]).succeeded();
}

impl SnapshotCase {
    pub(crate) fn snapshot_name(&self, format: &str) -> String {
        let name = self.command.replace(' ', "-");
        match self.about {
            "" => format!("{name}.{format}"),
            about => format!("{name}.{about}.{format}"),
        }
    }

    fn run(&self, format: &str) -> String {
        let mut environment = TestEnvironment::new();
        (self.prepare)(&mut environment);
        let arguments = [self.arguments, &["--format", format]].concat();
        let run = environment.run(&environment.replace_placeholders(&arguments));
        let ids = environment.new_ids();
        let stream = |text: &str| {
            let text = match self.command {
                "version" => strip_build_info(text),
                "info" | "diagnostics" | "backup" | "restore" | "sandbox show" => {
                    snapshot_filters::without_box_widths(text)
                }
                _ => text.to_owned(),
            };
            self.truncate(&snapshot_filters::without_short_ids(
                &environment.normalize(&text),
                &ids,
            ))
        };
        format!(
            "$ agents {}\nexit: {}\n--- stdout\n{}\n--- stderr\n{}",
            arguments.join(" "),
            run.code.unwrap(),
            stream(&run.stdout),
            stream(&run.stderr),
        )
    }

    fn truncate(&self, text: &str) -> String {
        const MAX_LINE_WIDTH: usize = 240;
        let Some(head) = self.line_limit else {
            return text.to_owned();
        };
        let cut = |line: &str| match line.char_indices().nth(MAX_LINE_WIDTH) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        };
        let mut lines: Vec<String> = text.lines().take(head).map(cut).collect();
        if text.lines().count() > head {
            lines.push("…".to_owned());
        }
        lines.join("\n")
    }
}

/// Replaces build information. Also adjusts box widths, which depend on it.
fn strip_build_info(text: &str) -> String {
    let mut shown = String::new();
    for line in text.lines() {
        let name = line.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        let built = ["version", "commit", "rustc", "target", "sqlite"]
            .iter()
            .find(|one| name.starts_with(**one) && !line.contains("command"));
        match built {
            Some(name) => shown.push_str(&format!("({name})")),
            None => shown.push_str(&line.replace('─', "")),
        }
        shown.push('\n');
    }
    shown
}

/// Runs every case in each format, in parallel and each in its own environment. Returns the output
/// by snapshot name.
fn run_all_cases() -> Vec<(String, String)> {
    let pairs: Vec<(&SnapshotCase, &str)> = cases()
        .flat_map(|case| FORMATS.map(|format| (case, format)))
        .collect();
    let share = pairs.len().div_ceil(PARALLEL_PROCESSES);
    std::thread::scope(|scope| {
        let workers: Vec<_> = pairs
            .chunks(share)
            .map(|some| {
                scope.spawn(|| {
                    let answer = |(case, format): &(&SnapshotCase, &str)| {
                        (case.snapshot_name(format), case.run(format))
                    };
                    some.iter().map(answer).collect::<Vec<_>>()
                })
            })
            .collect();
        let answers = workers.into_iter().map(|worker| worker.join().unwrap());
        answers.flatten().collect()
    })
}

#[test]
fn every_case_matches_its_snapshot() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    snapshot_filters::add_filters(&mut settings);
    let answers = run_all_cases();
    settings.bind(|| {
        for (name, answer) in answers {
            insta::assert_snapshot!(name, answer);
        }
    });
}
