//! Concurrent commands: on one plan, on plans that touch the same files, beside the user's own git,
//! beside a stopped process and beside `gc`.
//!
//! `command_races` and `user_races` hold the races; each is a function that sets up a machine, lets
//! commands race, and reports violations. `race_machine` has the shared code. Start reading at
//! [`RACES`].

pub mod command_races;
pub mod race_machine;
pub mod user_races;

use anyhow::Result;

use super::escapes::accounts;
use super::machine::Setup;
use super::options::{AttackFamily, AttackOptions};
use super::tally::{AttackOutcome, AttackVerdict};
use super::{Random, parallel};
use race_machine::RaceMachine;

/// One race: its name, its function, and its rounds in the short and the full form.
type Race = (
    &'static str,
    fn(&mut RaceMachine) -> Result<AttackVerdict>,
    usize,
    usize,
);

const RACES: &[Race] = &[
    (
        "commands-on-one-plan",
        command_races::commands_on_one_plan,
        4,
        60,
    ),
    ("execute-by-many", command_races::execute_by_many, 2, 20),
    ("apply-by-many", command_races::apply_by_many, 2, 20),
    ("same-line", command_races::same_line, 2, 20),
    ("different-files", command_races::different_files, 2, 20),
    ("gc-beside-work", command_races::gc_beside_work, 1, 10),
    ("same-key", command_races::same_key, 1, 10),
    ("settings-by-many", command_races::settings_by_many, 1, 10),
    (
        "commit-beside-two-repositories",
        user_races::commit_beside_two_repositories,
        6,
        60,
    ),
    ("edit-beside-apply", user_races::edit_beside_apply, 3, 40),
    ("reset-after-kill", user_races::reset_after_kill, 2, 20),
    ("stopped-apply", user_races::stopped_apply, 4, 30),
    ("repository-gone", user_races::repository_gone, 2, 10),
];

/// Runs every race as often as the form requires.
pub fn run(setup: &Setup, options: &AttackOptions) -> Result<Vec<AttackOutcome>> {
    let mut jobs = Vec::new();
    for (name, race, short, full) in RACES {
        let rounds = if options.is_full() { *full } else { *short };
        let names = (0..rounds).map(|round| (format!("{name}/{round}"), round, *race));
        jobs.extend(names.filter(|it| options.selects(&it.0)));
    }
    let who = accounts(options)[0];
    let outcomes = parallel(jobs, |(name, round, race)| {
        let seed = options.seed.wrapping_mul(1000).wrapping_add(round as u64);
        let verdict = RaceMachine::new(setup, who, Random::new(seed))
            .and_then(|mut ground| race(&mut ground));
        let verdict = verdict
            .unwrap_or_else(|it| AttackVerdict::NotCounted(format!("cannot be made: {it:#}")));
        AttackOutcome {
            family: AttackFamily::Races,
            setting: "sqlite".to_owned(),
            repeat: format!("races --only '{name}' --seed {}", options.seed),
            name,
            verdict,
        }
    });
    Ok(outcomes)
}
