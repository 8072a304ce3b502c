//! The handbook matches the program.

use std::path::{Path, PathBuf};

use cleveragents_cli::settings::registry::{Preset, SETTINGS};

use crate::environment::TestEnvironment;

fn read_handbook() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/usage.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_settings_table_matches_the_registry() {
    let rows: Vec<String> = SETTINGS
        .iter()
        .map(|setting| {
            let preset = match setting.preset {
                Preset::Text(text) => format!("`{text}`"),
                Preset::DatabaseInDataDirectory => "SQLite in the data directory".to_owned(),
                Preset::Nothing => "none".to_owned(),
            };
            let vendor = setting.vendor_variable;
            let vendor = vendor.map_or(String::new(), |name| format!(", `{name}`"));
            format!(
                "| `{}` | `{}`{vendor} | {preset} | {} |",
                setting.name,
                setting.variable(),
                setting.description
            )
        })
        .collect();
    let text = read_handbook();
    let found: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains("CLEVERAGENTS_"))
        .collect();
    assert_eq!(found, rows, "\nthe table should be\n{}\n", rows.join("\n"));
}

#[test]
fn every_command_is_in_the_handbook() {
    let text = read_handbook();
    for command in cleveragents_cli::command().get_subcommands() {
        let name = format!("`agents {}", command.get_name());
        assert!(text.contains(&name), "{name}` is not explained");
    }
}

/// Returns the user documentation, by name.
fn read_documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = ["README.md", "docs/usage.md", "docs/automation-profiles.md"];
    let mut paths: Vec<PathBuf> = pages.iter().map(|page| root.join(page)).collect();
    for entry in std::fs::read_dir(root.join("docs/guide")).unwrap() {
        paths.push(entry.unwrap().path());
    }
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path.display().to_string(), text)
    };
    paths.into_iter().map(read).collect()
}

/// Splits a line into words as a shell does, up to a comment or a pipe.
fn split_words(line: &str) -> Vec<String> {
    let mut words = vec!["agents".to_owned()];
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
            continue;
        }
        for word in part.split_whitespace() {
            match word {
                "#" | "|" | "<" | ">" | "&&" => return words,
                _ => words.push(word.to_owned()),
            }
        }
    }
    words
}

#[test]
fn every_documented_action_is_valid() {
    let environment = TestEnvironment::new();
    let mut actions = 0;
    for (name, text) in read_documents() {
        let blocks = text.split("```yaml\n").skip(1);
        let blocks = blocks.filter_map(|rest| rest.split("```").next());
        for block in blocks.filter(|block| block.contains("strategy_actor:")) {
            let validate = ["action", "validate", "-"];
            let run = environment.run_with_input(&validate, block.as_bytes());
            assert_eq!(run.code, Some(0), "{name}: {run:?}");
            actions += 1;
        }
    }
    assert!(actions > 1, "only {actions} actions were found");
}

/// Passes each YAML example that has a line starting with `with` to the command `arguments`.
/// Returns the number of examples.
fn try_examples(with: &str, arguments: &[&str]) -> usize {
    let environment = TestEnvironment::new();
    let mut tried = 0;
    for (name, text) in read_documents() {
        let blocks = text.split("```yaml\n").skip(1);
        let blocks = blocks.filter_map(|rest| rest.split("```").next());
        for block in blocks.filter(|block| block.lines().any(|line| line.starts_with(with))) {
            let run = environment.run_with_input(arguments, block.as_bytes());
            assert_eq!(run.code, Some(0), "{name}: {run:?}");
            tried += 1;
        }
    }
    tried
}

#[test]
fn every_documented_actor_and_validation_is_valid() {
    assert_eq!(
        try_examples("type: tool", &["actor", "validate", "--config", "-"]),
        2
    );
    assert_eq!(
        try_examples("mode: ", &["validation", "add", "--config", "-"]),
        2
    );
}

#[test]
fn every_documented_command_line_parses() {
    let mut typed = 0;
    for (name, text) in read_documents() {
        let lines = text.lines().map(str::trim_start);
        for line in lines.filter_map(|line| line.strip_prefix("agents ")) {
            let parsed = cleveragents_cli::command().try_get_matches_from(split_words(line));
            assert!(parsed.is_ok(), "{name}: {line}: {}", parsed.unwrap_err());
            typed += 1;
        }
    }
    assert!(typed > 50, "only {typed} command lines were found");
}
