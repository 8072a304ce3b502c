//! Races between the program and the user: commits, edits, resets, stopped processes.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::ground::{Ground, lost, partial, stuck, words, write_step};
use crate::attack::machine::{LIMIT, Running, send_signal};
use crate::attack::plans;
use crate::attack::strace;
use crate::attack::tally::Verdict;

/// Commands that only read.
const READING: [&str; 6] = [
    "plan list",
    "plan status PLAN",
    "info",
    "diagnostics",
    "plan log PLAN",
    "project list",
];

/// The longest a reading command may take beside a stopped process.
const ANSWER: Duration = Duration::from_secs(20);

/// The time that the command of a plan takes when nothing disturbs it, guessed from one like it.
fn apply_duration(ground: &Ground) -> Result<Duration> {
    ground.define("measure", &write_step("measured", "x"))?;
    let plan = plans::executed(&ground.machine, "measure", "one")?;
    let begun = Instant::now();
    ground.agents(&format!("plan apply {plan} --yes"))?;
    Ok(begun.elapsed())
}

/// Calls of an apply at which a signal may come, with about the number of them.
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
fn start_apply(ground: &mut Ground, plan: &str, signal: &str) -> Result<Running> {
    let (call, count) = CALLS[ground.random.below(CALLS.len())];
    let options = strace::inject(call, 1 + ground.random.below(count), signal);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let words = ["plan", "apply", plan, "--yes"];
    Running::start(&mut strace::command(&ground.machine, &options, &words))
}

/// The verdict where the signal came too late.
fn too_late() -> Result<Verdict> {
    Ok(Verdict::NotCounted("the run ended before the call".into()))
}

/// The user commits in one of two repositories while a plan is applied to both.
pub fn commit_beside_two_repositories(ground: &mut Ground) -> Result<Verdict> {
    let steps =
        write_step("made", "made") + &write_step("made", "made").replace("local/one", "local/two");
    ground.define("job", &steps)?;
    let plan = plans::executed(&ground.machine, "job", "both")?;
    let duration = apply_duration(ground)?;
    let many = [1, 60][ground.random.below(2)];
    let script = format!(
        "cd two; i=0; while [ $i -lt {many} ]; do echo $i > theirs; git add theirs; git commit -qm user$i && echo user$i >> ../committed; i=$((i+1)); done"
    );
    let mut user = ground.machine.command(&["sh", "-c", &script]);
    for name in [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ] {
        user.env(name, "user@localhost");
    }
    let applying = ground.start(&words(&format!("plan apply {plan} --yes")))?;
    std::thread::sleep(duration.mul_f64(1.2 * ground.random.fraction()));
    let user = Running::start(&mut user)?;
    let answer = applying.finish(LIMIT)?;
    user.finish(LIMIT)?;
    let made =
        |ground: &Ground| ["one/made", "two/made"].map(|it| ground.machine.path(it).exists());
    let resumed = ground.agents(&format!("plan resume {plan}"))?;
    let first = made(ground);
    if first[0] != first[1] {
        return partial(format!(
            "one: {}, two: {}: {} {}",
            first[0],
            first[1],
            answer.summary(),
            resumed.summary()
        ));
    }
    if let Some(broken) = ground.lead_to_applied(&plan)? {
        return Ok(broken);
    }
    if made(ground) != [true, true] && ground.position(&plan)? == "apply/applied" {
        return partial(format!("applied, yet made: {:?}", made(ground)));
    }
    let theirs = ground.machine.must_git("two", &["log", "--format=%s"])?;
    let committed = ground.machine.read("committed");
    if let Some(gone) = committed
        .lines()
        .find(|it| !theirs.lines().any(|line| line == *it))
    {
        return lost(format!("the user's commit {gone} is gone"));
    }
    ground.check(&[answer], &[plan])
}

/// The user saves a file while a plan that changes it is applied: the user's text stays.
pub fn edit_beside_apply(ground: &mut Ground) -> Result<Verdict> {
    ground.define(
        "job",
        "- {tool: builtin/file-edit, resource: local/one, input: {path: a, old: \"3\\n\", new: \"three\\n\"}}\n",
    )?;
    let duration = apply_duration(ground)?;
    let plan = plans::executed(&ground.machine, "job", "one")?;
    let applying = ground.start(&words(&format!("plan apply {plan} --yes")))?;
    std::thread::sleep(duration.mul_f64(ground.random.fraction()));
    ground
        .machine
        .must_shell("cp one/a edited; echo mine >> edited; cat edited > one/a")?;
    let answer = applying.finish(LIMIT)?;
    for _ in 0..2 {
        ground.agents(&format!("plan resume {plan}"))?;
    }
    let content = ground.machine.read("one/a");
    if !content.contains("mine") {
        return lost(format!(
            "the user's edit is gone: {content:?}; {}",
            answer.summary()
        ));
    }
    ground
        .machine
        .must_shell("cd one && git commit -qam 'of the user' || git status > /dev/null")?;
    match ground.lead_to_end(&plan)? {
        Some(broken) => Ok(broken),
        None => ground.check(&[answer], &[plan]),
    }
}

/// An apply is killed, and the user resets the branch before the next command.
pub fn reset_after_kill(ground: &mut Ground) -> Result<Verdict> {
    ground.define("job", &write_step("made", "made"))?;
    let plan = plans::executed(&ground.machine, "job", "one")?;
    let answer = start_apply(ground, &plan, "SIGKILL")?.finish(LIMIT)?;
    if answer.code.is_some() {
        return too_late();
    }
    ground.machine.must_shell(
        "cd one && rm -f .git/index.lock && git reset -q --hard && echo later > later && git add later && git commit -qm later",
    )?;
    ground.agents(&format!("plan resume {plan}"))?;
    if let Some(broken) = ground.lead_to_applied(&plan)? {
        return Ok(broken);
    }
    let log = ground.machine.must_git("one", &["log", "--format=%s"])?;
    if !log.lines().any(|it| it == "later") || !ground.machine.path("one/later").exists() {
        return lost("the user's commit is gone".to_owned());
    }
    ground.check(&[answer], &[plan])
}

/// An apply is stopped (Ctrl-Z): reading commands answer. Then it is killed, and the plan goes on.
pub fn stopped_apply(ground: &mut Ground) -> Result<Verdict> {
    ground.define("job", &write_step("made", "made"))?;
    let plan = plans::executed(&ground.machine, "job", "one")?;
    let mut applying = start_apply(ground, &plan, "SIGSTOP")?;
    if !strace::wait_until_stopped(&mut applying, LIMIT) {
        applying.finish(LIMIT)?;
        return too_late();
    }
    let mut hung = None;
    for line in READING {
        let line = line.replace("PLAN", &plan);
        let words: Vec<&str> = line
            .split_whitespace()
            .chain(["--format", "json"])
            .collect();
        let answer = ground
            .machine
            .answer(&mut ground.machine.agents_command(&words), ANSWER)?;
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
    match ground.lead_to_applied(&plan)? {
        Some(broken) => Ok(broken),
        None => ground.check(&[answer], &[plan]),
    }
}

/// An apply is killed and its repository is removed: commands still work, and the plan can be ended.
pub fn repository_gone(ground: &mut Ground) -> Result<Verdict> {
    ground.define("job", &write_step("made", "made"))?;
    let plan = plans::executed(&ground.machine, "job", "one")?;
    let answer = start_apply(ground, &plan, "SIGKILL")?.finish(LIMIT)?;
    if answer.code.is_some() {
        return too_late();
    }
    ground.machine.must_shell("mv one gone")?;
    ground.agents(&format!("plan resume {plan}"))?;
    match ground.lead_to_end(&plan)? {
        Some(broken) => Ok(broken),
        None => ground.check(&[answer], &[]),
    }
}
