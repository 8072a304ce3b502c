//! Invalid definitions and names: each is refused with its position, and nothing is stored.

use crate::cases::{profile, small_action};
use crate::environment::{CliRun, TestEnvironment};

/// Asserts that a refusal has a message, a cause and a hint, and is short.
#[track_caller]
pub(crate) fn assert_refused(run: &CliRun, code: i32, parts: &[&str]) {
    assert_eq!(run.code, Some(code), "{run:?}");
    assert_eq!(run.stdout, "");
    assert!(!run.stderr.contains("a bug in agents"), "{run:?}");
    assert!(!run.stderr.contains('\x1b'), "{run:?}");
    assert!(run.stderr.len() < 8000, "an error must be readable");
    for part in parts {
        assert!(run.stderr.contains(part), "no {part:?} in {}", run.stderr);
    }
}

/// Invalid action definitions, each with the expected messages.
fn invalid_actions() -> Vec<(String, Vec<&'static str>)> {
    let with = |more: &str| small_action("local/x") + more;
    let nested = format!("{}x{}", "[".repeat(10_000), "]".repeat(10_000));
    let bomb: String = (0..30)
        .map(|n| format!("a{n}: &a{n} [*a{}, *a{}]\n", n - 1, n - 1))
        .collect();
    vec![
        (String::new(), vec![":1:1: "]),
        ("[1, 2]".to_owned(), vec![":1:1: "]),
        ("name: [".to_owned(), vec!["bad.yaml:1:"]),
        (format!("a-1: &a-1 [x]\n{bomb}"), vec!["bad.yaml:", "alias"]),
        (format!("name: {nested}\n"), vec!["bad.yaml:1:", "deep"]),
        ("#".repeat(2 << 20), vec![":1:1: ", "1048576"]),
        (with("inputs_schema: {}\n"), vec!["bad.yaml:6:1: "]),
        (
            with("reusabel: true\n"),
            vec!["bad.yaml:6:1: ", "`reusable`"],
        ),
        (with("name: again\n"), vec!["bad.yaml:6:1: ", "name"]),
        (with("read_only: perhaps\n"), vec!["bad.yaml:6:12: "]),
        (with("state: asleep\n"), vec!["bad.yaml:6:8: ", "available"]),
        (with("version: 2\n"), vec!["version 2", "newer"]),
        (
            small_action("../../etc/passwd"),
            vec!["bad.yaml:1:7: ", "`.`"],
        ),
        (small_action("a b"), vec!["bad.yaml:1:7: ", "` `"]),
        (
            small_action("\"a\\x1b[31m\""),
            vec!["bad.yaml:1:7: ", "control character"],
        ),
        (small_action("x\u{9b}"), vec!["bad.yaml:1:8: ", "U+009B"]),
        (
            small_action("${NOBODY_SET_THIS}"),
            vec!["bad.yaml:1:7: ", "NOBODY_SET_THIS"],
        ),
        (small_action("${SET}"), vec!["bad.yaml:1:7: ", "` `"]),
        (with("automation_profile: a b\n"), vec!["bad.yaml:6:21: "]),
        (with("budget: {usd: -1}\n"), vec!["bad.yaml:6:15: "]),
        (
            with("arguments: [{name: x, type: integer, default: y}]\n"),
            vec!["bad.yaml:6:47: "],
        ),
        (
            with("arguments: [{name: x, type: string, pattern: '('}]\n"),
            vec!["bad.yaml:6:", "unclosed group"],
        ),
        (
            with("invariants: ['{{ args.nothing }}']\n"),
            vec!["bad.yaml:6:", "nothing"],
        ),
    ]
}

#[test]
fn invalid_actions_are_refused_with_their_position() {
    let mut environment = TestEnvironment::new();
    environment.set_variable("SET", "two words");
    for (text, parts) in invalid_actions() {
        environment.write("work/bad.yaml", &text);
        let parts = [&parts[..], &["\n  why: ", "\n  next: "]].concat();
        assert_refused(
            &environment.run(&["action", "validate", "bad.yaml"]),
            2,
            &parts,
        );
        // Refused before the data directory is created.
        assert!(!environment.path(".cleveragents").exists());
    }
    for (text, parts) in invalid_actions() {
        environment.write("work/bad.yaml", &text);
        let create = ["action", "create", "--config", "bad.yaml", "--update"];
        assert_refused(&environment.run(&create), 2, &parts);
        let json = environment
            .run(&["action", "validate", "bad.yaml", "-f", "json"])
            .json();
        let problem = &json["data"]["problems"][0];
        assert_eq!(problem["file"], "bad.yaml");
        assert!(problem["line"].as_u64() >= Some(1) && problem["column"].as_u64() >= Some(1));
        assert!(!problem["message"].as_str().unwrap().is_empty());
    }
    let listed = environment
        .run(&["action", "list", "-f", "json"])
        .succeeded();
    assert_eq!(listed.json()["data"]["summary"]["total"], 0);
}

#[test]
fn every_problem_is_reported_and_counted() {
    let environment = TestEnvironment::new();
    let arguments = (0..40).map(|n| format!("  - {{name: a{n}, type: nothing}}\n"));
    let text = small_action("local/x") + "arguments:\n" + &arguments.collect::<String>();
    environment.write("work/bad.yaml", text);
    let run = environment.run(&["action", "validate", "bad.yaml"]);
    assert_refused(&run, 2, &["bad.yaml has 40 problems", "and 20 more"]);
    let json = environment
        .run(&["action", "validate", "bad.yaml", "-f", "json"])
        .json();
    assert_eq!(json["data"]["problems"].as_array().unwrap().len(), 40);
    assert_eq!(json["exit_code"], 2);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let environment = TestEnvironment::new();
    for (path, parts) in [
        ("none.yaml", &["cannot read none.yaml", "No such file"][..]),
        (".", &["cannot read .", "directory"]),
        ("", &["FILE"]),
    ] {
        let run = environment.run(&["action", "validate", path]);
        assert_refused(&run, 2, parts);
        let run = environment.run(&["action", "create", "--config", path]);
        assert_refused(&run, 2, parts);
    }
    let endless = environment.run(&["action", "validate", "/dev/zero"]);
    assert_refused(&endless, 2, &["1048576"]);
    environment.write("work/latin.yaml", b"name: \xff\n");
    let run = environment.run(&["action", "validate", "latin.yaml"]);
    assert_refused(&run, 2, &["latin.yaml:1:7: the file is not UTF-8 text"]);
}

#[test]
fn standard_input_and_variables_are_read() {
    let mut environment = TestEnvironment::new();
    environment.set_variable("WHO", "team");
    let text = small_action("${WHO}/from-${NOT_SET:default}");
    let create = ["action", "create", "--config", "-", "-f", "json"];
    let run = environment
        .run_with_input(&create, text.as_bytes())
        .succeeded();
    assert_eq!(run.json()["data"]["name"], "team/from-default");
    let again = environment.run_with_input(&create, text.as_bytes());
    assert_eq!(again.code, Some(4));
    assert_eq!(again.json()["data"]["error"]["kind"], "taken");
    let bad = environment.run_with_input(&["action", "validate", "-"], b"x");
    assert_refused(&bad, 2, &["standard input:1:1"]);
}

#[test]
fn invalid_names_are_refused() {
    let environment = TestEnvironment::new();
    let long = "x".repeat(101);
    for name in [
        "",
        "a b",
        "../x",
        "a/../b",
        "a\x1b[2Jb",
        "a/b/c",
        "ü",
        &long,
    ] {
        for command in [&["action", "show", name][..], &["action", "archive", name]] {
            assert_refused(&environment.run(command), 2, &["error: "]);
        }
    }
    for arguments in [
        &["action", "list", "("][..],
        &["action", "list", "--state", "asleep"],
        &["action", "list", "--limit", "-1"],
        &["action", "list", "--limit", "many"],
        &["action", "create"],
        &["action"],
    ] {
        assert_eq!(environment.run(arguments).code, Some(2), "{arguments:?}");
    }
    assert!(!environment.path(".cleveragents").exists());
}

#[test]
fn invalid_profiles_are_refused_with_their_position() {
    let environment = TestEnvironment::new();
    let good = profile("local/x");
    let nested = format!("{}x{}", "[".repeat(10_000), "]".repeat(10_000));
    for (text, parts) in [
        (String::new(), &["bad.yaml:1:1: "][..]),
        (format!("name: {nested}"), &["bad.yaml:1:", "deep"]),
        ("#".repeat(2 << 20), &["1048576"]),
        (profile("a b"), &["bad.yaml:1:7: ", "` `"]),
        (profile("../x"), &["bad.yaml:1:7: ", "`.`"]),
        (
            profile("${NOBODY_SET_THIS}"),
            &["bad.yaml:1:7: ", "NOBODY_SET_THIS"],
        ),
        (
            good.replace("edit_code: 0.25", "edit_code: 1.01"),
            &["bad.yaml:7:14: ", "1.01"],
        ),
        (
            good.replace("edit_code: 0.25", "edit_code: .nan"),
            &["bad.yaml:7:14: "],
        ),
        (
            good.replace("edit_code: 0.25", "edit_code: yes"),
            &["bad.yaml:7:14: "],
        ),
        (good.replace("guards", "gards"), &["`gards`", "`guards`"]),
        (
            good.replace("require_sandbox: true\n", ""),
            &["`require_sandbox` is missing"],
        ),
        (
            good.clone() + "safety: {}\n",
            &["`safety` is not supported"],
        ),
        (good.clone() + "version: 9\n", &["version 9"]),
        (good.clone() + "name: twice\n", &["name"]),
    ] {
        environment.write("work/bad.yaml", &text);
        let add = [
            "automation-profile",
            "add",
            "--config",
            "bad.yaml",
            "--update",
        ];
        let parts = [parts, &["\n  why: ", "\n  next: "]].concat();
        assert_refused(&environment.run(&add), 2, &parts);
        assert!(!environment.path(".cleveragents/cleveragents.db").exists());
    }
    let manual = profile("manual");
    for update in [&[][..], &["--update"]] {
        let add = [&["automation-profile", "add", "--config", "-"], update].concat();
        let run = environment.run_with_input(&add, manual.as_bytes());
        assert_refused(&run, 4, &["manual is a built-in profile"]);
    }
    for name in ["", "a b", "../x", "a\x1b[2Jb"] {
        let run = environment.run(&["automation-profile", "show", name]);
        assert_refused(&run, 2, &["error: "]);
    }
}
