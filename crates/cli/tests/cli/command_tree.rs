//! Every command has help, examples that parse, and pinned output.

use std::collections::BTreeSet;
use std::path::Path;

use clap::error::ErrorKind;

use crate::cases::{FORMATS, cases};
use crate::environment::{PATH, TestEnvironment};

/// Collects every runnable command with its path.
fn collect_leaves(command: &clap::Command, words: &str, found: &mut Vec<(String, clap::Command)>) {
    for next in command.get_subcommands() {
        if next.is_hide_set() || next.get_name() == "help" {
            continue;
        }
        let words = format!("{words} {}", next.get_name()).trim().to_owned();
        if next.has_subcommands() {
            collect_leaves(next, &words, found);
        } else {
            found.push((words, next.clone()));
        }
    }
}

fn all_leaves() -> Vec<(String, clap::Command)> {
    let mut found = Vec::new();
    collect_leaves(&cleveragents_cli::command(), "", &mut found);
    assert!(!found.is_empty());
    found
}

fn snapshot_names() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots");
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".snap")).collect()
}

#[test]
fn the_tree_is_well_formed() {
    cleveragents_cli::command().debug_assert();
}

#[test]
fn every_command_has_help_and_pinned_output() {
    let snapshots = snapshot_names();
    for (words, command) in all_leaves() {
        assert!(command.get_about().is_some(), "`{words}` has no about");
        for argument in command.get_arguments() {
            let id = argument.get_id();
            assert!(argument.get_help().is_some(), "`{words}` {id} has no help");
        }
        let cases: Vec<_> = cases().filter(|case| case.command == words).collect();
        assert!(
            cases.iter().any(|case| case.about.is_empty()),
            "`{words}` has no row in cases/"
        );
        for name in cases
            .iter()
            .flat_map(|case| FORMATS.map(|format| format!("{}.snap", case.snapshot_name(format))))
        {
            assert!(snapshots.contains(&name), "`{words}` has no {name}");
        }
    }
}

#[test]
fn every_case_names_a_command_and_every_snapshot_a_case() {
    let words: BTreeSet<String> = all_leaves().into_iter().map(|(words, _)| words).collect();
    let mut names = BTreeSet::new();
    for case in cases() {
        assert!(words.contains(case.command), "no command {}", case.command);
        names.extend(FORMATS.map(|format| format!("{}.snap", case.snapshot_name(format))));
    }
    let stale: Vec<String> = snapshot_names().difference(&names).cloned().collect();
    assert!(stale.is_empty(), "no case for {stale:?}");
}

/// Splits a line into words; a quoted part is one word.
fn split_like_a_shell(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(end), _) if character == end => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, ' ') => words.push(String::new()),
            _ => words.last_mut().unwrap().push(character),
        }
    }
    assert!(quote.is_none(), "a quote is left open: {line}");
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn every_example_parses() {
    for (words, command) in all_leaves() {
        let help = command.get_after_long_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let (_, examples) = help
            .split_once("Examples:\n")
            .unwrap_or_else(|| panic!("`{words}` has no examples"));
        let examples = examples.lines().map(str::trim);
        let examples: Vec<&str> = examples.take_while(|line| !line.is_empty()).collect();
        assert!(
            examples
                .iter()
                .any(|line| line.starts_with(&format!("agents {words}"))),
            "`{words}` has no example of itself"
        );
        for example in examples {
            let typed = split_like_a_shell(example).into_iter();
            let typed = typed.take_while(|word| !matches!(word.as_str(), "|" | ">" | "<" | "&&"));
            match cleveragents_cli::command().try_get_matches_from(typed) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::DisplayHelp => {}
                Err(error) => panic!("`{example}`: {error}"),
            }
        }
    }
}

#[test]
fn every_list_has_a_pattern_and_a_limit() {
    let mut environment = TestEnvironment::new();
    environment.set_variable("PATH", PATH);
    environment.run(&["init"]).succeeded();
    let lists = all_leaves().into_iter();
    let lists: Vec<_> = lists
        .filter(|(words, _)| words.ends_with(" list"))
        .collect();
    assert!(lists.len() >= 11, "{}", lists.len());
    for (words, command) in lists {
        let has_limit = command
            .get_arguments()
            .any(|it| it.get_long() == Some("limit"));
        assert!(has_limit, "`{words}` has no --limit");
        let run = |more: &[&str]| {
            let words: Vec<&str> = words.split(' ').collect();
            environment.run(&[&words[..], more, &["--format", "json"]].concat())
        };
        let all = run(&[]).succeeded().json()["data"].clone();
        let (name, rows) = listed_rows(&all);
        let one = run(&["--limit", "1"]).succeeded().json()["data"].clone();
        assert_eq!(listed_rows(&one).1, rows.min(1), "`{words}` --limit 1");
        assert_eq!(one["summary"], all["summary"], "`{words}` counts all");
        let none = run(&["no-such-thing"]).succeeded().json()["data"].clone();
        assert_eq!(none[&name], serde_json::json!([]), "`{words}` REGEX");
        assert_eq!(run(&["--limit", "0"]).code, Some(2), "`{words}` --limit 0");
        assert_eq!(run(&["("]).code, Some(2), "`{words}` (");
    }
}

/// Returns the key of the list in an answer, and the number of its rows.
fn listed_rows(data: &serde_json::Value) -> (String, usize) {
    let lists = data.as_object().unwrap().iter();
    // Lists of what is not known or attached come besides the list itself.
    let mut lists = lists.filter(|(key, _)| !matches!(key.as_str(), "attachments" | "unknown"));
    let list = lists.find_map(|(key, rows)| Some((key.clone(), rows.as_array()?.len())));
    list.unwrap_or_else(|| panic!("no list in {data}"))
}

#[test]
fn global_options_are_taken_before_and_after_every_command() {
    for case in cases() {
        let before = [&["agents", "-f", "json", "-v"], case.arguments].concat();
        let after = [&["agents"], case.arguments, &["-f", "json", "--quiet"]].concat();
        for typed in [before, after] {
            let parsed = cleveragents_cli::command().try_get_matches_from(&typed);
            assert!(parsed.is_ok(), "{typed:?}: {}", parsed.unwrap_err());
        }
    }
}
