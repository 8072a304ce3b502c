//! What people see while a plan runs: its steps, the model's text, a line for each call.

use std::io::Read as _;

use crate::models::{finish, strategy, turn};
use crate::run_command::{run_on_terminal, start_on_terminal};
use crate::screen::screen_lines;
use crate::world::TestWorld;

/// A model that says something before it calls.
fn talking_turn(text: &str, calls: &[(&str, &str)]) -> String {
    turn(calls).replacen(
        "  - tool_calls:",
        &format!("  - text: {text}\n    tool_calls:"),
        1,
    )
}

fn world_with_coder(turns: &[String]) -> TestWorld {
    let world = TestWorld::empty();
    world.create_repository("shop");
    world.define_llm_actor("coder", &turns.concat(), "");
    world
}

fn words<'a>(path: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let run = [
        "run",
        "make it",
        "--strategy-actor",
        "local/coder",
        "--execution-actor",
        "local/coder",
        "--path",
        path,
    ];
    [&run[..], more].concat()
}

fn path_of(world: &TestWorld) -> String {
    world.path("shop").display().to_string()
}

/// Two steps: a new file and an edit of it, a command that succeeds and one that fails.
fn busy_turns() -> Vec<String> {
    vec![
        talking_turn(
            r#""I look at it first.\nThen I choose.""#,
            &[("file-list", "{}")],
        ),
        strategy(&["Write it", "Test it"]),
        turn(&[("file-write", "{path: new, content: \"one\\ntwo\\n\"}")]),
        turn(&[("file-edit", "{path: new, old: two, new: \"2\\n3\"}")]),
        finish("It is written"),
        turn(&[
            ("shell", "{command: echo fine}"),
            ("shell", "{command: exit 3}"),
        ]),
        finish("It is tested"),
    ]
}

/// Asserts that the texts begin lines, in this order.
#[track_caller]
fn assert_lines_in_order(text: &str, expected: &[&str]) {
    let mut lines = text.lines().map(str::trim_start);
    for each in expected {
        let found = lines.any(|line| line.starts_with(each));
        assert!(found, "`{each}` is missing or too early:\n{text}");
    }
}

const BUSY_LINES: [&str; 18] = [
    "plan ",
    "I look at it first.",
    "Then I choose.",
    "list .",
    "A plan (confidence 0.9)",
    "strategy",
    "1. Write it",
    "2. Test it",
    "step 1/2  Write it",
    "write new +2",
    "edit new +2 −1",
    "It is written",
    "step 2/2  Test it",
    "$ echo fine  ok ",
    "$ exit 3  exit 3, ",
    "It is tested",
    "new +3",
    "1 file changed, +3 −0",
];

#[test]
fn a_run_without_terminal_shows_its_work_on_stderr() {
    let world = world_with_coder(&busy_turns());
    let path = path_of(&world);
    let run = world.run(&words(&path, &[]));
    assert_eq!(run.code, Some(5), "{run:?}");
    assert_lines_in_order(&run.stderr, &BUSY_LINES);
    assert!(!run.stderr.contains('\u{1b}'), "{run:?}");
    assert!(!run.stdout.contains("step 1/2"), "{run:?}");
    // The next commands are at the end.
    let last = run.stderr.lines().last().unwrap();
    assert!(
        last.starts_with("next: ") && last.contains("agents plan "),
        "{run:?}"
    );
}

#[test]
fn a_quiet_run_says_nothing() {
    let world = world_with_coder(&busy_turns());
    let path = path_of(&world);
    let run = world.run(&words(&path, &["--yes", "--quiet"]));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
}

#[test]
fn a_run_with_events_shows_them_only() {
    let world = world_with_coder(&busy_turns());
    let path = path_of(&world);
    let run = world.run(&words(&path, &["--yes", "--events"]));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    for line in run.stdout.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn a_run_on_a_terminal_leaves_lines_above_one_status_line() {
    let world = world_with_coder(&busy_turns());
    let path = path_of(&world);
    let (code, output) = run_on_terminal(&world, &words(&path, &["--yes"]), "");
    assert_eq!(code, Some(0), "{output}");
    let lines = screen_lines(&output);
    assert_lines_in_order(&lines.join("\n"), &BUSY_LINES);
    // The status line was redrawn and is gone.
    assert!(output.contains("plan: "), "{output}");
    assert!(
        !lines.iter().any(|line| line.contains("plan: ")),
        "{lines:#?}"
    );
}

#[test]
fn text_of_a_model_cannot_reorder_the_terminal() {
    let hostile = r#""Look: \u202e back.""#;
    let turns = [
        talking_turn(hostile, &[("file-list", "{}")]),
        strategy(&["Write it"]),
        turn(&[("shell", r#"{command: "echo \u202e"}"#)]),
        finish("Done"),
    ];
    let world = world_with_coder(&turns);
    let path = path_of(&world);
    let (_, output) = run_on_terminal(&world, &words(&path, &["--yes"]), "");
    assert!(!output.contains('\u{202e}'), "{output:?}");
    assert!(output.contains("Look: \\u{202e} back."), "{output:?}");
    // In the line of the call, and in the status line while it runs.
    assert!(output.contains("$ echo \\u{202e}"), "{output:?}");
}

#[test]
fn the_plan_and_open_text_are_shown_before_the_model_has_answered() {
    // The second answer never arrives.
    let never = format!("{}    delay_ms: 80000000\n", finish("Never"));
    let world = world_with_coder(&[talking_turn("Open", &[("file-list", "{}")]), never]);
    let path = path_of(&world);
    let (mut child, mut terminal) = start_on_terminal(&world, &words(&path, &[]));
    let mut seen = Vec::new();
    let is_there = |seen: &[u8]| {
        let lines = screen_lines(&String::from_utf8_lossy(seen)).join("\n");
        lines.contains("plan ") && lines.contains("Open") && lines.contains("list .")
    };
    while !is_there(&seen) {
        let mut byte = [0];
        terminal.read_exact(&mut byte).unwrap();
        seen.extend(byte);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn failures_of_a_model_are_retries() {
    let fault = "  - fault: {kind: rate_limit}\n".to_owned();
    let world = world_with_coder(&[fault, strategy(&["Write it"]), finish("Done")]);
    let path = path_of(&world);
    let run = world.run(&words(&path, &["--yes"]));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("  retry 1/4 in "), "{run:?}");
}
