//! Kills `plan apply` and `plan unapply`, for every destination: at each system call by injection,
//! and at random moments. Each kill starts from a copy of the same finished plan.
//!
//! `scenario` prepares and restores the state, `trace` finds the moments, `recovery_check` defines
//! what must hold afterwards, `database` does the same on PostgreSQL. Start reading at [`run`].

pub mod database;
pub mod recovery_check;
pub mod scenario;
pub mod trace;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::escapes::accounts;
use super::machine::{CommandOutput, LIMIT, RunningCommand, Setup, process_tree, send_signal};
use super::options::{AttackFamily, AttackOptions};
use super::tally::{AttackOutcome, AttackVerdict};
use super::{Random, parallel, strace};
use crate::cluster::PostgresCluster;
use crate::output;
use database::AttackDatabase;
use scenario::{AttackScenario, PreparedScenario};
use trace::{KillPoint, Trace};

/// The number of kills per scenario in the short form.
const SHORT_INJECTED: usize = 5;
const SHORT_RANDOM: usize = 1;

/// The number of random kills over all scenarios in the full form.
const FULL_RANDOM: usize = 1000;

/// Every n-th kill runs on PostgreSQL as well.
const POSTGRES_SHARE: usize = 10;

pub fn run(setup: &Setup, options: &AttackOptions) -> Result<Vec<AttackOutcome>> {
    let scenarios: Vec<AttackScenario> = AttackScenario::all();
    let wanted = |it: &AttackScenario| {
        let name = it.name();
        options
            .only
            .as_ref()
            .is_none_or(|only| name.contains(only.as_str()) || only.starts_with(&name))
    };
    let scenarios: Vec<AttackScenario> = scenarios.into_iter().filter(wanted).collect();
    let cluster = PostgresCluster::start()?;
    let indexed: Vec<(usize, AttackScenario)> = scenarios.into_iter().enumerate().collect();
    let count = indexed.len();
    let outcomes = parallel(indexed, |(index, scenario)| {
        let assault = ScenarioKills {
            setup,
            options,
            scenario,
            index,
            count,
        };
        let outcomes = assault
            .run(&cluster)
            .unwrap_or_else(|error| vec![assault.preparation_failure(&error)]);
        let broken = |it: &&AttackOutcome| matches!(it.verdict, AttackVerdict::Broken(..));
        output::line(&format!(
            "{}: {} kills, {} broken",
            scenario.name(),
            outcomes.len(),
            outcomes.iter().filter(broken).count()
        ));
        outcomes
    });
    Ok(outcomes.concat())
}

/// The target of a random kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KillTarget {
    Program,
    /// The program and all its descendants, whatever their process groups.
    Family,
}

impl KillTarget {
    fn name(self) -> &'static str {
        match self {
            KillTarget::Program => "program",
            KillTarget::Family => "family",
        }
    }

    /// Parses `family after 120 ms`.
    fn parse(text: &str) -> Option<(KillTarget, Duration)> {
        let (name, after) = text.strip_suffix(" ms")?.split_once(" after ")?;
        let target = [KillTarget::Program, KillTarget::Family]
            .into_iter()
            .find(|it| it.name() == name)?;
        Some((target, Duration::from_millis(after.parse().ok()?)))
    }
}

struct ScenarioKills<'a> {
    setup: &'a Setup,
    options: &'a AttackOptions,
    scenario: AttackScenario,
    index: usize,
    count: usize,
}

impl ScenarioKills<'_> {
    fn run(&self, cluster: &PostgresCluster) -> Result<Vec<AttackOutcome>> {
        let who = accounts(self.options)
            .first()
            .copied()
            .context("no account to attack from")?;
        let prepared = PreparedScenario::new(self.setup, who, self.scenario, None)?;
        let moments = self.kill_points(&prepared)?;
        let mut outcomes = Vec::new();
        for moment in &moments {
            outcomes.push(self.inject(&prepared, moment)?);
        }
        for (target, after) in self.random_kills(&prepared)? {
            outcomes.push(self.kill_after(&prepared, target, after)?);
        }
        let on_postgres: Vec<&KillPoint> = self.postgres_share(&moments);
        if !on_postgres.is_empty() {
            let database = AttackDatabase::new(cluster, &format!("kills_{}", self.index))?;
            let prepared = PreparedScenario::new(self.setup, who, self.scenario, Some(database))?;
            for moment in on_postgres {
                outcomes.push(self.inject(&prepared, moment)?);
            }
        }
        Ok(outcomes)
    }

    fn preparation_failure(&self, error: &anyhow::Error) -> AttackOutcome {
        let name = self.scenario.name();
        AttackOutcome {
            family: AttackFamily::Kills,
            setting: "sqlite".into(),
            repeat: format!("kills --only '{name}'"),
            name,
            verdict: AttackVerdict::NotCounted(format!("cannot be prepared: {error:#}")),
        }
    }

    fn postgres_share<'m>(&self, moments: &'m [KillPoint]) -> Vec<&'m KillPoint> {
        if !self.options.is_full() && !self.index.is_multiple_of(4) {
            return Vec::new();
        }
        let offset = usize::try_from(self.options.seed).unwrap_or(0) % POSTGRES_SHARE;
        let offset = offset.min(moments.len().saturating_sub(1));
        moments
            .iter()
            .skip(offset)
            .step_by(POSTGRES_SHARE)
            .collect()
    }

    /// The part of `--only` after the scenario's name.
    fn selected_kill(&self) -> Option<&str> {
        let only = self.options.only.as_deref()?;
        only.strip_prefix(&self.scenario.name())?.strip_prefix('/')
    }

    /// The random kills: as many as the form requires, or the one that was requested.
    fn random_kills(&self, prepared: &PreparedScenario) -> Result<Vec<(KillTarget, Duration)>> {
        if let Some(wanted) = self.selected_kill() {
            return Ok(KillTarget::parse(wanted).into_iter().collect());
        }
        let count = if self.options.is_full() {
            FULL_RANDOM.div_ceil(self.count)
        } else {
            SHORT_RANDOM
        };
        let mut random = Random::new(self.options.seed.wrapping_add(self.index as u64));
        let duration = self.duration(prepared)?;
        let kills = (0..count).map(|number| {
            let target = [KillTarget::Program, KillTarget::Family][number % 2];
            (target, duration.mul_f64(random.fraction() * 1.1))
        });
        Ok(kills.collect())
    }

    /// The moments of injected kills: all of a traced run, a sample of them, or the one that was
    /// requested.
    fn kill_points(&self, prepared: &PreparedScenario) -> Result<Vec<KillPoint>> {
        let wanted = self.selected_kill();
        if let Some((call, number)) = wanted.and_then(|it| it.split_once(':')) {
            let number = number.parse().context("the number of a call")?;
            return Ok(vec![KillPoint {
                call: call.to_owned(),
                number,
            }]);
        }
        prepared.restore()?;
        let file = prepared.machine.path("trace");
        let filter = format!("trace={}", trace::filter());
        let options = ["-e", &filter, "-o", &file.to_string_lossy()];
        self.run_under_strace(prepared, &options)?;
        let trace = Trace::parse(&prepared.machine.read("trace"));
        let moments = trace.kill_points();
        let (name, calls, count) = (self.scenario.name(), trace.len(), moments.len());
        output::line(&format!(
            "{name}: {calls} system calls, {count} moments to kill at"
        ));
        Ok(match wanted {
            Some(call) => moments.into_iter().filter(|it| it.call == call).collect(),
            None if self.options.is_full() => {
                let step = self.scenario.step();
                moments.into_iter().step_by(step).collect()
            }
            None => trace::sample(&moments, SHORT_INJECTED, self.options.seed),
        })
    }

    fn run_under_strace(
        &self,
        prepared: &PreparedScenario,
        options: &[&str],
    ) -> Result<CommandOutput> {
        let words = prepared.arguments();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = strace::command(&prepared.machine, options, &words);
        prepared.machine.run_command(&mut command, LIMIT)
    }

    fn inject(&self, prepared: &PreparedScenario, moment: &KillPoint) -> Result<AttackOutcome> {
        prepared.restore()?;
        let KillPoint { call, number } = moment;
        let kill = strace::inject(call, *number, "SIGKILL");
        let kill: Vec<&str> = kill.iter().map(String::as_str).collect();
        let answer = self.run_under_strace(prepared, &kill)?;
        let verdict = match answer.code {
            Some(_) => AttackVerdict::NotCounted("the run ended before the call".into()),
            None => recovery_check::check_recovery(prepared)?,
        };
        Ok(self.outcome(prepared, &format!("{call}:{number}"), verdict))
    }

    fn duration(&self, prepared: &PreparedScenario) -> Result<Duration> {
        prepared.restore()?;
        let begun = Instant::now();
        prepared.run_command()?;
        Ok(begun.elapsed())
    }

    fn kill_after(
        &self,
        prepared: &PreparedScenario,
        target: KillTarget,
        after: Duration,
    ) -> Result<AttackOutcome> {
        prepared.restore()?;
        let words = prepared.arguments();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let running = RunningCommand::start(&mut prepared.machine.agents_command(&words))?;
        std::thread::sleep(after);
        let process_id = running.child.id();
        let killed = match target {
            KillTarget::Program => vec![process_id],
            KillTarget::Family => process_tree(process_id),
        };
        for process_id in killed {
            send_signal("KILL", &process_id.to_string());
        }
        running.finish(LIMIT)?;
        let verdict = recovery_check::check_recovery(prepared)?;
        let moment = format!("{} after {} ms", target.name(), after.as_millis());
        Ok(self.outcome(prepared, &moment, verdict))
    }

    fn outcome(
        &self,
        prepared: &PreparedScenario,
        moment: &str,
        verdict: AttackVerdict,
    ) -> AttackOutcome {
        let name = format!("{}/{moment}", self.scenario.name());
        AttackOutcome {
            family: AttackFamily::Kills,
            setting: prepared.database_name().to_owned(),
            repeat: format!("kills --only '{name}' --seed {}", self.options.seed),
            name,
            verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_kill_is_read_from_its_name() {
        let expected = Some((KillTarget::Family, Duration::from_millis(120)));
        assert_eq!(KillTarget::parse("family after 120 ms"), expected);
        assert_eq!(KillTarget::parse("unlinkat:7"), None);
    }
}
