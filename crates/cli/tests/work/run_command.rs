//! `agents run`: the whole lifecycle in one command, with and without a terminal.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::event_follower::Follower;
use crate::models::{finish, messages_text, strategy, turn};
use crate::world::{AgentsRun, TestWorld, short_id};

/// Defines an actor that makes the strategy and executes it in three turns.
pub(crate) fn define_coder(world: &TestWorld) {
    let turns = [
        strategy(&["Write it"]),
        turn(&[("file-write", "{path: new, content: \"made\\n\"}")]),
        finish("It is made"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
}

/// Returns the arguments of a run on the repository with this actor.
pub(crate) fn run_words<'a>(
    task: &'a [&'a str],
    more: &'a [&'a str],
    path: &'a str,
) -> Vec<&'a str> {
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

pub(crate) fn shop_path(world: &TestWorld) -> String {
    world.path("shop").display().to_string()
}

/// A user with a repository that is not a project yet.
pub(crate) fn world_without_project() -> TestWorld {
    let world = TestWorld::empty();
    world.create_repository("shop");
    define_coder(&world);
    world
}

#[test]
fn a_task_is_executed_and_applied_with_yes() {
    let world = world_without_project();
    let path = shop_path(&world);
    let run = world.run_json(&run_words(&["make it\nand well"], &["--yes"], &path));
    let run = run.succeeded().reports_state("apply/applied");
    let data = run.data();
    assert_eq!(data["action"], "builtin/do", "{data}");
    assert!(data["cost"]["tokens_used"].as_u64().unwrap() > 0, "{data}");
    assert_eq!(world.read("shop/new"), "made\n");
    assert_eq!(
        (world.commits("shop"), world.git_status("shop")),
        (2, String::new())
    );
    let plan = data["plan_id"].as_str().unwrap();
    let said = messages_text(&world.model_calls(plan)[0]);
    assert!(said.contains("and well"), "{said}");
    // The plan is named by its task, and found by that name.
    let short = short_id(plan);
    assert_eq!(data["name"], format!("local/make-it-{short}"), "{data}");
    let found = world.json_data(&["plan", "status", &format!("make-it-{short}")]);
    assert_eq!(found["plan_id"], plan);
    // The folder is now a project and stays the same one.
    run.prints("local/shop");
    let projects = world.json_data(&["project", "list"]);
    assert_eq!(projects["projects"].as_array().unwrap().len(), 1);
}

#[test]
fn a_run_without_terminal_stops_before_apply() {
    let world = world_without_project();
    let path = shop_path(&world);
    let run = world
        .run_json(&run_words(&["make it"], &[], &path))
        .exits(5)
        .reports_state("execute/complete");
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    run.prints(&format!("agents plan apply {plan}"));
    assert_eq!(
        (world.commits("shop"), world.git_status("shop")),
        (1, String::new())
    );
    world.apply(&plan).succeeded();
    assert_eq!(world.read("shop/new"), "made\n");
}

#[test]
fn a_task_is_read_from_arguments_file_or_stdin() {
    let world = world_without_project();
    let path = shop_path(&world);
    world.write("home/task.md", "Make it from a file\n");
    let run = world
        .run_json(&run_words(&["--file", "task.md"], &[], &path))
        .exits(5);
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    assert!(messages_text(&world.model_calls(&plan)[0]).contains("Make it from a file"));

    let arguments = run_words(&["-"], &["--format", "json"], &path);
    let mut child = world
        .command(&arguments)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"Make it from a pipe\n").unwrap();
    drop(input);
    let run = AgentsRun::from_output(child.wait_with_output().unwrap()).exits(5);
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    assert!(messages_text(&world.model_calls(&plan)[0]).contains("Make it from a pipe"));

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
        let run = world.run_json(&run_words(task, &[], &path));
        assert_eq!(run.code, Some(code), "{task:?}: {run:?}");
    }
}

#[test]
fn a_missing_actor_leaves_nothing_behind() {
    let world = world_without_project();
    let path = shop_path(&world);
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
        let run = world.run_json(&[&run[..], &["--execution-actor", worker]].concat());
        assert_eq!(run.code, Some(code), "{actors:?}: {run:?}");
    }
    // An actor that is not given defaults to the built-in coder, which has no model here either.
    let run = ["run", "make it", "--path", &path];
    for one in [
        ["--strategy-actor", "builtin/direct"],
        ["--execution-actor", "local/coder"],
    ] {
        world.run_json(&[&run[..], &one].concat()).exits(2);
    }
    let plans = world.json_data(&["plan", "list"]);
    assert_eq!(plans["summary"]["total"], 0, "{plans}");
}

#[test]
fn an_action_name_takes_precedence_over_a_task() {
    let world = world_without_project();
    let path = shop_path(&world);
    world.define_llm_job("builtin/direct", "local/coder", "");
    world.define_llm_actor("coder", &finish("Nothing to do"), "");
    let run = world
        .run_json(&["run", "local/job", "--path", &path])
        .exits(5);
    assert_eq!(run.data()["action"], "local/job");
    let run = world.run_json(&["run", "job", "--path", &path]).exits(5);
    assert_eq!(run.data()["action"], "local/job");
}

#[test]
fn a_change_goes_to_its_destination() {
    let world = world_without_project();
    let path = shop_path(&world);
    let to = ["--yes", "--to", "branch", "agents/made"];
    world
        .run_json(&run_words(&["make it"], &to, &path))
        .succeeded();
    let shown = world.git(&world.path("shop"), &["show", "agents/made:new"]);
    assert_eq!(shown, "made\n");
    assert_eq!(
        (world.commits("shop"), world.git_status("shop")),
        (1, String::new())
    );

    let to = ["--yes", "--to", "patch", "made.patch"];
    world
        .run_json(&run_words(&["make it"], &to, &path))
        .succeeded();
    assert!(world.read("home/made.patch").contains("+made"));
    assert_eq!(
        (world.commits("shop"), world.git_status("shop")),
        (1, String::new())
    );
}

#[test]
fn a_profile_that_applies_uses_the_destination_of_the_run() {
    let world = world_without_project();
    let path = shop_path(&world);
    let more = "--automation-profile full-auto --to branch agents/made";
    let more: Vec<&str> = more.split(' ').collect();
    let run = world.run_json(&run_words(&["make it"], &more, &path));
    run.succeeded().reports_state("apply/applied");
    let shown = world.git(&world.path("shop"), &["show", "agents/made:new"]);
    assert_eq!(shown, "made\n");
    assert_eq!(world.commits("shop"), 1);
}

#[test]
fn hints_name_the_destination_of_the_run() {
    let world = world_without_project();
    let path = shop_path(&world);
    let to = ["--to", "branch", "agents/made"];
    let run = world.run_json(&run_words(&["make it"], &to, &path));
    let plan = run.exits(5).data()["plan_id"].as_str().unwrap().to_owned();
    let hint = |plan: &str| format!("agents plan apply {plan} --to branch agents/made");
    let short = short_id(&plan);
    for words in [&["plan", "diff", &plan][..], &["plan", "resume", &plan]] {
        world.run(words).prints(&hint(&short));
    }
    // A refused apply too.
    world.write("home/there.patch", "");
    let to = ["--yes", "--to", "patch", "there.patch"];
    let refused = world
        .run_json(&run_words(&["make it"], &to, &path))
        .exits(4);
    let file = world.path("home/there.patch").display().to_string();
    refused.prints(&format!("--to patch {file}"));
    // Without a destination, the current branch.
    world.run(&["plan", "apply", &plan, "--yes"]).succeeded();
    assert_eq!(world.commits("shop"), 2);
}

#[test]
fn the_same_idempotency_key_reuses_the_plan() {
    let world = world_without_project();
    let path = shop_path(&world);
    let more = ["--idempotency-key", "build-7", "--yes"];
    let once = world
        .run_json(&run_words(&["make it"], &more, &path))
        .succeeded()
        .data();
    let again = world
        .run_json(&run_words(&["make it"], &more, &path))
        .succeeded()
        .data();
    assert_eq!(once["plan_id"], again["plan_id"]);
    assert_eq!(again["state"], "applied", "{again}");
    assert_eq!(world.commits("shop"), 2);
    assert_eq!(
        world.model_calls(once["plan_id"].as_str().unwrap()).len(),
        3
    );
    let other = world.run_json(&run_words(&["make another"], &more, &path));
    assert_eq!(other.code, Some(4), "{other:?}");
}

#[test]
fn an_applied_key_does_nothing_again() {
    let world = world_without_project();
    let path = shop_path(&world);
    let key = ["--idempotency-key", "build-7"];
    let once = [&key[..], &["--yes"]].concat();
    let once = run_words(&["make it"], &once, &path);
    let plan = world.run_json(&once).succeeded().data()["plan_id"].clone();
    let plan = plan.as_str().unwrap();
    let before = world.events(plan);
    let head = world.git(&world.path("shop"), &["rev-parse", "HEAD"]);
    // A later edit of the user must be kept.
    world.write("shop/new", "mine\n");
    // The result is not needed any more.
    fs::remove_dir_all(world.path("home/.cleveragents/sandboxes")).unwrap();
    for more in [&["--yes"][..], &[], &["--yes", "--to", "branch", "other"]] {
        let again = [&key[..], more].concat();
        let again = run_words(&["make it"], &again, &path);
        let run = world
            .run_json(&again)
            .succeeded()
            .reports_state("apply/applied");
        assert_eq!(run.data()["plan_id"], plan, "{run:?}");
        // The plain output names the plan.
        world.run(&again).succeeded().prints(&short_id(plan));
    }
    assert_eq!(world.events(plan), before);
    assert_eq!(world.model_calls(plan).len(), 3);
    assert_eq!(world.json_data(&["plan", "list"])["summary"]["total"], 1);
    let now = world.git(&world.path("shop"), &["rev-parse", "HEAD"]);
    assert_eq!((now, world.read("shop/new")), (head, "mine\n".to_owned()));
    let branches = world.git(&world.path("shop"), &["branch", "--list", "other"]);
    assert_eq!(branches, "");
}

#[test]
fn concurrent_runs_with_one_key_apply_once() {
    let world = world_without_project();
    let path = shop_path(&world);
    let more = ["--idempotency-key", "build-7", "--yes", "--format", "json"];
    let words = run_words(&["make it"], &more, &path);
    let all: Vec<_> = (0..4).map(|_| world.start(&words)).collect();
    let ended: Vec<AgentsRun> = all
        .into_iter()
        .map(|it| AgentsRun::from_output(it.wait_with_output().unwrap()))
        .collect();
    // A process that found another one running is refused; it never reports an unfinished plan as
    // done.
    let codes = ended.iter().all(|it| matches!(it.code, Some(0 | 4 | 75)));
    assert!(codes, "{ended:?}");
    for run in ended.into_iter().filter(|it| it.code == Some(0)) {
        run.reports_state("apply/applied");
    }
    let data = world
        .run(&words)
        .succeeded()
        .reports_state("apply/applied")
        .data();
    assert_eq!(world.json_data(&["plan", "list"])["summary"]["total"], 1);
    assert_eq!(world.commits("shop"), 2);
    assert_eq!(
        world.model_calls(data["plan_id"].as_str().unwrap()).len(),
        3
    );
    assert_eq!(world.read("shop/new"), "made\n");
}

#[test]
fn a_folder_without_repository_can_be_changed() {
    let world = TestWorld::empty();
    world.create_folder("papers");
    define_coder(&world);
    let path = world.path("papers").display().to_string();
    world
        .run_json(&run_words(&["make it"], &["--yes"], &path))
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("papers/new"), "made\n");
    let none = world.path("nothing").display().to_string();
    let run = world.run_json(&run_words(&["make it"], &[], &none));
    assert!(matches!(run.code, Some(2 | 3)), "{run:?}");
}

#[test]
fn a_missing_model_is_reported_with_hints() {
    let world = TestWorld::empty();
    world.create_repository("shop");
    let path = shop_path(&world);
    let run = world
        .run_json(&["run", "make it", "--path", &path])
        .exits(2);
    let run = run.prints("ANTHROPIC_API_KEY");
    run.prints("agents config set");
    assert_eq!(world.commits("shop"), 1);
    let projects = world.json_data(&["project", "list"]);
    assert_eq!(
        projects["projects"],
        serde_json::json!([]),
        "nothing is left behind"
    );

    world.create_project("shop", &["shop"]);
    world.define_llm_actor_with("coder", "system_prompt: You code\n");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan_for("shop", "trusted", &[]);
    world.execute(&plan).exits(2).prints("ANTHROPIC_API_KEY");
    assert_eq!(world.state(&plan), "strategize/queued");
}

#[test]
fn a_budget_option_is_enforced() {
    let world = world_without_project();
    let path = shop_path(&world);
    let turns = [strategy(&["Write it"]), finish("Done")].concat();
    world.define_llm_actor("coder", &turns, "price: {input: 1000, output: 1000}\n");
    let run = world.run_json(&run_words(
        &["make it"],
        &["--max-usd", "0.01", "--yes"],
        &path,
    ));
    let run = run.exits(6).reports_state("strategize/queued");
    run.prints("budget of 0.01 USD");
    assert_eq!(world.commits("shop"), 1);
}

#[test]
fn an_interrupted_run_can_be_resumed() {
    let world = world_without_project();
    let path = shop_path(&world);
    let turns = [
        strategy(&["Write it"]),
        format!("{}    delay_ms: 80000000\n", finish("Never")),
        turn(&[("file-write", "{path: new, content: \"made\\n\"}")]),
        finish("It is made"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    let child = world.start(&run_words(&["make it"], &["--events", "--yes"], &path));
    let pid = Pid::from_child(&child);
    let mut worker = Follower::from_child(child);
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
    // `run` approved the strategy and `--yes` the apply: both are stored with the plan.
    world
        .resume(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/new"), "made\n");
}

#[test]
fn events_are_complete_from_the_first() {
    let world = world_without_project();
    let path = shop_path(&world);
    let run = world.run(&run_words(&["make it"], &["--events", "--yes"], &path));
    assert_eq!(run.code, Some(0), "{run:?}");
    let lines = run.stdout.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["plan_seq"].as_i64()
    });
    let sequence_numbers: Vec<i64> = lines.flatten().collect();
    let all: Vec<i64> = (1..=sequence_numbers.len() as i64).collect();
    assert_eq!(sequence_numbers, all);
    let plan = world.json_data(&["plan", "list"])["plans"][0]["plan_id"].clone();
    assert_eq!(
        world.events(plan.as_str().unwrap()).len(),
        sequence_numbers.len()
    );
}

/// Starts a run on a terminal; returns our end of it.
pub(crate) fn start_on_terminal(world: &TestWorld, arguments: &[&str]) -> (Child, File) {
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
        .env("PAGER", "cat")
        .stdin(Stdio::from(theirs.try_clone().unwrap()))
        .stdout(Stdio::from(theirs.try_clone().unwrap()))
        .stderr(Stdio::from(theirs));
    // Dropping the command closes our copies of the other end, which would keep the terminal open.
    (command.spawn().unwrap(), File::from(ours))
}

/// Reads the remaining output and the exit code.
pub(crate) fn read_to_end(mut child: Child, mut terminal: File) -> (Option<i32>, String) {
    let mut bytes = Vec::new();
    // Linux reports a closed terminal as an error after the last byte.
    let _ = terminal.read_to_end(&mut bytes);
    let code = child.wait().unwrap().code();
    (code, String::from_utf8_lossy(&bytes).into_owned())
}

/// Runs on a terminal with this typed reply; returns the exit code and the output.
pub(crate) fn run_on_terminal(
    world: &TestWorld,
    arguments: &[&str],
    reply: &str,
) -> (Option<i32>, String) {
    let (child, mut terminal) = start_on_terminal(world, arguments);
    // The terminal buffers the input until it is read.
    terminal.write_all(reply.as_bytes()).unwrap();
    read_to_end(child, terminal)
}

/// Reads the output up to the question.
pub(crate) fn read_until_prompt(terminal: &mut File) -> String {
    let mut seen = Vec::new();
    while !seen.ends_with(b"[y/N] ") {
        let mut byte = [0];
        terminal.read_exact(&mut byte).unwrap();
        seen.extend(byte);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn progress_does_not_overwrite_the_prompt() {
    let world = world_without_project();
    let path = shop_path(&world);
    let to = ["--to", "patch", "made it.patch"];
    let (child, mut terminal) = start_on_terminal(&world, &run_words(&["make it"], &to, &path));
    let seen = read_until_prompt(&mut terminal);
    // The progress line is cleared before the diff is printed.
    let (before, _) = seen.split_once("diff --git").unwrap();
    let before = before.trim_end_matches("\u{1b}[1m");
    assert!(before.ends_with("\r\u{1b}[2K"), "{before:?}");
    assert!(
        seen.contains(&format!("{path}, patch made it.patch?")),
        "{seen}"
    );
    // A progress line would be redrawn several times in this time.
    let mut polled = [PollFd::new(&terminal, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: 500_000_000,
    };
    assert_eq!(poll(&mut polled, Some(&timeout)), Ok(0));
    terminal.write_all(b"n\n").unwrap();
    let (ended, seen) = read_to_end(child, terminal);
    assert_eq!(ended, Some(5), "{seen}");
    // The hint repeats the destination as it was given.
    assert!(seen.contains(" --to patch 'made it.patch'"), "{seen}");
}

#[test]
fn an_interrupt_at_the_prompt_loses_nothing() {
    let world = world_without_project();
    let path = shop_path(&world);
    let (child, mut terminal) = start_on_terminal(&world, &run_words(&["make it"], &[], &path));
    read_until_prompt(&mut terminal);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let (ended, seen) = read_to_end(child, terminal);
    assert_eq!(ended, Some(130), "{seen}");
    assert!(seen.contains("agents plan apply"), "{seen}");
    assert_eq!(world.commits("shop"), 1);
    let plans = world.json_data(&["plan", "list"]);
    let plan = plans["plans"][0]["plan_id"].as_str().unwrap();
    world.apply(plan).succeeded();
    assert_eq!(world.read("shop/new"), "made\n");
}

#[test]
fn a_terminal_run_shows_the_diff_and_asks_once() {
    let world = world_without_project();
    let path = shop_path(&world);
    for (reply, code, commits) in [("n\n", 5, 1), ("y\n", 0, 2)] {
        let (ended, seen) = run_on_terminal(&world, &run_words(&["make it"], &[], &path), reply);
        assert_eq!(ended, Some(code), "{seen}");
        assert!(seen.contains("+made"), "the diff is shown: {seen}");
        assert_eq!(seen.matches("[y/N]").count(), 1, "{seen}");
        assert_eq!(world.commits("shop"), commits, "{seen}");
    }
}

#[test]
fn a_terminal_run_asks_about_uncommitted_files() {
    let world = world_without_project();
    let path = shop_path(&world);
    world.write("shop/draft", "not yet\n");
    let to = ["--to", "branch", "agents/made"];
    let (ended, seen) = run_on_terminal(&world, &run_words(&["make it"], &to, &path), "n\n");
    assert_eq!(ended, Some(5), "{seen}");
    assert!(seen.contains("draft"), "{seen}");
    // The hint repeats what decides where the plan works.
    for option in ["--base worktree", "--path", "--to branch agents/made"] {
        assert!(seen.contains(option), "{option}: {seen}");
    }
    let plans = world.json_data(&["plan", "list"]);
    assert_eq!(plans["summary"]["total"], 0, "{plans}");
    // Without a terminal it is a warning.
    let run = world
        .run_json(&run_words(&["make it"], &["--yes"], &path))
        .succeeded();
    run.prints("draft");
    assert_eq!(world.read("shop/draft"), "not yet\n");
}

#[test]
fn a_run_with_yes_gives_the_same_warnings() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    world.define_worker_job("");
    world.write(
        "shop/.agents/actions/job.yaml",
        &world.read("home/job.yaml"),
    );
    world.write("shop/.gitignore", ".env\n");
    world.write("shop/.worktreeinclude", ".env\n");
    world.commit("shop", "what to bring along");
    world.write("shop/.env", "PASSWORD=hunter2hunter2\n");
    let path = shop_path(&world);
    let words = ["run", "local/job", "--path", &path];
    for (more, code) in [(&[][..], 5), (&["--yes"], 0)] {
        let run = world.run_json(&[&words[..], more].concat()).exits(code);
        run.prints("credential files that .worktreeinclude names")
            .prints("job.yaml defines local/job too; the registered action is used");
    }
    assert_eq!(world.read("shop/made"), "made");
    // A profile that applies by itself says them too.
    std::fs::remove_file(world.path("shop/made")).unwrap();
    world.commit("shop", "without it");
    let plan = world.create_plan_for("shop", "ci", &[]);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("apply/applied")
        .prints("credential files that .worktreeinclude names");
}
