//! All attempts of one account at one level.

use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::attempt::{Beside, Case, Place};
use super::world::{Home, World, can_change_accounts};
use super::{Controls, bundle, credential_cases, repeat, resources, tools};
use crate::attack::machine::{Answer, Running, Setup, send_signal};
use crate::attack::options::{Family, Level, Options, Who};
use crate::attack::tally::{Fault, Outcome, Verdict, shortened};

/// Attempts that share one run of the program.
pub const TOGETHER: usize = 20;

/// Seconds for one run of several attempts.
const SECONDS: u32 = 170;

/// Replaces credential files by rename until it or the program that started it is killed.
const REPLACE: &str = r#"trap "end=1" TERM; while [ -z "$end" ] && [ -d /proc/$PPID ]; do for f in "$OUT/../home/.netrc" "$OUT/../home/.ssh/id_ed25519" "$OUT/../home/.aws/credentials" "$OUT/../home/.env" "$OUT/../shop/.env"; do cp -p "$f" "$f.new" && mv "$f.new" "$f"; done; sleep 0.02; done"#;

/// A number of seconds to sleep that no other process on the machine sleeps.
pub fn mark() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("700.{}{count:05}", std::process::id())
}

/// The attempts of one account at one level.
#[derive(Debug)]
pub struct Siege<'a> {
    pub setup: &'a Setup,
    pub options: &'a Options,
    pub who: Who,
    pub level: Level,
    pub controls: &'a Controls,
}

impl Siege<'_> {
    pub fn run(&self, cases: &[Case]) -> Result<Vec<Outcome>> {
        let world = World::new(self.setup, self.who, Home::Usual)?;
        let works = world.run_inside(self.level, "echo works", 20)?;
        if !works.data()["output"]["stdout"]
            .to_string()
            .contains("works")
        {
            let reason = format!("the level does not work here: {}", works.summary());
            let rows = cases
                .iter()
                .map(|it| self.outcome(&it.name, Verdict::NotCounted(reason.clone())));
            return Ok(rows.collect());
        }
        let mut outcomes = self.scripts(&world, cases)?;
        // The file tools are not confined by a level, so one is enough.
        if self.level == Level::Namespaces || self.options.level.is_some() {
            outcomes.extend(self.tools(&world)?);
        }
        outcomes.extend(self.deaths(&world)?);
        outcomes.extend(self.resources(&world)?);
        for home in self.other_homes() {
            outcomes.extend(self.other_home(home)?);
        }
        Ok(outcomes)
    }

    /// The unusual homes to try: all of them, or in the short form one that differs between settings.
    fn other_homes(&self) -> Vec<Home> {
        let all = [Home::Temporary, Home::Unset, Home::Another];
        if !self.is_short() {
            return all.to_vec();
        }
        vec![all[self.turn() % all.len()]]
    }

    /// A number that differs between settings and seeds, for samples of the short form.
    fn turn(&self) -> usize {
        let account = usize::from(self.who == Who::User);
        let level = usize::from(self.level == Level::Landlock);
        let seed = usize::try_from(self.options.seed % 6).unwrap_or(0);
        2 * account + level + seed
    }

    fn is_short(&self) -> bool {
        !self.options.is_full() && self.options.only.is_none()
    }

    fn outcome(&self, name: &str, verdict: Verdict) -> Outcome {
        Outcome {
            family: Family::Escapes,
            setting: format!("{} {}", self.who.name(), self.level.name()),
            name: name.to_owned(),
            verdict,
            repeat: repeat(self.who, self.level, name),
        }
    }

    /// The reason why an attempt proves nothing here.
    fn no_proof(&self, case: &Case) -> Option<String> {
        if case.beyond_landlock && self.level == Level::Landlock {
            return Some("the guide promises nothing about it at this level".into());
        }
        let works = self.controls.get(&case.name).copied().unwrap_or(false);
        (!works).then(|| "its control outside the sandbox fails".into())
    }

    fn scripts(&self, world: &World, cases: &[Case]) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        for case in cases {
            match self.no_proof(case) {
                Some(reason) => {
                    outcomes.push(self.outcome(&case.name, Verdict::NotCounted(reason)))
                }
                None if case.alone => alone.push(case),
                None => together.push(case),
            }
        }
        for cases in together.chunks(TOGETHER) {
            outcomes.extend(self.group(world, cases)?);
        }
        // In the short form each of these runs in every other setting.
        let half = self.turn() + usize::from(self.who == Who::User);
        let runs = |index: usize| !self.is_short() || (index + half).is_multiple_of(2);
        for (_, case) in alone.into_iter().enumerate().filter(|it| runs(it.0)) {
            outcomes.push(self.single(world, case)?);
        }
        Ok(outcomes)
    }

    /// Makes several attempts in one run; if anything outside changes, each once more on its own.
    fn group(&self, world: &World, cases: &[&Case]) -> Result<Vec<Outcome>> {
        let before = world.snapshot();
        let script = bundle::script(&world.variables, cases);
        let answer = world.run_inside(self.level, &script, SECONDS)?;
        let output = stdout(&answer);
        if !bundle::is_whole(&output, cases.len()) || world.snapshot() != before {
            world.reset()?;
            return cases.iter().map(|case| self.single(world, case)).collect();
        }
        let sections = bundle::sections(&output, cases.len());
        let verdicts = cases.iter().zip(sections).map(|(case, output)| {
            let verdict = match world.shows(&output) {
                true => Verdict::Broken(Fault::Through, shortened(&output)),
                false => Verdict::Held,
            };
            self.outcome(&case.name, verdict)
        });
        Ok(verdicts.collect())
    }

    fn single(&self, world: &World, case: &Case) -> Result<Outcome> {
        let before = world.snapshot();
        let mark = mark();
        let variables = format!("{}export MARK={mark}\n", world.variables);
        let beside = start_beside(world, case.beside)?;
        let script = bundle::script(&variables, &[case]);
        let answer = match case.place {
            Place::Pipe => world.run_inside(self.level, &script, 40),
            Place::Terminal => world.run_on_terminal(self.level, &script, 40),
        };
        if let Some(mut child) = beside {
            // It ends by itself between two replacements, so that nothing half-made is left.
            send_signal("TERM", &child.id().to_string());
            child.wait()?;
        }
        let answer = answer?;
        let output = stdout(&answer);
        let survivor = world.end_survivors(&mark);
        let after = world.snapshot();
        let changed = after
            .iter()
            .find(|(path, it)| before.get(*path) != Some(it));
        let changed =
            changed.or_else(|| before.iter().find(|(path, _)| !after.contains_key(*path)));
        let verdict = if world.shows(&output) {
            Verdict::Broken(Fault::Through, shortened(&output))
        } else if let Some(process_id) = survivor {
            outlives(&process_id)
        } else if let Some((path, _)) = changed {
            Verdict::Broken(Fault::Through, format!("{} changed", path.display()))
        } else if answer.timed_out {
            Verdict::Broken(Fault::Stuck, answer.summary())
        } else {
            Verdict::Held
        };
        world.reset()?;
        Ok(self.outcome(&case.name, verdict))
    }

    fn tools(&self, world: &World) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        let out = world.machine.path("outside").display().to_string();
        let wanted = tools::ATTEMPTS.iter().filter(|it| self.options.wants(it.0));
        for (name, tool, input) in wanted {
            let limit = crate::attack::machine::LIMIT;
            let inside = tools::control(input);
            if !world.run_tool(self.level, tool, &inside, limit)?.is_ok() {
                let reason = "the same call inside the tree fails".to_owned();
                outcomes.push(self.outcome(name, Verdict::NotCounted(reason)));
                continue;
            }
            let before = world.snapshot();
            let answer = world.run_tool(self.level, tool, &input.replace("OUT", &out), limit)?;
            let after = world.snapshot();
            let verdict = if world.shows(&answer.text()) || before != after {
                world.reset()?;
                Verdict::Broken(Fault::Through, answer.summary())
            } else {
                Verdict::Held
            };
            outcomes.push(self.outcome(name, verdict));
        }
        Ok(outcomes)
    }

    /// A command must not outlive the program that is killed while it runs.
    fn deaths(&self, world: &World) -> Result<Vec<Outcome>> {
        let scripts = [
            ("outlive-killed-program", "sleep $MARK"),
            (
                "outlive-killed-program-detached",
                "env -i setsid -f sleep $MARK; sleep 60",
            ),
        ];
        let mut outcomes = Vec::new();
        for (name, script) in scripts.iter().filter(|it| self.options.wants(it.0)) {
            let mark = mark();
            let input = serde_json::json!({"command": script.replace("$MARK", &mark)}).to_string();
            let running = Running::start(&mut world.tool_command(self.level, "shell", &input)?)?;
            let began = wait_until(|| world.survivor(&mark).is_some(), 20);
            send_signal("KILL", &running.child.id().to_string());
            running.finish(crate::attack::machine::LIMIT)?;
            let ended = wait_until(|| world.survivor(&mark).is_none(), 10);
            let survivor = world.end_survivors(&mark);
            let verdict = match (began, ended) {
                (false, _) => Verdict::NotCounted("the command did not begin".into()),
                (true, true) => Verdict::Held,
                (true, false) => {
                    Verdict::Broken(Fault::Through, format!("process {survivor:?} lives on"))
                }
            };
            outcomes.push(self.outcome(name, verdict));
        }
        Ok(outcomes)
    }

    /// Commands that use up the machine end in time, with an answer, and leave nothing running.
    fn resources(&self, world: &World) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        let slow = self.options.is_full() || self.options.only.is_some();
        let slow = resources::SLOW.iter().filter(|_| slow);
        let all = resources::ATTEMPTS.iter().chain(slow);
        for (name, script) in all.filter(|it| self.options.wants(it.0)) {
            let mark = mark();
            let script = format!("MARK={mark}\n{script}");
            let input = serde_json::json!({"command": script, "timeout": resources::TOOL_SECONDS});
            let answer =
                world.run_tool(self.level, "shell", &input.to_string(), resources::LIMIT)?;
            let survivor = world.end_survivors(&mark);
            let next = world.machine.agents(&["plan", "list"])?;
            let verdict = if answer.timed_out || !next.is_ok() {
                Verdict::Broken(Fault::Stuck, answer.summary())
            } else if answer.data().is_null() {
                Verdict::Broken(
                    Fault::Stuck,
                    format!("no clear answer: {}", answer.summary()),
                )
            } else if let Some(process_id) = survivor {
                outlives(&process_id)
            } else {
                Verdict::Held
            };
            outcomes.push(self.outcome(name, verdict));
        }
        Ok(outcomes)
    }

    /// Reads the credentials where the home lies elsewhere.
    fn other_home(&self, home: Home) -> Result<Vec<Outcome>> {
        let cases: Vec<Case> = credential_cases(home);
        let cases: Vec<&Case> = cases
            .iter()
            .filter(|it| self.options.wants(&it.name))
            .collect();
        if cases.is_empty() || (home != Home::Temporary && !can_change_accounts()) {
            return Ok(Vec::new());
        }
        let world = World::new(self.setup, self.who, home)?;
        let mut outcomes = Vec::new();
        for cases in cases.chunks(4 * TOGETHER) {
            outcomes.extend(self.group(&world, cases)?);
        }
        Ok(outcomes)
    }
}

/// The verdict on a call that leaves a process running.
fn outlives(process_id: &str) -> Verdict {
    Verdict::Broken(
        Fault::Through,
        format!("process {process_id} outlives the call"),
    )
}

/// Polls until the condition holds, for so many seconds at most; returns whether it does.
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

fn start_beside(world: &World, beside: Beside) -> Result<Option<Child>> {
    match beside {
        Beside::Nothing => Ok(None),
        Beside::ReplaceCredentials => {
            let running = Running::start(&mut world.machine.command(&["sh", "-c", REPLACE]))?;
            Ok(Some(running.child))
        }
    }
}

/// What the command of a shell tool printed.
fn stdout(answer: &Answer) -> String {
    let data = answer.data();
    match data["output"]["stdout"].as_str() {
        Some(text) => text.to_owned(),
        None => answer.text(),
    }
}
