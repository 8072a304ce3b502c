//! `cargo xtask attack`: attacks the program from outside and counts the results.
//!
//! It knows the binary and its documentation, never the crates. Each family is a module: `escapes`
//! from sandboxes, `kills` at system calls and at random moments, `races` between commands, hostile
//! `repositories` and hostile `definitions`. The suite requires every attack to fail. Start reading
//! at [`run`]; `machine` is the simulated machine, `tally` counts.

pub mod definitions;
pub mod escapes;
pub mod kills;
pub mod machine;
pub mod options;
pub mod plans;
pub mod races;
pub mod repositories;
pub mod strace;
pub mod tally;

use std::sync::Mutex;
use std::time::Instant;

use anyhow::Result;

use crate::{environment, output, process};
use machine::Setup;
use options::{AttackFamily, AttackOptions};
use tally::Tally;

/// Runs the attacks; fails if one succeeds.
pub fn run(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|it| it == "--help" || it == "-h") {
        output::line(options::USAGE);
        return Ok(());
    }
    let options = AttackOptions::parse(arguments)?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    let setup = Setup::new(&program, options.keep)?;
    let mut tally = Tally::default();
    let outcome = attack(&setup, &options, &mut tally);
    if !options.keep {
        crate::files::remove_folder(&setup.base)?;
    }
    outcome?;
    let with_program = match &options.program {
        Some(program) => format!(" --program {}", program.display()),
        None => String::new(),
    };
    report(&tally, &with_program);
    let is_enough = has_enough_escapes(&options, tally.count_distinct(AttackFamily::Escapes));
    if !is_enough {
        output::line(&format!(
            "fewer than {ESCAPES_MINIMUM} different escapes counted"
        ));
    }
    if tally.is_clean() && is_enough {
        Ok(())
    } else {
        Err(output::AlreadyReported.into())
    }
}

/// The minimum number of distinct escapes in a run without `--only`. An attempt does not count if
/// the machine lacks what it needs, so a run on a poor machine would prove little.
const ESCAPES_MINIMUM: usize = 150;

fn has_enough_escapes(options: &AttackOptions, counted: usize) -> bool {
    let is_whole = options.families.contains(&AttackFamily::Escapes) && options.only.is_none();
    !is_whole || counted >= ESCAPES_MINIMUM
}

fn build() -> Result<std::path::PathBuf> {
    let mut cargo = process::cargo(&environment::workspace_root());
    process::run(cargo.args([
        "build",
        "--locked",
        "-p",
        "cleveragents-cli",
        "--bin",
        "agents",
    ]))?;
    Ok(environment::target_dir().join("debug/agents"))
}

fn attack(setup: &Setup, options: &AttackOptions, tally: &mut Tally) -> Result<()> {
    for family in &options.families {
        output::heading(family.name());
        let begun = Instant::now();
        let outcomes = match family {
            AttackFamily::Escapes => escapes::run(setup, options)?,
            AttackFamily::Kills => kills::run(setup, options)?,
            AttackFamily::Repositories => repositories::run(setup, options)?,
            AttackFamily::Definitions => definitions::run(setup, options)?,
            AttackFamily::Races => races::run(setup, options)?,
        };
        let seconds = begun.elapsed().as_secs();
        output::line(&format!(
            "-- {}: {} attempts, {seconds} s",
            family.name(),
            outcomes.len()
        ));
        tally.add(outcomes);
    }
    Ok(())
}

fn report(tally: &Tally, with_program: &str) {
    let idle = tally.not_counted();
    if !idle.is_empty() {
        output::heading("not counted");
        idle.iter().for_each(|line| output::line(line));
    }
    let findings = tally.findings();
    if !findings.is_empty() {
        output::heading("attacks that succeeded");
        for line in &findings {
            output::line(&format!("{line}{with_program}"));
        }
    }
    for family in tally.idle_families() {
        output::line(&format!(
            "{family}: no attempt counted, so nothing is shown"
        ));
    }
    output::heading("attacks");
    output::line(&tally.table());
    output::line(&format!(
        "{} different escapes counted; {} attacks succeeded",
        tally.count_distinct(AttackFamily::Escapes),
        findings.len()
    ));
}

/// Processes the items with one thread per core; results keep the order of the items.
pub fn parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism()
        .map_or(2, usize::from)
        .max(2);
    let count = items.len();
    let queue = Mutex::new(items.into_iter().enumerate());
    let results = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().map_or(None, |mut it| it.next());
                    let Some((index, item)) = next else { break };
                    let result = work(item);
                    if let Ok(mut results) = results.lock() {
                        results.push((index, result));
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|it| it.into_inner());
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// A seeded random sequence (SplitMix64).
#[derive(Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    pub fn fraction(&mut self) -> f64 {
        f64::from(u32::try_from(self.number() >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }

    /// Below the limit, which must not be 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.number() % limit.max(1) as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{ESCAPES_MINIMUM, Random, has_enough_escapes};
    use crate::attack::options::AttackOptions;

    #[test]
    fn a_whole_run_must_count_enough_escapes() {
        let options = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
            AttackOptions::parse(&words).unwrap()
        };
        assert!(!has_enough_escapes(&options(&[]), ESCAPES_MINIMUM - 1));
        assert!(has_enough_escapes(&options(&[]), ESCAPES_MINIMUM));
        assert!(has_enough_escapes(&options(&["kills"]), 0));
        assert!(has_enough_escapes(&options(&["--only", "ptrace"]), 1));
    }

    #[test]
    fn a_seed_decides_the_numbers() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [random.number(), random.number()]
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        assert!((0.0..=1.0).contains(&Random::new(3).fraction()));
        assert!(Random::new(3).below(4) < 4);
    }

    #[test]
    fn results_keep_the_order_of_their_items() {
        let doubled = super::parallel((0..50).collect(), |it: u32| 2 * it);
        assert!(doubled.into_iter().eq((0..50).map(|it| 2 * it)));
    }
}
