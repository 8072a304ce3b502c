//! The machine of a race, commands that start together, and the checks when all have ended.

use std::time::Duration;

use anyhow::Result;

use crate::attack::Random;
use crate::attack::machine::{CommandOutput, LIMIT, Machine, RunningCommand, Setup};
use crate::attack::options::AttackAccount;
use crate::attack::plans;
use crate::attack::tally::{AttackVerdict, BrokenPromise};

/// A command line without the program.
pub type CommandWords = Vec<String>;

pub fn split_words(line: &str) -> CommandWords {
    line.split_whitespace().map(str::to_owned).collect()
}

/// A machine with the repositories `one` and `two`, which are the projects of the same names, and
/// the project `both`.
#[derive(Debug)]
pub struct RaceMachine {
    pub machine: Machine,
    pub random: Random,
}

impl RaceMachine {
    pub fn new(setup: &Setup, account: AttackAccount, random: Random) -> Result<RaceMachine> {
        let machine = Machine::new(setup, account)?;
        machine.must_shell(
            "for it in one two; do git init -q --template= -b main $it && (cd $it && printf '1\\n2\\n3\\n4\\n5\\n' > a \
             && echo b > b && git add -A && git commit -qm first) || exit 1; done",
        )?;
        plans::create_project(&machine, "both", &["one", "two"])?;
        machine.must_agents(&["project", "create", "one"])?;
        machine.must_agents(&["project", "link-resource", "one", "local/one"])?;
        Ok(RaceMachine { machine, random })
    }

    /// Defines an action whose steps work on the repository `one`.
    pub fn define(&self, name: &str, steps: &str) -> Result<()> {
        plans::define(&self.machine, name, steps, "")
    }

    /// Starts all commands with small random delays between them and waits for all.
    pub fn race(&mut self, commands: &[CommandWords]) -> Result<Vec<CommandOutput>> {
        let mut running = Vec::new();
        for words in commands {
            running.push(self.start(words)?);
            std::thread::sleep(Duration::from_millis(self.random.below(60) as u64));
        }
        running.into_iter().map(|it| it.finish(LIMIT)).collect()
    }

    pub fn start(&self, words: &[String]) -> Result<RunningCommand> {
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.extend(["--format", "json"]);
        RunningCommand::start(&mut self.machine.agents_command(&words))
    }

    pub fn agents(&self, line: &str) -> Result<CommandOutput> {
        self.machine
            .agents(&line.split_whitespace().collect::<Vec<_>>())
    }

    pub fn position(&self, plan: &str) -> Result<String> {
        Ok(plans::position(
            &self.agents(&format!("plan status {plan}"))?,
        ))
    }

    pub fn commits(&self, repository: &str) -> Result<usize> {
        let text = self
            .machine
            .must_git(repository, &["rev-list", "--count", "HEAD"])?;
        Ok(text.parse()?)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.random.below(index + 1));
        }
    }

    /// Continues a plan with the documented and recommended commands until it is applied.
    pub fn drive_to_applied(&self, plan: &str) -> Result<Option<AttackVerdict>> {
        let mut last = String::new();
        for _ in 0..8 {
            let position = self.position(plan)?;
            let command = match position.as_str() {
                "apply/applied" => return Ok(None),
                it if it.ends_with("/cancelled") => return Ok(None),
                "execute/complete" => format!("plan apply {plan} --yes"),
                it if it.starts_with("apply/") => format!("plan apply {plan} --yes"),
                _ => format!("plan execute {plan}"),
            };
            let answer = self.agents(&command)?;
            if !answer.is_ok() {
                self.follow_hints(&answer)?;
                // The loser of a race must restart from the current state of the target.
                self.agents(&format!("plan rebase {plan}"))?;
            }
            last = format!("{position}: {}", answer.summary());
        }
        Ok(Some(AttackVerdict::Broken(
            BrokenPromise::Stuck,
            format!("no way to applied from {last}"),
        )))
    }

    /// Cancels a plan, which must end it unless it was applied, and possibly unapplied since.
    pub fn drive_to_end(&self, plan: &str) -> Result<Option<AttackVerdict>> {
        let mut last = CommandOutput::default();
        for _ in 0..3 {
            let position = self.position(plan)?;
            let has_ended = position.ends_with("/cancelled")
                || ["apply/applied", "apply/unapplied"].contains(&position.as_str());
            if has_ended {
                return Ok(None);
            }
            last = self.agents(&format!("plan cancel {plan}"))?;
            self.follow_hints(&last)?;
        }
        let detail = format!(
            "cannot be cancelled at {}: {}",
            self.position(plan)?,
            last.summary()
        );
        Ok(Some(AttackVerdict::Broken(BrokenPromise::Stuck, detail)))
    }

    fn follow_hints(&self, answer: &CommandOutput) -> Result<()> {
        for words in plans::hints(answer).iter().take(3) {
            let is_safe = words.first().is_some_and(|it| it == "plan");
            if is_safe && !words.iter().any(|it| it.contains("mark-applied")) {
                self.machine
                    .agents(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    /// Every command ended in time, the journals verify, git is intact, and there are no warnings
    /// left.
    pub fn check(&self, answers: &[CommandOutput], plans: &[String]) -> Result<AttackVerdict> {
        if let Some(hung) = answers.iter().find(|it| it.timed_out) {
            return Ok(AttackVerdict::Broken(BrokenPromise::Stuck, hung.summary()));
        }
        if let Some(crash) = answers.iter().find(|it| it.text().contains("panicked")) {
            return Ok(AttackVerdict::Broken(BrokenPromise::Stuck, crash.summary()));
        }
        for plan in plans {
            let verified = self.agents(&format!("plan verify {plan}"))?;
            if verified.data()["verified"] != true {
                return Ok(AttackVerdict::Broken(
                    BrokenPromise::Lost,
                    format!("journal: {}", verified.summary()),
                ));
            }
        }
        for repository in ["one", "two"] {
            if !self.machine.path(repository).exists() {
                continue;
            }
            let checked = self
                .machine
                .git(repository, &["fsck", "--no-dangling", "--no-progress"])?;
            if !checked.is_ok() {
                return Ok(AttackVerdict::Broken(
                    BrokenPromise::Lost,
                    checked.summary(),
                ));
            }
        }
        self.agents("plan list")?;
        let listed = self.agents("plan list")?;
        let warnings = plans::warnings(&listed);
        if !listed.is_ok() || !warnings.is_empty() {
            let detail = format!("plan list: {} {}", warnings.join("; "), listed.summary());
            return Ok(AttackVerdict::Broken(BrokenPromise::Stuck, detail));
        }
        Ok(AttackVerdict::Held)
    }
}

/// A step that writes a file of the repository `one`.
pub fn write_step(path: &str, content: &str) -> String {
    format!(
        "- {{tool: builtin/file-write, resource: local/one, input: {{path: {path}, content: \"{content}\\n\"}}}}\n"
    )
}

pub fn lost(detail: String) -> Result<AttackVerdict> {
    Ok(AttackVerdict::Broken(BrokenPromise::Lost, detail))
}

pub fn partial(detail: String) -> Result<AttackVerdict> {
    Ok(AttackVerdict::Broken(BrokenPromise::Partial, detail))
}

pub fn stuck(detail: String) -> Result<AttackVerdict> {
    Ok(AttackVerdict::Broken(BrokenPromise::Stuck, detail))
}
