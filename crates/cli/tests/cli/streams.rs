//! Output to stdout and stderr, and behaviour when the reader is gone.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};

use crate::environment::{CliRun, TestEnvironment};

#[test]
fn a_closed_pipe_is_no_error() {
    let environment = TestEnvironment::new();
    for arguments in [
        &["completions", "zsh"][..],
        &["config", "list", "-f", "json"],
        &["--help"],
    ] {
        let mut child = environment.start(arguments);
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::with_capacity(1, stdout)
            .read_line(&mut line)
            .unwrap();
        let run = CliRun::from_output(child.wait_with_output().unwrap()).succeeded();
        assert_eq!(run.stderr, "", "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_reported() {
    let environment = TestEnvironment::new();
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
        return;
    };
    let output = environment.command(&["version"]).stdout(full).output();
    let run = CliRun::from_output(output.unwrap());
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("cannot write the answer"), "{run:?}");
}

#[test]
fn messages_go_to_stderr_and_quiet_silences_them() {
    let environment = TestEnvironment::new();
    let set = ["config", "set", "plan.concurrency", "2"];
    let run = environment.run(&set).succeeded();
    assert_eq!(run.stderr, "plan.concurrency set\n");
    assert!(run.stdout.starts_with("key: plan.concurrency\nvalue: 2\n"));
    let run = environment.run(&[&set[..], &["-q"]].concat()).succeeded();
    assert_eq!(run.stderr, "");
}

#[test]
fn help_goes_to_stdout_and_errors_to_stderr() {
    let environment = TestEnvironment::new();
    let run = environment.run(&["config", "set", "--help"]).succeeded();
    assert!(run.stdout.contains("Examples:"));
    assert_eq!(run.stderr, "");
    let run = environment.run(&["confg"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    assert!(run.stderr.contains("'config'"), "{}", run.stderr);
    let run = environment.run::<&str>(&[]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    assert!(run.stderr.contains("Usage:"), "{}", run.stderr);
}

#[test]
fn unknown_variables_are_logged_not_refused() {
    let mut environment = TestEnvironment::new();
    environment.set_variable("CLEVERAGENTS_FORMATT", "json");
    let run = environment.run(&["config", "list"]).succeeded();
    let hint = "did you mean CLEVERAGENTS_FORMAT?";
    assert!(run.stderr.contains(hint), "{}", run.stderr);
    let run = environment.run(&["config", "list", "-q"]).succeeded();
    assert_eq!(run.stderr, "");
}

#[test]
fn the_format_comes_from_flag_then_variable_then_setting() {
    let mut environment = TestEnvironment::new();
    let get = ["config", "get", "plan.concurrency"];
    environment.write(".cleveragents/config.toml", "core.format = \"yaml\"\n");
    let stdout = |environment: &TestEnvironment, more: &[&str]| {
        environment
            .run(&[&get[..], more].concat())
            .succeeded()
            .stdout
    };
    assert!(stdout(&environment, &[]).starts_with("command: config get\n"));
    environment.set_variable("CLEVERAGENTS_FORMAT", "json");
    assert!(stdout(&environment, &[]).starts_with('{'));
    assert!(stdout(&environment, &["-f", "plain"]).starts_with("key: "));
    assert!(stdout(&environment, &["--set", "core.format=table"]).starts_with("Setting\n+-"));
}
