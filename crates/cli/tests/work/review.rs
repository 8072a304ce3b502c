//! The question after the work of `agents run`, questions of models, and Ctrl-C at questions.

use rustix::process::{Pid, Signal, kill_process};

use crate::models::{finish, messages_text, strategy, turn};
use crate::run_command::{read_to_end, read_until_prompt, run_on_terminal, start_on_terminal};
use crate::world::{TestWorld, short_id};

const EDIT: &str = "- {tool: builtin/file-write, input: {path: made, content: made}}\n";

/// Runs on a terminal with a model that takes these turns; returns the exit code and the output.
fn run_with_replies(turns: &[String], replies: &str) -> (TestWorld, Option<i32>, String) {
    run_with_options(turns, &[], replies)
}

fn run_with_options(
    turns: &[String],
    options: &[&str],
    replies: &str,
) -> (TestWorld, Option<i32>, String) {
    let world = TestWorld::empty();
    world.create_repository("shop");
    world.define_llm_actor("coder", &turns.concat(), "");
    let path = world.path("shop").display().to_string();
    let words = [
        "run",
        "make it",
        "--strategy-actor",
        "local/coder",
        "--execution-actor",
        "local/coder",
        "--path",
        &path,
    ];
    let words = [&words[..], options].concat();
    let (code, output) = run_on_terminal(&world, &words, replies);
    (world, code, output)
}

fn newest_plan(world: &TestWorld) -> String {
    let plans = world.json_data(&["plan", "list"]);
    plans["plans"][0]["plan_id"].as_str().unwrap().to_owned()
}

fn write(path: &str, content: &str) -> String {
    let input = format!("{{path: {path}, content: \"{content}\"}}");
    turn(&[("file-write", &input)])
}

#[test]
fn feedback_leads_to_another_attempt_and_the_same_question() {
    let turns = [
        strategy(&["Write it"]),
        write("new", "one\\n"),
        finish("It is made"),
        strategy(&["Write it again"]),
        write("new", "two\\n"),
        finish("It is made again"),
    ];
    let replies = "f\nwrite two instead\ny\n";
    let (world, code, output) = run_with_replies(&turns, replies);
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(world.read("shop/new"), "two\n");
    assert_eq!(output.matches("[y/N]").count(), 2, "{output}");
    let calls = world.model_calls(&newest_plan(&world));
    assert!(!messages_text(&calls[0]).contains("write two instead"));
    assert!(messages_text(&calls[3]).contains("write two instead"));
}

#[test]
fn files_can_be_rejected_and_the_rest_applied_to_a_branch() {
    let turns = [
        strategy(&["Write it"]),
        write("apple", "one\\n"),
        write("berry", "two\\n"),
        finish("It is made"),
    ];
    let (world, code, output) = run_with_replies(&turns, "r\n1 none\nno apples\nb\n\n");
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("apple rejected"), "{output}");
    assert!(output.contains("none not rejected"), "{output}");
    let plan = newest_plan(&world);
    let branch = format!("agents/{}", short_id(&plan));
    let files = world.git(&world.path("shop"), &["ls-tree", "--name-only", &branch]);
    assert!(
        files.contains("berry") && !files.contains("apple"),
        "{files}"
    );
    assert_eq!(world.commits("shop"), 1);
}

#[test]
fn a_long_diff_waits_for_the_pager() {
    let content = "line\\n".repeat(100);
    let turns = [
        strategy(&["Write it"]),
        write("new", &content),
        finish("Done"),
    ];
    let (_, code, output) = run_with_replies(&turns, "n\n");
    assert_eq!(code, Some(5), "{output}");
    assert!(output.contains("lines: s shows it"), "{output}");
    assert!(!output.contains("+line"), "{output}");
    let (_, code, output) = run_with_replies(&turns, "s\nn\n");
    assert_eq!(code, Some(5), "{output}");
    assert_eq!(output.matches("+line").count(), 100, "{output}");
}

#[test]
fn a_question_of_the_model_is_asked_on_the_terminal() {
    let turns = [
        strategy(&["Write it"]),
        turn(&[("ask-user", "{question: 'Which colour?'}")]),
        write("new", "blue\\n"),
        finish("It is blue"),
    ];
    let (world, code, output) = run_with_replies(&turns, "blue as the sea\ny\n");
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("Which colour?\r\nYour answer"), "{output}");
    let calls = world.model_calls(&newest_plan(&world));
    assert!(messages_text(&calls[2]).contains("blue as the sea"));
    assert_eq!(world.commits("shop"), 2);
    // Later.
    let (world, code, output) = run_with_replies(&turns, "\n");
    assert_eq!(code, Some(5), "{output}");
    let plan = newest_plan(&world);
    world.assert_waiting_for(&plan, "answer");
    // The question is older than the command that asks it.
    let (code, output) = run_on_terminal(&world, &["plan", "resume", &plan], "green\ny\n");
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("Which colour?\r\nYour answer"), "{output}");
    assert_eq!(world.commits("shop"), 2);
}

/// What belongs to the question is shown although the work is not.
#[test]
fn a_quiet_review_shows_what_it_asks_about() {
    let turns = [
        strategy(&["Write it"]),
        write("apple", "one\\n"),
        write("berry", "two\\n"),
        finish("It is made"),
    ];
    let (world, code, output) = run_with_options(&turns, &["-q"], "r\ncherry\nnone\nn\n");
    assert_eq!(code, Some(5), "{output}");
    for shown in ["2. berry +1 -0", "cherry not rejected: ", "2 files changed"] {
        assert!(output.contains(shown), "no `{shown}`: {output}");
    }
    assert!(!output.contains("step 1/1"), "{output}");
    assert_eq!(world.commits("shop"), 1);
}

#[test]
fn an_interrupt_at_the_question_of_apply_or_undo_returns_at_once() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    let interrupt = |words: &[&str]| {
        let (child, mut terminal) = start_on_terminal(&world, words);
        read_until_prompt(&mut terminal);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let (code, output) = read_to_end(child, terminal);
        assert_eq!(code, Some(130), "{words:?}: {output}");
        // The message begins on a line of its own.
        assert!(output.starts_with("\r\n"), "{words:?}: {output:?}");
    };
    interrupt(&["plan", "apply", &plan]);
    assert_eq!(world.state(&plan), "execute/complete");
    world.apply(&plan).succeeded();
    interrupt(&["plan", "unapply", &plan]);
    assert_eq!(world.state(&plan), "apply/applied");
}
