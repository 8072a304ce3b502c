//! The demo: its output, its cleanup, and its outcome when something fails.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::environment::{CliRun, PATH, TestEnvironment};
use crate::terminal::{strip_colour, terminal_output_and_code};

/// A user with an empty home and an empty temporary folder.
fn new_user() -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    std::fs::create_dir(environment.path("tmp")).unwrap();
    environment.set_variable("PATH", PATH);
    environment.set_variable("TMPDIR", environment.path("tmp"));
    environment
}

/// Returns the sorted names in a folder.
fn list_names(environment: &TestEnvironment, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(environment.path(folder)).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Asserts that nothing is left: no folder of the demo, and nothing in the user's home.
#[track_caller]
fn assert_nothing_left(environment: &TestEnvironment) {
    assert_eq!(list_names(environment, "tmp"), [] as [&str; 0]);
    assert_eq!(list_names(environment, ""), ["tmp", "work"]);
    assert_eq!(list_names(environment, "work"), [] as [&str; 0]);
}

fn data(run: &CliRun) -> Value {
    let envelope: Value = serde_json::from_str(&run.stdout).unwrap();
    envelope["data"].clone()
}

#[test]
fn four_plans_end_as_scripted() {
    let environment = new_user();
    let run = environment.run(&["demo", "--format", "json"]).succeeded();
    let data = data(&run);
    let counts = &data["counts"];
    assert_eq!(counts["plans"], 4);
    assert_eq!(counts["tool_calls"], 21);
    assert_eq!(counts["model_calls"], 17);
    assert_eq!(counts["changes_recorded"], 8);
    assert_eq!(counts["errors_recorded"], 3);
    assert_eq!(counts["lost"], 0);
    let plans = data["plans"].as_array().unwrap();
    let ends: Vec<Value> = plans
        .iter()
        .map(|it| {
            json!([
                it["part"],
                it["state"],
                it["as_scripted"],
                it["journal"]["verified"]
            ])
        })
        .collect();
    assert_eq!(
        json!(ends),
        json!([
            ["feature", "applied", true, true],
            ["codemod", "applied", true, true],
            ["manual", "applied", true, true],
            ["limit", "constrained", true, true],
        ])
    );
    let met = |plan: &Value| {
        let errors = plan["errors"].as_array().unwrap().iter();
        errors
            .map(|it| json!([it["category"], it["occurrences"]]))
            .collect::<Vec<_>>()
    };
    assert_eq!(met(&plans[0]), [json!(["validation", 1])]);
    assert_eq!(met(&plans[2]), [json!(["rate_limit", 2])]);
    assert_eq!(plans[1]["model_calls"], 0);
    assert_eq!(plans[3]["conflicts"][0]["path"], "settings.conf");
    let events = plans.iter().map(|it| it["journal"]["events"].as_i64());
    let events: i64 = events.map(Option::unwrap).sum();
    assert_eq!(counts["events_verified"], events);
    assert_nothing_left(&environment);
}

#[test]
fn the_demo_shows_commits_and_repository_path() {
    let environment = new_user();
    let run = environment.run(&["demo", "--format", "json"]).succeeded();
    let data = data(&run);
    let subjects = data["commits"].as_array().unwrap().iter();
    let subjects: Vec<&str> = subjects.map(|it| it["subject"].as_str().unwrap()).collect();
    assert_eq!(
        subjects,
        [
            "Write down how the scripts are used",
            "Rename say_msg to say everywhere",
            "Greet loudly with --shout",
            "Greet and say goodbye",
        ]
    );
    assert!(data["diff"].as_str().unwrap().contains("+    shift"));
    let folder = data["data_directory"].as_str().unwrap();
    let folder = folder.strip_suffix("/data").unwrap();
    let said = format!("demo: everything is in {folder} and is removed at the end\n");
    assert_eq!(run.stderr, said);
    assert!(!PathBuf::from(folder).exists());
    assert_nothing_left(&environment);
}

#[test]
fn a_kept_demo_ignores_the_users_environment() {
    let mut environment = new_user();
    for (name, value) in [
        (
            "CLEVERAGENTS_DATABASE_URL",
            "postgres://nobody@127.0.0.1:1/no",
        ),
        ("CLEVERAGENTS_PLAN_CONCURRENCY", "1"),
        ("GIT_DIR", "/nowhere"),
        ("GIT_AUTHOR_NAME", "Somebody"),
        ("OPENAI_API_KEY", "sk-not-to-be-used"),
    ] {
        environment.set_variable(name, value);
    }
    environment.write(
        ".gitconfig",
        "[user]\nname = Somebody\n[commit]\ngpgSign = true\n",
    );
    let run = environment
        .run(&["demo", "--keep", "-f", "json"])
        .succeeded();
    let kept = data(&run);
    assert_eq!(kept["kept"], true);
    assert_eq!(list_names(&environment, ""), [".gitconfig", "tmp", "work"]);
    assert_eq!(list_names(&environment, "tmp").len(), 1);
    let (folder, repository) = (&kept["data_directory"], &kept["repository"]);
    let (folder, repository) = (folder.as_str().unwrap(), repository.as_str().unwrap());
    environment.remove_variable("CLEVERAGENTS_DATABASE_URL");
    environment.remove_variable("GIT_DIR");
    let list = ["plan", "list", "--data-dir", folder, "-f", "json"];
    let listed = data(&environment.run(&list).succeeded());
    let plans = listed["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 4);
    // Each plan started before the first one ended.
    let place = |kind: &str, plan: &Value| {
        let plan = plan["plan_id"].as_str().unwrap();
        let log = ["plan", "log", plan, "--data-dir", folder, "-f", "json"];
        let log_data = data(&environment.run(&log).succeeded());
        let mut log_events = log_data["events"].as_array().unwrap().iter();
        let found = log_events.find(|it| it["kind"] == kind).unwrap();
        found["seq"].as_i64().unwrap()
    };
    let begun = plans.iter().map(|it| place("run_claimed", it)).max();
    let ended = plans.iter().map(|it| place("run_released", it)).min();
    assert!(begun < ended, "{begun:?} {ended:?}");
    // The changes of three plans fit together, and the user's edit is still uncommitted.
    let script = format!(
        "cd {repository} && sh test.sh && git log --format=%an | sort -u && git status --short"
    );
    let said = environment.shell(&[], &script).succeeded();
    let expected = "all tests passed\nCleverAgents demo\n M settings.conf\n";
    assert_eq!(said.stdout, expected);
}

#[test]
fn a_terminal_shows_progress_of_each_plan() {
    let mut environment = new_user();
    environment.set_variable("TERM", "xterm-256color");
    let (text, code) = terminal_output_and_code(&environment, &["demo"]);
    let text = strip_colour(&text);
    assert_eq!(code, Some(0), "{text}");
    for plan in ["feature", "codemod", "manual", "limit"] {
        let line = format!(" {plan}: ");
        assert!(text.contains(&line), "no line of {plan}: {text}");
    }
    for said in [
        "rate limited, waiting",
        "╭─ Plans ─",
        "Decisions of feature",
        "╭─ Failed attempts ─",
        "it has uncommitted changes",
        "╭─ Journals ─",
        "each plan ended as scripted, in ",
    ] {
        assert!(text.contains(said), "nothing of `{said}`: {text}");
    }
    assert_nothing_left(&environment);
}

#[test]
fn plans_with_unexpected_outcomes_are_named() {
    let mut environment = new_user();
    // Without sed the repository's scripts fail, so none of its checks succeeds.
    let programs = tempfile::tempdir().unwrap();
    for name in ["git", "sh", "grep", "tr", "test"] {
        let found = PATH
            .split(':')
            .map(|folder| PathBuf::from(folder).join(name));
        let found = found.filter(|it| it.exists()).take(1);
        found.for_each(|it| symlink(it, programs.path().join(name)).unwrap());
    }
    environment.set_variable("PATH", programs.path());
    let run = environment.run(&["demo", "--format", "json"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let data = data(&run);
    let plans = data["plans"].as_array().unwrap();
    let scripted: Vec<&Value> = plans.iter().map(|it| &it["as_scripted"]).collect();
    assert_eq!(scripted, [false, false, true, true]);
    assert_eq!(data["counts"]["lost"], 0);
    for name in ["feature", "codemod"] {
        let said = format!("{name} did not end as scripted: ");
        assert!(run.stdout.contains(&said), "{}", run.stdout);
    }
    assert_nothing_left(&environment);
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    for signal in [Signal::INT, Signal::TERM] {
        let environment = new_user();
        let mut child = environment.start(&["demo"]);
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        // After this line the demo handles signals.
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("demo: everything is in "), "{line}");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
        assert!(rest.contains("error: interrupted"), "{rest}");
        assert_nothing_left(&environment);
    }
}

#[test]
fn a_missing_temporary_directory_is_reported() {
    let mut environment = new_user();
    environment.set_variable("TMPDIR", environment.path("missing"));
    let run = environment.run(&["demo"]);
    assert_eq!(run.code, Some(1));
    let said = "error: the demo has no folder to work in\n";
    assert!(run.stderr.starts_with(said), "{}", run.stderr);
    assert!(
        run.stderr.ends_with("next: export TMPDIR=DIR\n"),
        "{}",
        run.stderr
    );
    assert_nothing_left(&environment);
}

#[test]
fn the_demo_needs_no_home_and_no_settings() {
    let mut environment = new_user();
    environment.write(".cleveragents/config.toml", "not = [toml");
    let run = environment.run(&["demo", "--quiet"]).succeeded();
    assert!(run.stdout.ends_with("\nlost: 0\n"), "{}", run.stdout);
    assert_eq!(run.stderr, "");
    assert_eq!(list_names(&environment, ".cleveragents"), ["config.toml"]);
    environment.remove_variable("HOME");
    environment.run(&["demo", "--quiet"]).succeeded();
    assert_eq!(list_names(&environment, "tmp"), [] as [&str; 0]);
}
