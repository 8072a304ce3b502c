//! Races between the program and the user: commits, edits, resets, stopped processes.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::race_machine::{RaceMachine, lost, partial, split_words, stuck, write_step};
use crate::attack::machine::{LIMIT, RunningCommand, send_signal};
use crate::attack::plans;
use crate::attack::strace;
use crate::attack::tally::AttackVerdict;

/// Commands that only read.
const READ_COMMANDS: [&str; 6] = [
    "plan list",
    "plan status PLAN",
    "info",
    "diagnostics",
    "plan log PLAN",
    "project list",
];

/// The maximum duration of a reading command beside a stopped process.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// The duration of an apply without interference, estimated from a similar one.
fn apply_duration(race_machine: &RaceMachine) -> Result<Duration> {
    race_machine.define("measure", &write_step("measured", "x"))?;
    let plan = plans::create_executed_plan(&race_machine.machine, "measure", "one")?;
    let begun = Instant::now();
    race_machine.agents(&format!("plan apply {plan} --yes"))?;
    Ok(begun.elapsed())
}

/// System calls of an apply at which a signal may be sent, with their approximate number.
const CALLS: [(&str, usize); 9] = [
    ("rename", 14),
    ("renameat2", 3),
    ("linkat", 1),
    ("unlink", 10),
    ("fsync", 39),
    ("mkdir", 20),
    ("unlinkat", 10),
    ("pwrite64", 200),
    ("write", 40),
];

/// Starts an apply that gets the signal at a random system call.
fn start_apply(race_machine: &mut RaceMachine, plan: &str, signal: &str) -> Result<RunningCommand> {
    let (call, count) = CALLS[race_machine.random.below(CALLS.len())];
    let options = strace::inject(call, 1 + race_machine.random.below(count), signal);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let words = ["plan", "apply", plan, "--yes"];
    RunningCommand::start(&mut strace::command(
        &race_machine.machine,
        &options,
        &words,
    ))
}

/// The verdict if the signal came too late.
fn too_late() -> Result<AttackVerdict> {
    Ok(AttackVerdict::NotCounted(
        "the run ended before the call".into(),
    ))
}

/// The user commits in one of two repositories while a plan is applied to both.
pub fn commit_beside_two_repositories(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    let steps =
        write_step("made", "made") + &write_step("made", "made").replace("local/one", "local/two");
    race_machine.define("job", &steps)?;
    let plan = plans::create_executed_plan(&race_machine.machine, "job", "both")?;
    let duration = apply_duration(race_machine)?;
    let many = [1, 60][race_machine.random.below(2)];
    let script = format!(
        "cd two; i=0; while [ $i -lt {many} ]; do echo $i > theirs; git add theirs; git commit -qm user$i && echo user$i >> ../committed; i=$((i+1)); done"
    );
    let mut user = race_machine.machine.command(&["sh", "-c", &script]);
    for name in [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ] {
        user.env(name, "user@localhost");
    }
    let applying = race_machine.start(&split_words(&format!("plan apply {plan} --yes")))?;
    std::thread::sleep(duration.mul_f64(1.2 * race_machine.random.fraction()));
    let user = RunningCommand::start(&mut user)?;
    let answer = applying.finish(LIMIT)?;
    user.finish(LIMIT)?;
    let made =
        |ground: &RaceMachine| ["one/made", "two/made"].map(|it| ground.machine.path(it).exists());
    let resumed = race_machine.agents(&format!("plan resume {plan}"))?;
    let first = made(race_machine);
    if first[0] != first[1] {
        return partial(format!(
            "one: {}, two: {}: {} {}",
            first[0],
            first[1],
            answer.summary(),
            resumed.summary()
        ));
    }
    if let Some(broken) = race_machine.drive_to_applied(&plan)? {
        return Ok(broken);
    }
    if made(race_machine) != [true, true] && race_machine.position(&plan)? == "apply/applied" {
        return partial(format!("applied, yet made: {:?}", made(race_machine)));
    }
    let theirs = race_machine
        .machine
        .must_git("two", &["log", "--format=%s"])?;
    let committed = race_machine.machine.read("committed");
    if let Some(gone) = committed
        .lines()
        .find(|it| !theirs.lines().any(|line| line == *it))
    {
        return lost(format!("the user's commit {gone} is gone"));
    }
    race_machine.check(&[answer], &[plan])
}

/// The user saves a file while a plan that changes it is applied: the user's text stays.
pub fn edit_beside_apply(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    race_machine.define(
        "job",
        "- {tool: builtin/file-edit, resource: local/one, input: {path: a, old: \"3\\n\", new: \"three\\n\"}}\n",
    )?;
    let duration = apply_duration(race_machine)?;
    let plan = plans::create_executed_plan(&race_machine.machine, "job", "one")?;
    let applying = race_machine.start(&split_words(&format!("plan apply {plan} --yes")))?;
    std::thread::sleep(duration.mul_f64(race_machine.random.fraction()));
    race_machine
        .machine
        .must_shell("cp one/a edited; echo mine >> edited; cat edited > one/a")?;
    let answer = applying.finish(LIMIT)?;
    for _ in 0..2 {
        race_machine.agents(&format!("plan resume {plan}"))?;
    }
    let content = race_machine.machine.read("one/a");
    if !content.contains("mine") {
        return lost(format!(
            "the user's edit is gone: {content:?}; {}",
            answer.summary()
        ));
    }
    race_machine
        .machine
        .must_shell("cd one && git commit -qam 'of the user' || git status > /dev/null")?;
    match race_machine.drive_to_end(&plan)? {
        Some(broken) => Ok(broken),
        None => race_machine.check(&[answer], &[plan]),
    }
}

/// An apply is killed, and the user resets the branch before the next command.
pub fn reset_after_kill(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    race_machine.define("job", &write_step("made", "made"))?;
    let plan = plans::create_executed_plan(&race_machine.machine, "job", "one")?;
    let answer = start_apply(race_machine, &plan, "SIGKILL")?.finish(LIMIT)?;
    if answer.code.is_some() {
        return too_late();
    }
    race_machine.machine.must_shell(
        "cd one && rm -f .git/index.lock && git reset -q --hard && echo later > later && git add later && git commit -qm later",
    )?;
    race_machine.agents(&format!("plan resume {plan}"))?;
    if let Some(broken) = race_machine.drive_to_applied(&plan)? {
        return Ok(broken);
    }
    let log = race_machine
        .machine
        .must_git("one", &["log", "--format=%s"])?;
    if !log.lines().any(|it| it == "later") || !race_machine.machine.path("one/later").exists() {
        return lost("the user's commit is gone".to_owned());
    }
    race_machine.check(&[answer], &[plan])
}

/// An apply is stopped (Ctrl-Z): reading commands answer. Then it is killed, and the plan
/// continues.
pub fn stopped_apply(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    race_machine.define("job", &write_step("made", "made"))?;
    let plan = plans::create_executed_plan(&race_machine.machine, "job", "one")?;
    let mut applying = start_apply(race_machine, &plan, "SIGSTOP")?;
    if !strace::wait_until_stopped(&mut applying, LIMIT) {
        applying.finish(LIMIT)?;
        return too_late();
    }
    let mut hung = None;
    for line in READ_COMMANDS {
        let line = line.replace("PLAN", &plan);
        let words: Vec<&str> = line
            .split_whitespace()
            .chain(["--format", "json"])
            .collect();
        let answer = race_machine.machine.run_command(
            &mut race_machine.machine.agents_command(&words),
            READ_TIMEOUT,
        )?;
        if answer.timed_out {
            hung = Some(line);
            break;
        }
    }
    send_signal("KILL", &format!("-{}", applying.child.id()));
    let answer = applying.finish(LIMIT)?;
    if let Some(line) = hung {
        return stuck(format!(
            "`agents {line}` does not answer beside a stopped apply"
        ));
    }
    match race_machine.drive_to_applied(&plan)? {
        Some(broken) => Ok(broken),
        None => race_machine.check(&[answer], &[plan]),
    }
}

/// An apply is killed and its repository is removed: commands still work, and the plan can be
/// ended.
pub fn repository_gone(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    race_machine.define("job", &write_step("made", "made"))?;
    let plan = plans::create_executed_plan(&race_machine.machine, "job", "one")?;
    let answer = start_apply(race_machine, &plan, "SIGKILL")?.finish(LIMIT)?;
    if answer.code.is_some() {
        return too_late();
    }
    race_machine.machine.must_shell("mv one gone")?;
    race_machine.agents(&format!("plan resume {plan}"))?;
    match race_machine.drive_to_end(&plan)? {
        Some(broken) => Ok(broken),
        None => race_machine.check(&[answer], &[]),
    }
}
