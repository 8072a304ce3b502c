//! The trailer of applied commits, `agents verify-commit` and `agents blame`.

use std::fs;

use serde_json::Value;

use crate::environment::{CliRun, TestEnvironment};
use crate::executed_plan::{
    create_executed_plan, create_plan_with, execute_until_done, run_script,
};

const ACTION: &str = "\
name: local/tidy-up
description: Tidy up the shop
strategy_actor: builtin/direct
execution_actor: local/tidy
definition_of_done: It is tidy
";

/// Two calls change neighbouring lines, and a third inserts lines before them.
const ACTOR: &str = "\
name: local/tidy
type: tool
description: Tidies up
steps:
  - {tool: builtin/file-edit, input: {path: cart.txt, old: \"line 20\", new: \"twenty\\nlast\"}}
  - {tool: builtin/file-edit, input: {path: cart.txt, old: twenty, new: TWENTY}}
  - {tool: builtin/file-edit, input: {path: cart.txt, old: \"line 2\\n\", new: \"line 2\\nline 2b\\n\"}}
";

fn applied(environment: &mut TestEnvironment) -> String {
    let plan = create_executed_plan(environment);
    environment
        .run(&["plan", "apply", &plan, "--yes"])
        .succeeded();
    plan
}

fn run_in_shop(environment: &TestEnvironment, arguments: &[&str]) -> CliRun {
    let mut command = environment.command(arguments);
    command.current_dir(environment.path("work/shop"));
    CliRun::from_output(command.output().unwrap())
}

fn git(environment: &TestEnvironment, script: &str) -> String {
    let run = run_script(environment, &format!("cd shop && {script}"));
    run.stdout.trim_end().to_owned()
}

/// Returns the hashes of the events with which the plan's applies began, oldest first.
fn intents(environment: &TestEnvironment, plan: &str) -> Vec<String> {
    let log = environment.run(&["plan", "log", plan, "--format", "json"]);
    let log = log.succeeded().json();
    let events = log["data"]["events"].as_array().unwrap();
    let intents = events.iter().filter(|it| it["kind"] == "apply_intended");
    let hash = |it: &Value| it["hash"].as_str().unwrap().to_owned();
    intents.map(hash).collect()
}

#[test]
fn a_commit_ends_with_its_plan_and_the_place_in_its_journal() {
    let mut environment = TestEnvironment::new();
    let plan = applied(&mut environment);
    environment
        .run(&["plan", "unapply", &plan, "--yes"])
        .succeeded();
    let trailer =
        "git log --format='%(trailers:key=Agents-Plan,valueonly,separator=)' -2 --reverse";
    let expected: Vec<String> = intents(&environment, &plan)
        .iter()
        .map(|hash| format!("{plan}@{hash}"))
        .collect();
    assert_eq!(expected.len(), 2);
    assert_eq!(git(&environment, trailer), expected.join("\n"));
    let last = git(
        &environment,
        "git log -1 --format=%B | sed '/^$/d' | tail -n 1",
    );
    assert_eq!(last, format!("Agents-Plan: {}", expected[1]));
    for revision in ["HEAD", "HEAD~1"] {
        run_in_shop(&environment, &["verify-commit", revision]).succeeded();
    }
}

#[test]
fn a_commit_of_a_plan_verifies() {
    let mut environment = TestEnvironment::new();
    let plan = applied(&mut environment);
    let run = run_in_shop(&environment, &["verify-commit", "HEAD", "-f", "json"]);
    let data = run.succeeded().json()["data"].clone();
    assert_eq!(data["verified"], true);
    assert_eq!(data["plan_id"], plan.as_str());
    assert_eq!(data["direction"], "apply");
    assert_eq!(data["commit"], git(&environment, "git rev-parse HEAD"));
    assert_eq!(data["journal_hash"], intents(&environment, &plan)[0]);
}

#[test]
fn other_commits_do_not_verify() {
    let mut environment = TestEnvironment::new();
    let plan = applied(&mut environment);
    let refused = |script: &str, reason: &str| {
        git(&environment, script);
        let run = run_in_shop(&environment, &["verify-commit", "probe"]);
        assert_eq!(run.code, Some(1), "{script}: {run:?}");
        assert!(run.stderr.contains(reason), "{script}: {run:?}");
    };
    refused("git branch -f probe HEAD~1", "does not end with");
    // The same files and the same message, by another author.
    let copy = "git branch -f probe $(git log -1 --format=%B main | git commit-tree main^{tree} -p main~1)";
    refused(copy, "has the same files");
    let forged =
        "git branch -f probe $(git log -1 --format=%B main | git commit-tree main~1^{tree})";
    refused(forged, "has other files");
    let hash = &intents(&environment, &plan)[0];
    let zeros = "0".repeat(64);
    let moved = format!(
        "git branch -f probe $(git log -1 --format=%B main | sed s/{hash}/{zeros}/ | \
         git commit-tree main^{{tree}})"
    );
    refused(&moved, "no apply is recorded");
    let foreign = format!(
        "git branch -f probe $(git log -1 --format=%B main | sed s/{plan}/01JZZZZZZZ0000000000ABCDEF/ | \
         git commit-tree main^{{tree}})"
    );
    refused(&foreign, "has no journal in this database");
    environment.sql(&format!(
        "UPDATE events SET actor = 'mallory' WHERE stream = '{plan}' AND stream_seq = 2"
    ));
    refused("git branch -f probe main", "was altered");
    let run = run_in_shop(&environment, &["verify-commit", "nothing"]);
    assert_eq!(run.code, Some(3), "{run:?}");
}

/// Of a deleted plan only the journal is left, which its whole id names.
#[test]
fn a_commit_of_a_deleted_plan_names_the_journal() {
    let mut environment = TestEnvironment::new();
    let plan = applied(&mut environment);
    environment
        .run(&["plan", "delete", &plan, "--yes"])
        .succeeded();
    let run = run_in_shop(&environment, &["verify-commit", "HEAD"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("the plan was deleted"), "{run:?}");
    assert!(!run.stderr.contains("--data-dir"), "{run:?}");
    let hint = format!("next: agents plan log {plan}\n");
    assert!(run.stderr.contains(&hint), "{run:?}");
    environment.run(&["plan", "log", &plan]).succeeded();
}

#[test]
fn a_hint_with_global_options_has_the_whole_id_of_a_journal() {
    let mut environment = TestEnvironment::new();
    let plan = applied(&mut environment);
    environment.sql(&format!(
        "UPDATE events SET actor = 'mallory' WHERE stream = '{plan}' AND stream_seq = 2"
    ));
    let folder = environment.path(".cleveragents").display().to_string();
    let run = run_in_shop(
        &environment,
        &["verify-commit", "HEAD", "--data-dir", &folder],
    );
    let hint = format!("agents --data-dir {folder} plan verify {plan}\n");
    assert!(run.stderr.contains(&hint), "{run:?}");
}

/// Returns the lines of `agents blame` in JSON.
fn blame(environment: &TestEnvironment, arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["blame"], arguments, &["--format", "json"]].concat();
    let run = run_in_shop(environment, &arguments).succeeded();
    run.json()["data"]["lines"].as_array().unwrap().clone()
}

#[test]
fn each_line_names_the_plan_the_decision_and_the_call_that_wrote_it() {
    let mut environment = TestEnvironment::new();
    let plan = create_plan_with(&mut environment, ACTOR, ACTION);
    execute_until_done(&environment, &plan).succeeded();
    environment
        .run(&["plan", "apply", &plan, "--yes"])
        .succeeded();
    run_script(&environment, "sed -i 's/^line 5$/mine/' shop/cart.txt");
    let lines = blame(&environment, &["cart.txt"]);
    assert_eq!(lines.len(), 22);
    let by_plan = lines.iter().filter(|it| !it["plan"].is_null());
    let by_plan: Vec<(&str, i64)> = by_plan
        .map(|it| {
            assert_eq!(it["plan"]["plan_id"], plan.as_str());
            assert_eq!(it["plan"]["direction"], "apply");
            assert_eq!(it["call"]["tool"], "builtin/file-edit");
            let question = it["decision"]["question"].as_str().unwrap();
            assert!(question.starts_with("How is step 1 done"), "{question}");
            let number = it["call"]["number"].as_i64().unwrap();
            (it["text"].as_str().unwrap(), number)
        })
        .collect();
    assert_eq!(by_plan, [("line 2b", 3), ("TWENTY", 2), ("last", 1)]);
    let explain = [
        "plan",
        "explain",
        lines[2]["decision"]["decision_id"].as_str().unwrap(),
    ];
    environment.run(&explain).succeeded();
    assert_eq!(lines[0]["commit"]["author"], "Ada");
    assert_eq!(lines[5]["text"], "mine");
    assert_eq!(lines[5]["commit"], Value::Null);
    let some = blame(&environment, &["cart.txt", "-L", "2,3"]);
    assert_eq!(some, lines[1..3]);
    let shown = run_in_shop(&environment, &["blame", "cart.txt", "-L", "3"]).succeeded();
    let short = plan[plan.len() - 8..].to_lowercase();
    assert!(shown.stdout.contains(&format!("plan {short}")), "{shown:?}");
    let beyond = run_in_shop(&environment, &["blame", "cart.txt", "-L", "99"]);
    assert_eq!(beyond.code, Some(2), "{beyond:?}");
    let missing = run_in_shop(&environment, &["blame", "nothing.txt"]);
    assert_eq!(missing.code, Some(3), "{missing:?}");
}

#[test]
fn a_moved_file_keeps_its_origins() {
    let mut environment = TestEnvironment::new();
    applied(&mut environment);
    let lines = blame(&environment, &["kept/new name.txt"]);
    assert_eq!(lines[0]["commit"]["path"], "old name.txt");
    assert_eq!(lines[0]["plan"], Value::Null);
}

#[test]
fn without_its_sandbox_only_the_plan_is_known() {
    let mut environment = TestEnvironment::new();
    let plan = applied(&mut environment);
    fs::remove_dir_all(environment.path(".cleveragents/sandboxes")).unwrap();
    let lines = blame(&environment, &["cart.txt", "-L", "3"]);
    assert_eq!(lines[0]["plan"]["plan_id"], plan.as_str());
    assert_eq!(lines[0]["call"], Value::Null);
    // One call wrote the whole file.
    let lines = blame(&environment, &["docs/notes.md"]);
    assert_eq!(lines[0]["call"]["tool"], "builtin/file-write");
    for file in ["cart.txt", "docs/notes.md"] {
        let shown = run_in_shop(&environment, &["blame", file]).succeeded();
        assert!(shown.stderr.contains("is gone"), "{shown:?}");
    }
}

#[test]
fn the_sandbox_of_another_machine_is_not_said_to_be_gone() {
    let mut environment = TestEnvironment::new();
    let plan = applied(&mut environment);
    environment.sql(&format!(
        "UPDATE sandboxes SET body = json_set(body, '$.node', 'elsewhere') WHERE plan_id = '{plan}'"
    ));
    let shown = run_in_shop(&environment, &["blame", "cart.txt"]).succeeded();
    assert!(shown.stderr.contains("node elsewhere"), "{shown:?}");
    assert!(!shown.stderr.contains("is gone"), "{shown:?}");
}

/// A sandbox that is there and cannot be read is an error, also where a single call is recorded.
#[test]
fn a_damaged_sandbox_fails_the_command() {
    let mut environment = TestEnvironment::new();
    applied(&mut environment);
    run_script(
        &environment,
        "find ../.cleveragents/sandboxes -type d -name objects -prune -exec rm -rf {} +",
    );
    for file in ["cart.txt", "docs/notes.md"] {
        let run = run_in_shop(&environment, &["blame", file]);
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(!run.stderr.contains("is gone"), "{run:?}");
    }
}

/// Anybody can write a trailer, also of a plan whose sandbox has the same lines.
#[test]
fn a_forged_trailer_shows_neither_call_nor_decision() {
    let mut environment = TestEnvironment::new();
    let plan = applied(&mut environment);
    let verified = run_in_shop(&environment, &["blame", "docs/notes.md"]).succeeded();
    assert!(!verified.stdout.contains("not verified"), "{verified:?}");
    let forge = "git reset -q --hard $(git log -1 --format=%B main | \
                 GIT_AUTHOR_NAME=Mallory git commit-tree main^{tree} -p main~1)";
    git(&environment, forge);
    for file in ["docs/notes.md", "cart.txt"] {
        let lines = blame(&environment, &[file]);
        let named: Vec<&Value> = lines.iter().filter(|it| !it["plan"].is_null()).collect();
        assert!(!named.is_empty(), "{lines:?}");
        for line in named {
            assert_eq!(line["plan"]["plan_id"], plan.as_str());
            assert_eq!(line["plan"]["direction"], Value::Null, "{line}");
            assert_eq!(line["call"], Value::Null, "{line}");
            assert_eq!(line["decision"], Value::Null, "{line}");
        }
    }
    let shown = run_in_shop(&environment, &["blame", "docs/notes.md"]).succeeded();
    let short = plan[plan.len() - 8..].to_lowercase();
    let origin = format!("plan {short} (not verified)");
    assert!(shown.stdout.contains(&origin), "{shown:?}");
    assert!(!shown.stdout.contains("file-write"), "{shown:?}");
}

#[test]
fn the_origin_of_a_line_starts_no_program_of_the_repository() {
    let mut environment = TestEnvironment::new();
    applied(&mut environment);
    let program = format!("touch {}; cat", environment.path("pwned").display());
    let settings = format!(
        "printf '*.txt diff=evil filter=evil\\n' > .gitattributes && \
         git config diff.evil.textconv '{program}' && git config filter.evil.clean '{program}' && \
         git config core.fsmonitor '{program}' && git config blame.ignoreRevsFile missing"
    );
    git(&environment, &settings);
    assert_eq!(blame(&environment, &["cart.txt"]).len(), 20);
    run_in_shop(&environment, &["verify-commit", "HEAD"]).succeeded();
    assert!(!environment.path("pwned").exists());
}
