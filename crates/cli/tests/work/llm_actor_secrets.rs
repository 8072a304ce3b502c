//! Secrets: a resuming process need not know them, and they are not found in any stored file.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use crate::event_follower::{Follower, wait_until_true};
use crate::models::{finish, messages_text, strategy, turn};
use crate::world::{AgentsRun, TRUSTED, TestWorld};

const SECRET: &str = "sk-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c";

/// The key in the environment of a plan's first process, and of the one that resumes it.
const KEY_PAIRS: [(Option<&str>, Option<&str>); 4] = [
    (Some(SECRET), None),
    (Some(SECRET), Some("sk-00aa11bb22cc33dd44ee55ff66007711")),
    (None, Some(SECRET)),
    (Some(SECRET), Some(SECRET)),
];

/// Longer than any test runs.
const ENDLESS_DELAY: &str = "    delay_ms: 80000000\n";

/// Returns our program with this key in its environment.
fn command_with_key(world: &TestWorld, words: &[&str], key: Option<&str>) -> Command {
    let mut command = world.command(&[words, &["--format", "json"]].concat());
    key.iter().for_each(|key| {
        command.env("OPENAI_API_KEY", key);
    });
    command
}

/// Returns two commands that contain the secret; the second ends only when the test releases it.
fn commands_with_secret() -> [String; 2] {
    [
        format!("{{command: 'echo 1 {SECRET} >> log'}}"),
        format!(
            "{{command: 'echo 2 {SECRET} >> log; until test -e go; do sleep 0.05; done', \
             timeout: 600}}"
        ),
    ]
}

/// Kills the worker at its second command, and resumes with other secrets.
#[track_caller]
fn kill_and_resume(world: &TestWorld, (first, next): (Option<&str>, Option<&str>)) -> String {
    let plan = world.create_plan(TRUSTED);
    let mut follower = Follower::start(world, &plan);
    let mut child = command_with_key(world, &["plan", "execute", &plan], first);
    let mut child = child.spawn().unwrap();
    (0..2).for_each(|_| drop(follower.wait_for("process_started")));
    child.kill().unwrap();
    child.wait().unwrap();
    let child = command_with_key(world, &["plan", "resume", &plan], next).spawn();
    follower.wait_for("process_started");
    File::create(world.sandbox_tree(&plan).join("go")).unwrap();
    let run = AgentsRun::from_output(child.unwrap().wait_with_output().unwrap());
    run.succeeded().reports_state("execute/complete");
    plan
}

/// Asserts that the first command was kept and only the second was repeated.
#[track_caller]
fn assert_first_command_ran_once(world: &TestWorld, plan: &str, trial: &str) {
    let files = world.sandbox_files(plan);
    let log = &files["log"];
    assert_eq!(log.matches(SECRET).count(), log.matches("sk-").count());
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{trial}: {log}");
    assert_eq!(lines[0], format!("0 1 {SECRET}"), "{trial}");
    assert!(lines[1].starts_with("2 "), "{trial}: {log}");
    let shells = |kind: &str| {
        let events = world.events_of_kind(plan, kind).into_iter();
        events
            .filter(|it| !it.to_string().contains("builtin/finish"))
            .count()
    };
    assert_eq!(shells("tool_invoked"), 3, "{trial}");
    assert_eq!(shells("tool_interrupted"), 1, "{trial}");
}

#[test]
fn a_confirmed_call_counts_without_its_secrets() {
    let world = TestWorld::new();
    let [first, second] = commands_with_secret();
    world.define_worker(&format!(
        "- {{tool: builtin/shell, input: {first}}}\n- {{tool: builtin/shell, input: {second}}}\n"
    ));
    world.define_worker_job("");
    for known in KEY_PAIRS {
        let plan = kill_and_resume(&world, known);
        assert_first_command_ran_once(&world, &plan, &format!("{known:?}"));
    }
}

#[test]
fn a_confirmed_model_call_counts_without_its_secrets() {
    let world = TestWorld::new();
    let [first, second] = commands_with_secret();
    let calls = turn(&[("shell", first.as_str()), ("shell", second.as_str())]);
    world.define_llm_actor("coder", &[calls, finish("Done")].concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    for known in [(None, None), (None, Some(SECRET))] {
        let plan = kill_and_resume(&world, known);
        assert_first_command_ran_once(&world, &plan, &format!("{known:?}"));
        assert_eq!(world.model_call_states(&plan), ["answered"; 2], "{known:?}");
    }

    // The same if all calls are confirmed and the next answer never arrived.
    let calls = turn(&[("shell", first.as_str())]);
    let never = format!("{}{ENDLESS_DELAY}", finish("Never"));
    world.define_llm_actor("coder", &[calls, never, finish("Done")].concat(), "");
    for (first, next) in KEY_PAIRS {
        let plan = world.create_plan(TRUSTED);
        let mut follower = Follower::start(&world, &plan);
        let mut child = command_with_key(&world, &["plan", "execute", &plan], first);
        let mut child = child.spawn().unwrap();
        (0..2).for_each(|_| drop(follower.wait_for("model_asked")));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut resume = command_with_key(&world, &["plan", "resume", &plan], next);
        let run = AgentsRun::from_output(resume.output().unwrap());
        run.succeeded().reports_state("execute/complete");
        let log = &world.sandbox_files(&plan)["log"];
        assert_eq!(*log, format!("0 1 {SECRET}\n"), "{first:?} {next:?}");
        let ends = world.model_call_states(&plan);
        assert_eq!(ends, ["answered", "interrupted", "answered"]);
    }
}

/// A started call is stored with a mask. It is then unknown whether the model wrote the secret or
/// the mask, so the call is not repeated and the model is informed.
#[test]
fn a_command_stored_with_a_mask_is_not_repeated() {
    let world = TestWorld::new();
    let [first, second] = commands_with_secret();
    let calls = turn(&[("shell", first.as_str()), ("shell", second.as_str())]);
    world.define_llm_actor("coder", &[calls, finish("Done")].concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    for (known, next) in [KEY_PAIRS[0], KEY_PAIRS[1], KEY_PAIRS[3]] {
        let plan = world.create_plan(TRUSTED);
        let mut follower = Follower::start(&world, &plan);
        let mut child = command_with_key(&world, &["plan", "execute", &plan], known);
        let mut child = child.spawn().unwrap();
        (0..2).for_each(|_| drop(follower.wait_for("process_started")));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut resume = command_with_key(&world, &["plan", "resume", &plan], next);
        let run = AgentsRun::from_output(resume.output().unwrap());
        run.succeeded().reports_state("execute/complete");
        assert_eq!(world.sandbox_files(&plan)["log"], format!("0 1 {SECRET}\n"));
        assert_eq!(
            world.events_of_kind(&plan, "tool_refused").len(),
            1,
            "{next:?}"
        );
        let said = messages_text(world.model_calls(&plan).last().unwrap());
        assert!(said.contains("represents a secret"), "{said}");
    }
}

#[test]
fn a_call_with_outside_effects_needs_approval_without_secrets() {
    let world = TestWorld::new();
    world
        .run(&["config", "set", "sandbox.network", "allow"])
        .succeeded();
    let call = format!("{{command: 'echo 1 {SECRET} >> log; sleep 31536300', timeout: 30}}");
    world.define_worker(&format!("- {{tool: builtin/shell, input: {call}}}\n"));
    world.define_worker_job("");
    let turns = [turn(&[("shell", call.as_str())]), finish("Done")];
    world.define_llm_actor("coder", &turns.concat(), "");
    for (known, actor) in [(KEY_PAIRS[0], "worker"), (KEY_PAIRS[2], "coder")] {
        world.define_llm_job("builtin/direct", &format!("local/{actor}"), "");
        let plan = world.create_plan(TRUSTED);
        let mut follower = Follower::start(&world, &plan);
        let mut child = command_with_key(&world, &["plan", "execute", &plan], known.0);
        let mut child = child.spawn().unwrap();
        follower.wait_for("process_started");
        wait_until_true("the command sleeps", || {
            crate::event_follower::is_process_running("31536300")
        });
        child.kill().unwrap();
        child.wait().unwrap();
        for word in ["resume", "resume"] {
            let mut next = command_with_key(&world, &["plan", word, &plan], known.1);
            let run = AgentsRun::from_output(next.output().unwrap()).exits(5);
            run.reports_state("execute/queued")
                .prints("was interrupted");
            world.assert_waiting_for(&plan, "approval");
        }
        assert_eq!(
            world.events_of_kind(&plan, "tool_invoked").len(),
            1,
            "{actor}"
        );
        assert_eq!(
            world.events_of_kind(&plan, "process_started").len(),
            1,
            "{actor}"
        );
        // The user's approval repeats it once.
        let mut next = command_with_key(&world, &["plan", "execute", &plan], known.1);
        let mut next = next.spawn().unwrap();
        follower.wait_for("process_started");
        next.kill().unwrap();
        next.wait().unwrap();
        assert_eq!(
            world.events_of_kind(&plan, "process_started").len(),
            2,
            "{actor}"
        );
    }
}

/// Finds the files below a folder that contain this text. Skips sandbox trees and the settings,
/// which hold the user's own content.
pub(crate) fn find_files_with_text(folder: &Path, text: &str, found: &mut Vec<String>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_symlink() || name == "tree" || name == "config.toml" {
            continue;
        }
        if path.is_dir() {
            find_files_with_text(&path, text, found);
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        if bytes.windows(text.len()).any(|it| it == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
}

/// Turns in which tools and the model output the secret in every possible way.
fn turns_with_secret() -> String {
    let fail = "{command: 'cat notes >&2; base64 -w0 notes; exit 3'}";
    let said = format!("{{summary: 'I have seen {SECRET}'}}");
    let unknown = format!("  - tool_calls: [{{tool: 'x {SECRET}', input: {{}}}}]\n");
    let decision = format!("{{question: Which?, chosen: '{SECRET}'}}");
    [
        turn(&[("file-read", "{path: notes}")]),
        strategy(&[&format!("Use {SECRET}")]),
        turn(&[
            ("file-read", "{path: notes}"),
            ("shell", "{command: 'cat notes'}"),
            ("file-search", "{pattern: 'the key'}"),
            ("record-decision", decision.as_str()),
        ]),
        unknown,
        turn(&[("shell", fail)]),
        turn(&[("file-read", &format!("{{path: '{SECRET}'}}"))]),
        turn(&[("finish", said.as_str())]),
        turn(&[("shell", "{command: 'touch mended'}")]),
        finish("Mended"),
    ]
    .concat()
}

#[test]
fn a_key_in_the_settings_is_stored_nowhere_else() {
    let world = TestWorld::new();
    world
        .run(&["config", "set", "provider.openai.api-key", SECRET])
        .succeeded();
    world
        .run(&["config", "set", "core.log-level", "trace"])
        .succeeded();
    world.write("shop/notes", &format!("the key is {SECRET}\n"));
    world.write(
        "shop/.agents/skills/bake/SKILL.md",
        &format!("---\nname: bake\ndescription: Needs {SECRET}\n---\nWith {SECRET}.\n"),
    );
    world.write("shop/AGENTS.md", &format!("Use {SECRET} for tests.\n"));
    world.commit("shop", "notes");
    world.define_llm_actor("coder", &turns_with_secret(), "");
    let more = "checks: [{run: 'cat notes; test -e mended'}]\n";
    world.define_llm_job("local/coder", "local/coder", more);
    let plan = world.create_plan(TRUSTED);
    let words = format!("The key is {SECRET}, mind it");
    let prompted = world
        .run_json(&["plan", "prompt", &plan, &words])
        .succeeded();
    assert!(!prompted.stdout.contains(SECRET), "{prompted:?}");
    let run = world.run(&["plan", "execute", &plan, "--events", "-vv"]);
    let run = run.succeeded();
    assert!(!run.stdout.contains(SECRET), "{}", run.stdout);
    assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    let model_calls = world.model_calls(&plan);
    assert_eq!(model_calls.len(), 9);
    for request in &model_calls {
        let text = messages_text(request);
        assert!(!text.contains(SECRET), "{text}");
        assert!(text.contains("«secret:provider.openai.api-key»"), "{text}");
    }
    for verb in ["status", "log", "tree", "errors", "checkpoints", "diff"] {
        for format in ["json", "plain", "rich"] {
            let run = world.run(&["plan", verb, &plan, "--format", format]);
            assert!(!run.stdout.contains(SECRET), "{verb}: {}", run.stdout);
        }
    }
    // The secret inside the `base64` output of the file, where it is between other characters.
    let encoded = "00ZjlhOGI3YzZkNWU0ZjNhMmIxYzBkOWU4ZjdhNmI1";
    let mut found = Vec::new();
    for text in [SECRET, encoded] {
        find_files_with_text(&world.path("home/.cleveragents"), text, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn user_texts_are_stored_without_secrets() {
    let world = TestWorld::new();
    world
        .run(&["config", "set", "provider.openai.api-key", SECRET])
        .succeeded();
    world.write("shop/notes", "1\n");
    world.commit("shop", "notes");
    let write = turn(&[("shell", "{command: 'echo 1 > new; echo 2 > other'}")]);
    let once = [strategy(&["One"]), write, finish("Done")].concat();
    world.define_llm_actor("coder", &once.repeat(3), "");
    let more = "arguments: [{name: key, type: string, required: true}]\n";
    world.define_llm_job("local/coder", "local/coder", more);
    let words = format!("The key is {SECRET}");
    world.json_data(&["project", "create", "ruled", "--invariant", &words]);
    let argument = format!("key={SECRET}");
    let more = ["--arg", &argument, "--invariant", &words];
    let plan = world.create_plan_for("shop", TRUSTED, &more);
    world.json_data(&["plan", "execute", &plan]);
    world.json_data(&["plan", "reject", &plan, "new", "--why", &words]);
    let tree = world.json_data(&["plan", "tree", &plan]);
    let decision = tree["decision_ids"]["strategy"].as_str().unwrap();
    let correct = ["plan", "correct", "--mode", "revert", "-g", &words];
    world.json_data(&[&correct[..], &[decision, "--yes"]].concat());
    world.json_data(&["plan", "execute", &plan]);
    world.json_data(&["plan", "revert", &plan, "--reason", &words]);
    world.json_data(&["invariant", "add", &words, "--plan", &plan]);
    world.json_data(&["plan", "prompt", &plan, &words]);
    world.json_data(&["plan", "execute", &plan]);
    world.json_data(&["plan", "cancel", &plan, "--reason", &words]);
    world.json_data(&[
        "plan",
        "purge",
        &plan,
        "--from-seq",
        "2",
        "--to-seq",
        "2",
        "--reason",
        &words,
        "--yes",
    ]);
    for request in world.model_calls(&plan) {
        let text = messages_text(&request);
        assert!(!text.contains(SECRET), "{text}");
        assert!(text.contains("«secret:provider.openai.api-key»"), "{text}");
    }
    let mut found = Vec::new();
    find_files_with_text(&world.path("home/.cleveragents"), SECRET, &mut found);
    assert_eq!(found, Vec::<String>::new());
}
