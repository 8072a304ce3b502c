//! Attempts to get out of a sandbox: scripts and file tools that run in one, for root and user at both
//! levels, judged from outside.
//!
//! The tables of attempts are in `kernel`, `processes`, `files`, `git`, `network`, `credentials`, `tools`
//! and `resources`. Each attempt is first made outside the sandbox as a control: one that cannot
//! work even there proves nothing and is not counted. Start reading at [`run`].

pub mod attempt;
pub mod bundle;
pub mod content;
pub mod credentials;
pub mod files;
pub mod git;
pub mod kernel;
pub mod network;
pub mod processes;
pub mod resources;
pub mod siege;
pub mod tools;
pub mod world;

use std::collections::BTreeMap;

use anyhow::Result;

use super::machine::Setup;
use super::options::{Family, Level, Options, Who};
use super::parallel;
use super::tally::Outcome;
use crate::environment;
use attempt::{Case, Place};
use siege::Siege;
use world::{Home, World};

/// Whether each attempt works outside, by name.
type Controls = BTreeMap<String, bool>;

/// Makes all attempts for each account and level.
pub fn run(setup: &Setup, options: &Options) -> Result<Vec<Outcome>> {
    let accounts = accounts(options);
    let cases: Vec<Case> = cases()
        .into_iter()
        .filter(|it| options.wants(&it.name))
        .collect();
    let controls = parallel(accounts.clone(), |who| controls(setup, who, &cases));
    let mut settings = Vec::new();
    for (who, controls) in accounts.into_iter().zip(controls) {
        let controls = controls?;
        for level in levels(options) {
            settings.push((who, level, controls.clone()));
        }
    }
    let outcomes = parallel(settings, |(who, level, controls)| {
        let siege = Siege {
            setup,
            options,
            who,
            level,
            controls: &controls,
        };
        siege.run(&cases)
    });
    let mut all = Vec::new();
    for outcomes in outcomes {
        all.extend(outcomes?);
    }
    Ok(all)
}

/// The accounts to attack from: both if the suite runs as root.
pub fn accounts(options: &Options) -> Vec<Who> {
    let possible = match environment::is_root() {
        true => vec![Who::Root, Who::User],
        false => vec![Who::User],
    };
    let wanted = |who: &Who| options.who.is_none_or(|it| it == *who);
    possible.into_iter().filter(wanted).collect()
}

fn levels(options: &Options) -> Vec<Level> {
    match options.level {
        Some(level) => vec![level],
        None => vec![Level::Namespaces, Level::Landlock],
    }
}

/// Every attempt that is a script.
fn cases() -> Vec<Case> {
    let tables = [
        kernel::ATTEMPTS,
        processes::ATTEMPTS,
        files::ATTEMPTS,
        git::ATTEMPTS,
        network::ATTEMPTS,
    ];
    let mut cases: Vec<Case> = tables.concat().iter().map(Case::from).collect();
    for path in kernel::REWRITTEN {
        let script = format!("v=$(cat {path}) && printf '%s\\n' \"$v\" > {path} && echo THROUGH");
        cases.push(Case::shell(format!("rewrite {path}"), script));
    }
    cases.extend(credential_cases(Home::Usual));
    cases
}

/// One attempt for each file that only the user should read.
fn credential_cases(home: Home) -> Vec<Case> {
    let read = |variable: &str, path: &str| {
        let name = format!("{}: read {path}", home.name());
        Case::shell(name, format!("cat \"${variable}/{path}\" | rev"))
    };
    let homes = credentials::IN_HOME.iter().map(|path| read("H", path));
    let others = credentials::ELSEWHERE.iter().map(|path| read("ROOT", path));
    homes.chain(others).collect()
}

/// Makes each attempt outside: several in one run first, and on its own each that did not show there.
fn controls(setup: &Setup, who: Who, cases: &[Case]) -> Result<Controls> {
    let world = World::new(setup, who, Home::Usual)?;
    let mut controls = Controls::new();
    let together: Vec<&Case> = cases.iter().filter(|it| !it.alone).collect();
    for cases in together.chunks(siege::TOGETHER) {
        let answer = world.run_outside(&bundle::script(&world.variables, cases), Place::Pipe)?;
        let sections = bundle::sections(&answer.stdout, cases.len());
        for (case, section) in cases.iter().zip(sections) {
            controls.insert(case.name.clone(), world.shows(&section));
        }
        world.reset()?;
    }
    for case in cases {
        if controls.get(&case.name) != Some(&true) {
            controls.insert(case.name.clone(), control(&world, case)?);
        }
    }
    Ok(controls)
}

/// Whether one attempt works outside.
fn control(world: &World, case: &Case) -> Result<bool> {
    let before = world.snapshot();
    let mark = siege::mark();
    let variables = format!("{}export MARK={mark}\n", world.variables);
    let answer = world.run_outside(&bundle::script(&variables, &[case]), case.place)?;
    let mut works = world.shows(&answer.stdout);
    works |= world.end_survivors(&mark).is_some();
    if world.snapshot() != before || case.alone {
        works |= world.snapshot() != before;
        world.reset()?;
    }
    Ok(works)
}

/// Arguments that repeat one attempt.
fn repeat(who: Who, level: Level, name: &str) -> String {
    let (family, who, level) = (Family::Escapes.name(), who.name(), level.name());
    format!("{family} --{who} --level {level} --only '{name}'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_enough_attempts_and_their_names_are_unique() {
        let cases = cases();
        let names: BTreeSet<&str> = cases.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), cases.len());
        assert!(names.len() >= 150, "{}", names.len());
    }

    #[test]
    fn scripts_do_not_end_their_own_here_document() {
        assert!(
            cases()
                .iter()
                .all(|it| !it.script.contains("END_OF_ATTEMPT"))
        );
    }
}
