//! All attempts of one account at one level.

use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::attempt::{AttackCase, HostActivity, StdioKind};
use super::target_machine::{HomeKind, TargetMachine, can_change_accounts};
use super::{Controls, bundle, credential_cases, repeat_arguments, resources, tools};
use crate::attack::machine::{CommandOutput, RunningCommand, Setup, send_signal};
use crate::attack::options::{AttackAccount, AttackFamily, AttackOptions, ConfinementLevel};
use crate::attack::tally::{AttackOutcome, AttackVerdict, BrokenPromise, shorten};

/// The number of attempts that share one run of the program.
pub const BATCH_SIZE: usize = 20;

/// The timeout of one run of several attempts, in seconds.
const SECONDS: u32 = 170;

/// Replaces credential files by rename until it or its parent program is killed.
const REPLACE_CREDENTIALS: &str = r#"trap "end=1" TERM; while [ -z "$end" ] && [ -d /proc/$PPID ]; do for f in "$OUT/../home/.netrc" "$OUT/../home/.ssh/id_ed25519" "$OUT/../home/.aws/credentials" "$OUT/../home/.env" "$OUT/../shop/.env"; do cp -p "$f" "$f.new" && mv "$f.new" "$f"; done; sleep 0.02; done"#;

/// A number of seconds to sleep that no other process on the machine uses.
pub fn unique_mark() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("700.{}{count:05}", std::process::id())
}

/// The attempts of one account at one level.
#[derive(Debug)]
pub struct EscapeRun<'a> {
    pub setup: &'a Setup,
    pub options: &'a AttackOptions,
    pub account: AttackAccount,
    pub level: ConfinementLevel,
    pub controls: &'a Controls,
}

impl EscapeRun<'_> {
    pub fn run(&self, cases: &[AttackCase]) -> Result<Vec<AttackOutcome>> {
        let target = TargetMachine::new(self.setup, self.account, HomeKind::Usual)?;
        let works = target.run_in_sandbox(self.level, "echo works", 20)?;
        if !works.data()["output"]["stdout"]
            .to_string()
            .contains("works")
        {
            let reason = format!("the level does not work here: {}", works.summary());
            let rows = cases
                .iter()
                .map(|it| self.outcome(&it.name, AttackVerdict::NotCounted(reason.clone())));
            return Ok(rows.collect());
        }
        let mut outcomes = self.run_scripts(&target, cases)?;
        // A level does not confine the file tools, so one level is enough.
        if self.level == ConfinementLevel::Namespaces || self.options.level.is_some() {
            outcomes.extend(self.run_tools(&target)?);
        }
        outcomes.extend(self.run_kills(&target)?);
        outcomes.extend(self.run_resources(&target)?);
        for home in self.other_homes() {
            outcomes.extend(self.run_other_home(home)?);
        }
        Ok(outcomes)
    }

    /// The unusual homes to try: all of them, or in the short form one that differs between
    /// settings.
    fn other_homes(&self) -> Vec<HomeKind> {
        let all = [HomeKind::Temporary, HomeKind::Unset, HomeKind::Another];
        if !self.is_short() {
            return all.to_vec();
        }
        vec![all[self.sample_offset() % all.len()]]
    }

    /// A number that differs between settings and seeds, for samples of the short form.
    fn sample_offset(&self) -> usize {
        let account = usize::from(self.account == AttackAccount::User);
        let level = usize::from(self.level == ConfinementLevel::Landlock);
        let seed = usize::try_from(self.options.seed % 6).unwrap_or(0);
        2 * account + level + seed
    }

    fn is_short(&self) -> bool {
        !self.options.is_full() && self.options.only.is_none()
    }

    fn outcome(&self, name: &str, verdict: AttackVerdict) -> AttackOutcome {
        AttackOutcome {
            family: AttackFamily::Escapes,
            setting: format!("{} {}", self.account.name(), self.level.name()),
            name: name.to_owned(),
            verdict,
            repeat: repeat_arguments(self.account, self.level, name),
        }
    }

    /// The reason why an attempt proves nothing here.
    fn skip_reason(&self, case: &AttackCase) -> Option<String> {
        if case.beyond_landlock && self.level == ConfinementLevel::Landlock {
            return Some("the guide promises nothing about it at this level".into());
        }
        let works = self.controls.get(&case.name).copied().unwrap_or(false);
        (!works).then(|| "its control outside the sandbox fails".into())
    }

    fn run_scripts(
        &self,
        target: &TargetMachine,
        cases: &[AttackCase],
    ) -> Result<Vec<AttackOutcome>> {
        let mut outcomes = Vec::new();
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        for case in cases {
            match self.skip_reason(case) {
                Some(reason) => {
                    outcomes.push(self.outcome(&case.name, AttackVerdict::NotCounted(reason)))
                }
                None if case.alone => alone.push(case),
                None => together.push(case),
            }
        }
        for cases in together.chunks(BATCH_SIZE) {
            outcomes.extend(self.run_group(target, cases)?);
        }
        // In the short form each of these runs in every other setting.
        let half = self.sample_offset() + usize::from(self.account == AttackAccount::User);
        let runs = |index: usize| !self.is_short() || (index + half).is_multiple_of(2);
        for (_, case) in alone.into_iter().enumerate().filter(|it| runs(it.0)) {
            outcomes.push(self.run_single(target, case)?);
        }
        Ok(outcomes)
    }

    /// Makes several attempts in one run; if anything outside changes, repeats each separately.
    fn run_group(
        &self,
        target: &TargetMachine,
        cases: &[&AttackCase],
    ) -> Result<Vec<AttackOutcome>> {
        let before = target.snapshot();
        let script = bundle::script(&target.variables, cases);
        let answer = target.run_in_sandbox(self.level, &script, SECONDS)?;
        let output = command_stdout(&answer);
        if !bundle::is_complete(&output, cases.len()) || target.snapshot() != before {
            target.reset()?;
            return cases
                .iter()
                .map(|case| self.run_single(target, case))
                .collect();
        }
        let sections = bundle::sections(&output, cases.len());
        let verdicts = cases.iter().zip(sections).map(|(case, output)| {
            let verdict = if target.reveals_escape(&output) {
                AttackVerdict::Broken(BrokenPromise::Escaped, shorten(&output))
            } else {
                AttackVerdict::Held
            };
            self.outcome(&case.name, verdict)
        });
        Ok(verdicts.collect())
    }

    fn run_single(&self, target: &TargetMachine, case: &AttackCase) -> Result<AttackOutcome> {
        let before = target.snapshot();
        let mark = unique_mark();
        let variables = format!("{}export MARK={mark}\n", target.variables);
        let beside = start_host_activity(target, case.host_activity)?;
        let script = bundle::script(&variables, &[case]);
        let answer = match case.stdio {
            StdioKind::Pipe => target.run_in_sandbox(self.level, &script, 40),
            StdioKind::Terminal => target.run_on_terminal(self.level, &script, 40),
        };
        if let Some(mut child) = beside {
            // It ends by itself between two replacements, so that no replacement is left half-done.
            send_signal("TERM", &child.id().to_string());
            child.wait()?;
        }
        let answer = answer?;
        let output = command_stdout(&answer);
        let survivor = target.end_survivors(&mark);
        let after = target.snapshot();
        let changed = after
            .iter()
            .find(|(path, it)| before.get(*path) != Some(it));
        let changed =
            changed.or_else(|| before.iter().find(|(path, _)| !after.contains_key(*path)));
        let verdict = if target.reveals_escape(&output) {
            AttackVerdict::Broken(BrokenPromise::Escaped, shorten(&output))
        } else if let Some(process_id) = survivor {
            survivor_verdict(&process_id)
        } else if let Some((path, _)) = changed {
            AttackVerdict::Broken(
                BrokenPromise::Escaped,
                format!("{} changed", path.display()),
            )
        } else if answer.timed_out {
            AttackVerdict::Broken(BrokenPromise::Stuck, answer.summary())
        } else {
            AttackVerdict::Held
        };
        target.reset()?;
        Ok(self.outcome(&case.name, verdict))
    }

    fn run_tools(&self, target: &TargetMachine) -> Result<Vec<AttackOutcome>> {
        let mut outcomes = Vec::new();
        let out = target.machine.path("outside").display().to_string();
        let wanted = tools::ATTEMPTS
            .iter()
            .filter(|it| self.options.selects(it.0));
        for (name, tool, input) in wanted {
            let limit = crate::attack::machine::LIMIT;
            let inside = tools::control_input(input);
            if !target.run_tool(self.level, tool, &inside, limit)?.is_ok() {
                let reason = "the same call inside the tree fails".to_owned();
                outcomes.push(self.outcome(name, AttackVerdict::NotCounted(reason)));
                continue;
            }
            let before = target.snapshot();
            let answer = target.run_tool(self.level, tool, &input.replace("OUT", &out), limit)?;
            let after = target.snapshot();
            let verdict = if target.reveals_escape(&answer.text()) || before != after {
                target.reset()?;
                AttackVerdict::Broken(BrokenPromise::Escaped, answer.summary())
            } else {
                AttackVerdict::Held
            };
            outcomes.push(self.outcome(name, verdict));
        }
        Ok(outcomes)
    }

    /// A command must not outlive the program that is killed while it runs.
    fn run_kills(&self, target: &TargetMachine) -> Result<Vec<AttackOutcome>> {
        let scripts = [
            ("outlive-killed-program", "sleep $MARK"),
            (
                "outlive-killed-program-detached",
                "env -i setsid -f sleep $MARK; sleep 60",
            ),
        ];
        let mut outcomes = Vec::new();
        for (name, script) in scripts.iter().filter(|it| self.options.selects(it.0)) {
            let mark = unique_mark();
            let input = serde_json::json!({"command": script.replace("$MARK", &mark)}).to_string();
            let running =
                RunningCommand::start(&mut target.tool_command(self.level, "shell", &input)?)?;
            let began = wait_until(|| target.survivor(&mark).is_some(), 20);
            send_signal("KILL", &running.child.id().to_string());
            running.finish(crate::attack::machine::LIMIT)?;
            let ended = wait_until(|| target.survivor(&mark).is_none(), 10);
            let survivor = target.end_survivors(&mark);
            let verdict = match (began, ended) {
                (false, _) => AttackVerdict::NotCounted("the command did not begin".into()),
                (true, true) => AttackVerdict::Held,
                (true, false) => AttackVerdict::Broken(
                    BrokenPromise::Escaped,
                    format!("process {survivor:?} lives on"),
                ),
            };
            outcomes.push(self.outcome(name, verdict));
        }
        Ok(outcomes)
    }

    /// Commands that exhaust the machine end in time, with an answer, and leave nothing running.
    fn run_resources(&self, target: &TargetMachine) -> Result<Vec<AttackOutcome>> {
        let mut outcomes = Vec::new();
        let slow = self.options.is_full() || self.options.only.is_some();
        let slow = resources::SLOW.iter().filter(|_| slow);
        let all = resources::ATTEMPTS.iter().chain(slow);
        for (name, script) in all.filter(|it| self.options.selects(it.0)) {
            let mark = unique_mark();
            let script = format!("MARK={mark}\n{script}");
            let input = serde_json::json!({"command": script, "timeout": resources::TOOL_SECONDS});
            let answer =
                target.run_tool(self.level, "shell", &input.to_string(), resources::LIMIT)?;
            let survivor = target.end_survivors(&mark);
            let next = target.machine.agents(&["plan", "list"])?;
            let verdict = if answer.timed_out || !next.is_ok() {
                AttackVerdict::Broken(BrokenPromise::Stuck, answer.summary())
            } else if answer.data().is_null() {
                AttackVerdict::Broken(
                    BrokenPromise::Stuck,
                    format!("no clear answer: {}", answer.summary()),
                )
            } else if let Some(process_id) = survivor {
                survivor_verdict(&process_id)
            } else {
                AttackVerdict::Held
            };
            outcomes.push(self.outcome(name, verdict));
        }
        Ok(outcomes)
    }

    /// Reads the credentials with the home in another place.
    fn run_other_home(&self, home: HomeKind) -> Result<Vec<AttackOutcome>> {
        let cases: Vec<AttackCase> = credential_cases(home);
        let cases: Vec<&AttackCase> = cases
            .iter()
            .filter(|it| self.options.selects(&it.name))
            .collect();
        if cases.is_empty() || (home != HomeKind::Temporary && !can_change_accounts()) {
            return Ok(Vec::new());
        }
        let target = TargetMachine::new(self.setup, self.account, home)?;
        let mut outcomes = Vec::new();
        for cases in cases.chunks(4 * BATCH_SIZE) {
            outcomes.extend(self.run_group(&target, cases)?);
        }
        Ok(outcomes)
    }
}

/// The verdict on a call that leaves a process running.
fn survivor_verdict(process_id: &str) -> AttackVerdict {
    AttackVerdict::Broken(
        BrokenPromise::Escaped,
        format!("process {process_id} outlives the call"),
    )
}

/// Polls until the condition holds, for at most `seconds`; returns whether it does.
fn wait_until(condition: impl Fn() -> bool, seconds: u64) -> bool {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn start_host_activity(target: &TargetMachine, activity: HostActivity) -> Result<Option<Child>> {
    match activity {
        HostActivity::Nothing => Ok(None),
        HostActivity::ReplaceCredentials => {
            let running = RunningCommand::start(&mut target.machine.command(&[
                "sh",
                "-c",
                REPLACE_CREDENTIALS,
            ]))?;
            Ok(Some(running.child))
        }
    }
}

/// The output of a shell tool's command.
fn command_stdout(answer: &CommandOutput) -> String {
    let data = answer.data();
    match data["output"]["stdout"].as_str() {
        Some(text) => text.to_owned(),
        None => answer.text(),
    }
}
