//! `agents run`: the whole way in one command, with and without somebody to ask.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::following::Follower;
use crate::models::{finish, strategy, text_of, turn};
use crate::world::{Run, World};

/// Somebody who strategizes and works, in three turns.
fn coder(world: &World) {
    let turns = [
        strategy(&["Write it"]),
        turn(&[("file-write", "{path: new, content: \"made\\n\"}")]),
        finish("It is made"),
    ];
    world.thinker("coder", &turns.concat(), "");
}

/// The words of a run on the shop with the coder.
fn words<'a>(task: &'a [&'a str], more: &'a [&'a str], path: &'a str) -> Vec<&'a str> {
    let coder = [
        "--strategy-actor",
        "local/coder",
        "--execution-actor",
        "local/coder",
        "--path",
        path,
    ];
    [&["run"], task, &coder, more].concat()
}

fn shop(world: &World) -> String {
    world.path("shop").display().to_string()
}

/// A user with a repository that is no project yet.
fn newcomer() -> World {
    let world = World::empty();
    world.repository("shop");
    coder(&world);
    world
}

#[test]
fn words_become_a_change_that_is_applied_with_a_yes() {
    let world = newcomer();
    let path = shop(&world);
    let run = world.ask(&words(&["make it\nand well"], &["--yes"], &path));
    let run = run.succeeded().stands("apply/applied");
    let data = run.data();
    assert_eq!(data["action"], "builtin/do", "{data}");
    assert!(data["cost"]["tokens"].as_u64().unwrap() > 0, "{data}");
    assert_eq!(world.read("shop/new"), "made\n");
    assert_eq!(
        (world.commits("shop"), world.dirt("shop")),
        (2, String::new())
    );
    let plan = data["plan_id"].as_str().unwrap();
    let said = text_of(&world.asked(plan)[0]);
    assert!(said.contains("and well"), "{said}");
    // The folder is a project now, and stays the one it is.
    run.says("local/shop");
    let projects = world.data(&["project", "list"]);
    assert_eq!(projects["projects"].as_array().unwrap().len(), 1);
}

#[test]
fn nobody_to_ask_and_no_yes_stops_before_apply() {
    let world = newcomer();
    let path = shop(&world);
    let run = world
        .ask(&words(&["make it"], &[], &path))
        .exits(5)
        .stands("execute/complete");
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    run.says(&format!("agents plan apply {plan}"));
    assert_eq!(
        (world.commits("shop"), world.dirt("shop")),
        (1, String::new())
    );
    world.apply(&plan).succeeded();
    assert_eq!(world.read("shop/new"), "made\n");
}

#[test]
fn a_task_comes_from_the_line_a_file_or_standard_input() {
    let world = newcomer();
    let path = shop(&world);
    world.write("home/task.md", "Make it from a file\n");
    let run = world
        .ask(&words(&["--file", "task.md"], &[], &path))
        .exits(5);
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    assert!(text_of(&world.asked(&plan)[0]).contains("Make it from a file"));

    let arguments = words(&["-"], &["--format", "json"], &path);
    let mut child = world
        .command(&arguments)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"Make it from a pipe\n").unwrap();
    drop(input);
    let run = Run::of(child.wait_with_output().unwrap()).exits(5);
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    assert!(text_of(&world.asked(&plan)[0]).contains("Make it from a pipe"));

    world.write("home/binary.md", "Make\0it");
    for (task, code) in [
        (&["--file", "none.md"][..], 2),
        (&["--file", "binary.md"][..], 2),
        (&["-"][..], 2),
        (&[""][..], 2),
        (&["  "][..], 2),
        (&[][..], 2),
        (&["words", "--file", "task.md"][..], 2),
        (&["local/unknown"][..], 3),
        (&["make it", "--max-usd", "0"][..], 2),
        (&["make it", "--max-usd", "much"][..], 2),
        (&["make it", "--to", "nowhere"][..], 2),
        (&["make it", "--automation-profile", "nobody"][..], 3),
    ] {
        let run = world.ask(&words(task, &[], &path));
        assert_eq!(run.code, Some(code), "{task:?}: {run:?}");
    }
}

#[test]
fn without_those_who_are_to_work_nothing_is_left_behind() {
    let world = newcomer();
    let path = shop(&world);
    for (actors, code) in [
        (["builtin/direct", "local/nobody"], 3),
        (["local/nobody", "local/coder"], 3),
        (["builtin/direct", "builtin/coder"], 2),
        (["builtin/coder", "local/coder"], 2),
    ] {
        let [strategist, worker] = actors;
        let run = [
            "run",
            "make it",
            "--path",
            &path,
            "--strategy-actor",
            strategist,
        ];
        let run = world.ask(&[&run[..], &["--execution-actor", worker]].concat());
        assert_eq!(run.code, Some(code), "{actors:?}: {run:?}");
    }
    // Whoever is not named is the coder that is built in, and has no model either.
    let run = ["run", "make it", "--path", &path];
    for one in [
        ["--strategy-actor", "builtin/direct"],
        ["--execution-actor", "local/coder"],
    ] {
        world.ask(&[&run[..], &one].concat()).exits(2);
    }
    let plans = world.data(&["plan", "list"]);
    assert_eq!(plans["summary"]["total"], 0, "{plans}");
}

#[test]
fn a_name_is_an_action_if_there_is_one() {
    let world = newcomer();
    let path = shop(&world);
    world.thought_job("builtin/direct", "local/coder", "");
    world.thinker("coder", &finish("Nothing to do"), "");
    let run = world.ask(&["run", "local/job", "--path", &path]).exits(5);
    assert_eq!(run.data()["action"], "local/job");
    let run = world.ask(&["run", "job", "--path", &path]).exits(5);
    assert_eq!(run.data()["action"], "local/job");
}

#[test]
fn a_change_goes_where_it_is_told_to() {
    let world = newcomer();
    let path = shop(&world);
    let to = ["--yes", "--to", "branch", "agents/made"];
    world.ask(&words(&["make it"], &to, &path)).succeeded();
    let shown = world.git(&world.path("shop"), &["show", "agents/made:new"]);
    assert_eq!(shown, "made\n");
    assert_eq!(
        (world.commits("shop"), world.dirt("shop")),
        (1, String::new())
    );

    let to = ["--yes", "--to", "patch", "made.patch"];
    world.ask(&words(&["make it"], &to, &path)).succeeded();
    assert!(world.read("home/made.patch").contains("+made"));
    assert_eq!(
        (world.commits("shop"), world.dirt("shop")),
        (1, String::new())
    );
}

#[test]
fn the_same_key_is_the_same_plan() {
    let world = newcomer();
    let path = shop(&world);
    let more = ["--idempotency-key", "build-7", "--yes"];
    let once = world
        .ask(&words(&["make it"], &more, &path))
        .succeeded()
        .data();
    let again = world
        .ask(&words(&["make it"], &more, &path))
        .succeeded()
        .data();
    assert_eq!(once["plan_id"], again["plan_id"]);
    assert_eq!(again["state"], "applied", "{again}");
    assert_eq!(world.commits("shop"), 2);
    assert_eq!(world.asked(once["plan_id"].as_str().unwrap()).len(), 3);
    let other = world.ask(&words(&["make another"], &more, &path));
    assert_eq!(other.code, Some(4), "{other:?}");
}

#[test]
fn a_key_whose_plan_was_applied_does_nothing_again() {
    let world = newcomer();
    let path = shop(&world);
    let key = ["--idempotency-key", "build-7"];
    let once = [&key[..], &["--yes"]].concat();
    let once = words(&["make it"], &once, &path);
    let plan = world.ask(&once).succeeded().data()["plan_id"].clone();
    let plan = plan.as_str().unwrap();
    let before = world.events(plan);
    let head = world.git(&world.path("shop"), &["rev-parse", "HEAD"]);
    // What the user does since is the user's own.
    world.write("shop/new", "mine\n");
    for more in [&["--yes"][..], &[], &["--yes", "--to", "branch", "other"]] {
        let again = [&key[..], more].concat();
        let again = words(&["make it"], &again, &path);
        let run = world.ask(&again).succeeded().stands("apply/applied");
        assert_eq!(run.data()["plan_id"], plan, "{run:?}");
        // People are told which plan that is.
        let short = &plan[plan.len() - 8..];
        world.run(&again).succeeded().says(short);
    }
    assert_eq!(world.events(plan), before);
    assert_eq!(world.asked(plan).len(), 3);
    assert_eq!(world.data(&["plan", "list"])["summary"]["total"], 1);
    let now = world.git(&world.path("shop"), &["rev-parse", "HEAD"]);
    assert_eq!((now, world.read("shop/new")), (head, "mine\n".to_owned()));
    let branches = world.git(&world.path("shop"), &["branch", "--list", "other"]);
    assert_eq!(branches, "");
}

#[test]
fn whoever_uses_a_key_at_once_gets_one_plan_that_is_applied_once() {
    let world = newcomer();
    let path = shop(&world);
    let more = ["--idempotency-key", "build-7", "--yes", "--format", "json"];
    let words = words(&["make it"], &more, &path);
    let all: Vec<_> = (0..4).map(|_| world.start(&words)).collect();
    let ended: Vec<Run> = all
        .into_iter()
        .map(|it| Run::of(it.wait_with_output().unwrap()))
        .collect();
    // Who comes while another works on it is told so, and never that it is done when it is not.
    let codes = ended.iter().all(|it| matches!(it.code, Some(0 | 4 | 75)));
    assert!(codes, "{ended:?}");
    for run in ended.into_iter().filter(|it| it.code == Some(0)) {
        run.stands("apply/applied");
    }
    let data = world.run(&words).succeeded().stands("apply/applied").data();
    assert_eq!(world.data(&["plan", "list"])["summary"]["total"], 1);
    assert_eq!(world.commits("shop"), 2);
    assert_eq!(world.asked(data["plan_id"].as_str().unwrap()).len(), 3);
    assert_eq!(world.read("shop/new"), "made\n");
}

#[test]
fn a_folder_that_is_no_repository_is_changed_all_the_same() {
    let world = World::empty();
    world.folder("papers");
    coder(&world);
    let path = world.path("papers").display().to_string();
    world
        .ask(&words(&["make it"], &["--yes"], &path))
        .succeeded()
        .stands("apply/applied");
    assert_eq!(world.read("papers/new"), "made\n");
    let none = world.path("nothing").display().to_string();
    let run = world.ask(&words(&["make it"], &[], &none));
    assert!(matches!(run.code, Some(2 | 3)), "{run:?}");
}

#[test]
fn without_a_model_one_is_told_how_to_get_one() {
    let world = World::empty();
    world.repository("shop");
    let path = shop(&world);
    let run = world.ask(&["run", "make it", "--path", &path]).exits(2);
    let run = run.says("ANTHROPIC_API_KEY");
    run.says("agents config set");
    assert_eq!(world.commits("shop"), 1);
    let projects = world.data(&["project", "list"]);
    assert_eq!(
        projects["projects"],
        serde_json::json!([]),
        "nothing is left behind"
    );

    world.project("shop", &["shop"]);
    world.thinker_of("coder", "system_prompt: You code\n");
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan_of("shop", "trusted", &[]);
    world.execute(&plan).exits(2).says("ANTHROPIC_API_KEY");
    assert_eq!(world.state(&plan), "strategize/queued");
}

#[test]
fn a_budget_on_the_line_holds() {
    let world = newcomer();
    let path = shop(&world);
    let turns = [strategy(&["Write it"]), finish("Done")].concat();
    world.thinker("coder", &turns, "price: {input: 1000, output: 1000}\n");
    let run = world.ask(&words(&["make it"], &["--max-usd", "0.01", "--yes"], &path));
    let run = run.exits(6).stands("strategize/queued");
    run.says("budget of 0.01 USD");
    assert_eq!(world.commits("shop"), 1);
}

#[test]
fn an_interrupt_leaves_a_plan_that_can_be_gone_on_with() {
    let world = newcomer();
    let path = shop(&world);
    let turns = [
        strategy(&["Write it"]),
        format!("{}    delay_ms: 80000000\n", finish("Never")),
        turn(&[("file-write", "{path: new, content: \"made\\n\"}")]),
        finish("It is made"),
    ];
    world.thinker("coder", &turns.concat(), "");
    let child = world.start(&words(&["make it"], &["--events", "--yes"], &path));
    let pid = Pid::from_child(&child);
    let mut worker = Follower::reading(child);
    (0..2).for_each(|_| drop(worker.wait_for("model_asked")));
    kill_process(pid, Signal::INT).unwrap();
    let last = worker.wait_until("the envelope", |it| it["exit_code"].is_number());
    assert_eq!(last["exit_code"], 130, "{last}");
    let plan = last["data"]["plan_id"]
        .as_str()
        .or(last["error"]["plan_id"].as_str());
    let plan = plan.unwrap_or_else(|| panic!("{last}")).to_owned();
    assert!(
        last.to_string()
            .contains(&format!("agents plan resume {plan}")),
        "{last}"
    );
    world.resume(&plan).succeeded().stands("execute/complete");
    world.apply(&plan).succeeded();
    assert_eq!(world.read("shop/new"), "made\n");
}

#[test]
fn events_are_told_from_the_first_and_without_a_gap() {
    let world = newcomer();
    let path = shop(&world);
    let run = world.run(&words(&["make it"], &["--events", "--yes"], &path));
    assert_eq!(run.code, Some(0), "{run:?}");
    let lines = run.stdout.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["plan_seq"].as_i64()
    });
    let told: Vec<i64> = lines.flatten().collect();
    let all: Vec<i64> = (1..=told.len() as i64).collect();
    assert_eq!(told, all);
    let plan = world.data(&["plan", "list"])["plans"][0]["plan_id"].clone();
    assert_eq!(world.events(plan.as_str().unwrap()).len(), told.len());
}

/// A run on a terminal, and our end of it.
fn on_a_terminal(world: &World, arguments: &[&str]) -> (Child, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name)
        .unwrap();
    let mut command = world.command(arguments);
    command
        .env("TERM", "xterm")
        .stdin(Stdio::from(theirs.try_clone().unwrap()))
        .stdout(Stdio::from(theirs.try_clone().unwrap()))
        .stderr(Stdio::from(theirs));
    // With the command our copies of the other end go, which would keep the terminal open.
    (command.spawn().unwrap(), File::from(ours))
}

/// The rest of what is shown, and how it ends.
fn rest(mut child: Child, mut terminal: File) -> (Option<i32>, String) {
    let mut bytes = Vec::new();
    // Linux reports the closed terminal as an error behind the last byte.
    let _ = terminal.read_to_end(&mut bytes);
    let code = child.wait().unwrap().code();
    (code, String::from_utf8_lossy(&bytes).into_owned())
}

/// What a run on a terminal shows to somebody who types this, and how it ends.
pub(crate) fn at_a_terminal(
    world: &World,
    arguments: &[&str],
    reply: &str,
) -> (Option<i32>, String) {
    let (child, mut terminal) = on_a_terminal(world, arguments);
    // The terminal keeps what is typed until somebody reads it.
    terminal.write_all(reply.as_bytes()).unwrap();
    rest(child, terminal)
}

/// What is shown up to the question.
fn until_asked(terminal: &mut File) -> String {
    let mut seen = Vec::new();
    while !seen.ends_with(b"[y/N] ") {
        let mut byte = [0];
        terminal.read_exact(&mut byte).unwrap();
        seen.extend(byte);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn nothing_is_drawn_over_the_question() {
    let world = newcomer();
    let path = shop(&world);
    let to = ["--to", "patch", "made it.patch"];
    let (child, mut terminal) = on_a_terminal(&world, &words(&["make it"], &to, &path));
    let seen = until_asked(&mut terminal);
    // What shows that the work goes on is gone when the diff begins, and its line is empty.
    let (before, _) = seen.split_once("diff --git").unwrap();
    let before = before.trim_end_matches("\u{1b}[1m");
    assert!(before.ends_with("\r\u{1b}[2K"), "{before:?}");
    assert!(
        seen.contains(&format!("{path}, patch made it.patch?")),
        "{seen}"
    );
    // It would be drawn anew many times while somebody thinks.
    let mut polled = [PollFd::new(&terminal, PollFlags::IN)];
    let patience = Timespec {
        tv_sec: 0,
        tv_nsec: 500_000_000,
    };
    assert_eq!(poll(&mut polled, Some(&patience)), Ok(0));
    terminal.write_all(b"n\n").unwrap();
    let (ended, seen) = rest(child, terminal);
    assert_eq!(ended, Some(5), "{seen}");
    // What is left to do is said as it was asked for.
    assert!(seen.contains(" --to patch 'made it.patch'"), "{seen}");
}

#[test]
fn an_interrupt_at_the_question_is_no_answer_and_loses_nothing() {
    let world = newcomer();
    let path = shop(&world);
    let (child, mut terminal) = on_a_terminal(&world, &words(&["make it"], &[], &path));
    until_asked(&mut terminal);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let (ended, seen) = rest(child, terminal);
    assert_eq!(ended, Some(130), "{seen}");
    assert!(seen.contains("agents plan apply"), "{seen}");
    assert_eq!(world.commits("shop"), 1);
    let plans = world.data(&["plan", "list"]);
    let plan = plans["plans"][0]["plan_id"].as_str().unwrap();
    world.apply(plan).succeeded();
    assert_eq!(world.read("shop/new"), "made\n");
}

#[test]
fn at_a_terminal_the_diff_is_shown_and_one_question_asked() {
    let world = newcomer();
    let path = shop(&world);
    for (reply, code, commits) in [("n\n", 5, 1), ("y\n", 0, 2)] {
        let (ended, seen) = at_a_terminal(&world, &words(&["make it"], &[], &path), reply);
        assert_eq!(ended, Some(code), "{seen}");
        assert!(seen.contains("+made"), "the diff is shown: {seen}");
        assert_eq!(seen.matches("[y/N]").count(), 1, "{seen}");
        assert_eq!(world.commits("shop"), commits, "{seen}");
    }
}

#[test]
fn files_that_are_not_committed_are_asked_about_at_a_terminal() {
    let world = newcomer();
    let path = shop(&world);
    world.write("shop/draft", "not yet\n");
    let (ended, seen) = at_a_terminal(&world, &words(&["make it"], &[], &path), "n\n");
    assert_eq!(ended, Some(5), "{seen}");
    assert!(seen.contains("draft"), "{seen}");
    let plans = world.data(&["plan", "list"]);
    assert_eq!(plans["summary"]["total"], 0, "{plans}");
    // Without a terminal it is a warning.
    let run = world
        .ask(&words(&["make it"], &["--yes"], &path))
        .succeeded();
    run.says("draft");
    assert_eq!(world.read("shop/draft"), "not yet\n");
}
