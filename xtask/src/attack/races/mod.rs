//! Commands that run at the same time: on one plan, on plans that touch the same files, beside the user's
//! own git, beside a stopped process and beside `gc`.
//!
//! `rounds` holds the races; each is a function that sets up a machine, lets commands race, and says what
//! broke. `ground` has what they share. Start reading at [`RACES`].

pub mod ground;
pub mod rounds;
pub mod users;

use anyhow::Result;

use super::escapes::accounts;
use super::machine::Setup;
use super::options::{Family, Options};
use super::tally::{Outcome, Verdict};
use super::{Random, parallel};
use ground::Ground;

/// One race: its name, its function, and its rounds in the short and the full form.
type Race = (
    &'static str,
    fn(&mut Ground) -> Result<Verdict>,
    usize,
    usize,
);

const RACES: &[Race] = &[
    ("commands-on-one-plan", rounds::commands_on_one_plan, 4, 60),
    ("execute-by-many", rounds::execute_by_many, 2, 20),
    ("apply-by-many", rounds::apply_by_many, 2, 20),
    ("same-line", rounds::same_line, 2, 20),
    ("different-files", rounds::different_files, 2, 20),
    ("gc-beside-work", rounds::gc_beside_work, 1, 10),
    ("same-key", rounds::same_key, 1, 10),
    ("settings-by-many", rounds::settings_by_many, 1, 10),
    (
        "commit-beside-two-repositories",
        users::commit_beside_two_repositories,
        6,
        60,
    ),
    ("edit-beside-apply", users::edit_beside_apply, 3, 40),
    ("reset-after-kill", users::reset_after_kill, 2, 20),
    ("stopped-apply", users::stopped_apply, 4, 30),
    ("repository-gone", users::repository_gone, 2, 10),
];

/// Runs every race as often as the form demands.
pub fn run(setup: &Setup, options: &Options) -> Result<Vec<Outcome>> {
    let mut jobs = Vec::new();
    for (name, race, short, full) in RACES {
        let rounds = match options.is_full() {
            true => *full,
            false => *short,
        };
        let names = (0..rounds).map(|round| (format!("{name}/{round}"), round, *race));
        jobs.extend(names.filter(|it| options.wants(&it.0)));
    }
    let who = accounts(options)[0];
    let outcomes = parallel(jobs, |(name, round, race)| {
        let seed = options.seed.wrapping_mul(1000).wrapping_add(round as u64);
        let verdict =
            Ground::new(setup, who, Random::new(seed)).and_then(|mut ground| race(&mut ground));
        let verdict =
            verdict.unwrap_or_else(|it| Verdict::NotCounted(format!("cannot be made: {it:#}")));
        Outcome {
            family: Family::Races,
            setting: "sqlite".to_owned(),
            repeat: format!("races --only '{name}' --seed {}", options.seed),
            name,
            verdict,
        }
    });
    Ok(outcomes)
}
