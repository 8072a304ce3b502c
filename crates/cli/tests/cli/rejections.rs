//! `plan reject`: removing parts of a plan's result.

use serde_json::Value;

use crate::environment::TestEnvironment;
use crate::executed_plan::{
    create_checked_plan, create_executed_plan, execute_until_done, run_script,
};

const REASON: [&str; 2] = ["--why", "nobody asked for it"];

fn reject(environment: &TestEnvironment, plan: &str, part: &str) -> Value {
    let words = [
        &["plan", "reject", plan, part],
        &REASON[..],
        &["-f", "json"],
    ]
    .concat();
    environment.run(&words).succeeded().json()
}

fn paths(environment: &TestEnvironment, plan: &str) -> Vec<String> {
    let diff = environment.run(&["plan", "diff", plan, "-f", "json"]);
    let files = diff.succeeded().json()["data"]["files"].clone();
    let one = |file: &Value| file["path"].as_str().unwrap().to_owned();
    files.as_array().unwrap().iter().map(one).collect()
}

fn patch(environment: &TestEnvironment, plan: &str, file: &str) -> String {
    let words = ["plan", "diff", plan, "--patch", "--file", file];
    environment.run(&words).succeeded().stdout
}

#[test]
fn rejected_files_are_restored_and_the_rest_is_applied() {
    let mut environment = TestEnvironment::new();
    let plan = create_executed_plan(&mut environment);
    // An edited, a new, a deleted and a moved file.
    for part in ["docs/notes.md", "menu.txt", "kept/new name.txt"] {
        let json = reject(&environment, &plan, part);
        assert_eq!(json["data"]["rejected"]["hunk"], Value::Null);
        assert_eq!(json["data"]["state"], "complete");
    }
    assert_eq!(paths(&environment, &plan), ["cart.txt"]);
    let why = environment.run(&["plan", "tree", &plan]).succeeded();
    assert_eq!(why.stdout.matches(REASON[1]).count(), 3, "{why:?}");
    let log = environment.run(&["plan", "log", &plan]).succeeded();
    assert_eq!(log.stdout.matches("change_rejected").count(), 3, "{log:?}");
    environment.run(&["plan", "verify", &plan]).succeeded();
    environment
        .run(&["plan", "apply", &plan, "--yes"])
        .succeeded();
    run_script(
        &environment,
        "cd shop && test ! -e docs && test ! -e kept && test -e 'old name.txt' && \
         grep -q Caf menu.txt && grep -q 'third line' cart.txt && \
         test \"$(git show --format= --name-only HEAD)\" = cart.txt",
    );
    let late = environment.run(&[&["plan", "reject", &plan, "cart.txt"], &REASON[..]].concat());
    assert_eq!(late.code, Some(4), "{late:?}");
    assert!(late.stderr.contains("is at apply/applied"), "{late:?}");
}

#[test]
fn one_hunk_is_rejected_and_the_other_kept() {
    let mut environment = TestEnvironment::new();
    let plan = create_executed_plan(&mut environment);
    let json = reject(&environment, &plan, "cart.txt:1");
    assert_eq!(json["data"]["rejected"]["hunk"], 1);
    let left = patch(&environment, &plan, "cart.txt");
    assert!(
        left.contains("+last line but two") && !left.contains("third"),
        "{left}"
    );
    reject(&environment, &plan, "cart.txt:1");
    assert!(!paths(&environment, &plan).contains(&"cart.txt".to_owned()));
    // The only hunk of a new file is the whole file.
    let json = reject(&environment, &plan, "docs/notes.md:1");
    assert_eq!(json["data"]["rejected"]["hunk"], Value::Null);
    assert_eq!(
        paths(&environment, &plan),
        ["kept/new name.txt", "menu.txt"]
    );
}

#[test]
fn a_rejection_is_undone_by_rollback() {
    let mut environment = TestEnvironment::new();
    let plan = create_executed_plan(&mut environment);
    let before = patch(&environment, &plan, "cart.txt");
    let json = reject(&environment, &plan, "cart.txt:2");
    let number = json["data"]["undo"]["number"].to_string();
    environment
        .run(&["plan", "rollback", &plan, &number, "--yes"])
        .succeeded();
    assert_eq!(patch(&environment, &plan, "cart.txt"), before);
    execute_until_done(&environment, &plan).succeeded();
    assert_eq!(patch(&environment, &plan, "cart.txt"), before);
    assert_eq!(paths(&environment, &plan).len(), 4);
    environment.run(&["plan", "verify", &plan]).succeeded();
}

#[test]
fn the_remaining_changes_are_validated_again() {
    let mut environment = TestEnvironment::new();
    let plan = create_checked_plan(&mut environment);
    let json = reject(&environment, &plan, "cart.txt:1");
    assert_eq!(json["data"]["validation"]["required_passed"], 1);
    let json = reject(&environment, &plan, "docs/notes.md");
    assert_eq!(json["status"], "warn");
    assert_eq!(json["data"]["validation"]["required_failed"], 1);
    let apply = environment.run(&["plan", "apply", &plan, "--yes"]);
    assert_ne!(apply.code, Some(0), "{apply:?}");
    run_script(
        &environment,
        "git -C shop diff --quiet HEAD && test ! -e shop/docs",
    );
    // Parts can still be rejected in this state.
    reject(&environment, &plan, "menu.txt");
}

#[test]
fn an_invalid_rejection_is_refused() {
    let mut environment = TestEnvironment::new();
    let plan = create_executed_plan(&mut environment);
    let plan = plan.as_str();
    for (part, more, code, said) in [
        ("cart.txt:0", &REASON[..], 2, "has no hunk 0"),
        ("cart.txt:3", &REASON, 2, "it has 2, counted from 1"),
        ("cart.txt:99999999999", &REASON, 2, "has no hunk"),
        ("kept/new name.txt:1", &REASON, 2, "it has none"),
        ("crat.txt", &REASON, 3, "did you mean cart.txt?"),
        ("docs", &REASON, 3, "did not change"),
        ("../cart.txt", &REASON, 3, "did not change"),
        ("cart.txt", &["--why", "  "], 2, "needs a reason"),
        ("cart.txt", &[], 2, "--why"),
        (
            "cart.txt",
            &["--why", "x", "--resource", "bank"],
            3,
            "it has local/shop",
        ),
        (
            "cart.txt",
            &["--why", "x", "--resource", "a b"],
            2,
            "cannot be the name",
        ),
    ] {
        let run = environment.run(&[&["plan", "reject", plan, part], more].concat());
        assert_eq!(run.code, Some(code), "{part} {more:?}: {run:?}");
        assert!(run.stderr.contains(said), "{part} {more:?}: {run:?}");
    }
    assert_eq!(paths(&environment, plan).len(), 4, "nothing was changed");
    let unknown = environment.run(&[&["plan", "reject", "0000", "x"], &REASON[..]].concat());
    assert_eq!(unknown.code, Some(3), "{unknown:?}");
    environment.run(&["plan", "cancel", plan]).succeeded();
    let late = environment.run(&[&["plan", "reject", plan, "cart.txt"], &REASON[..]].concat());
    assert_eq!(late.code, Some(4), "{late:?}");
}
