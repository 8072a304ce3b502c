//! Attempts to escape from a sandbox: scripts and file tools that run in one, as root and as user
//! at both levels, judged from outside.
//!
//! The tables of attempts are in `kernel`, `processes`, `files`, `git`, `network`, `credentials`,
//! `tools` and `resources`. Each attempt is first made outside the sandbox as a control: one that
//! cannot work even there proves nothing and is not counted. Start reading at [`run`].

pub mod attempt;
pub mod bundle;
pub mod content;
pub mod credentials;
pub mod escape_run;
pub mod files;
pub mod git;
pub mod kernel;
pub mod network;
pub mod processes;
pub mod resources;
pub mod target_machine;
pub mod tools;

use std::collections::BTreeMap;

use anyhow::Result;

use super::machine::Setup;
use super::options::{AttackAccount, AttackFamily, AttackOptions, ConfinementLevel};
use super::parallel;
use super::tally::AttackOutcome;
use crate::environment;
use attempt::{AttackCase, StdioKind};
use escape_run::EscapeRun;
use target_machine::{HomeKind, TargetMachine};

/// Whether each attempt works outside, by name.
type Controls = BTreeMap<String, bool>;

/// Makes all attempts for each account and level.
pub fn run(setup: &Setup, options: &AttackOptions) -> Result<Vec<AttackOutcome>> {
    let accounts = accounts(options);
    let cases: Vec<AttackCase> = cases()
        .into_iter()
        .filter(|it| options.selects(&it.name))
        .collect();
    let controls = parallel(accounts.clone(), |account| {
        run_controls(setup, account, &cases)
    });
    let mut settings = Vec::new();
    for (account, controls) in accounts.into_iter().zip(controls) {
        let controls = controls?;
        for level in levels(options) {
            settings.push((account, level, controls.clone()));
        }
    }
    let outcomes = parallel(settings, |(account, level, controls)| {
        let siege = EscapeRun {
            setup,
            options,
            account,
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
pub fn accounts(options: &AttackOptions) -> Vec<AttackAccount> {
    let possible = if environment::is_root() {
        vec![AttackAccount::Root, AttackAccount::User]
    } else {
        vec![AttackAccount::User]
    };
    let wanted = |who: &AttackAccount| options.account.is_none_or(|it| it == *who);
    possible.into_iter().filter(wanted).collect()
}

fn levels(options: &AttackOptions) -> Vec<ConfinementLevel> {
    match options.level {
        Some(level) => vec![level],
        None => vec![ConfinementLevel::Namespaces, ConfinementLevel::Landlock],
    }
}

/// Every attempt that is a script.
fn cases() -> Vec<AttackCase> {
    let tables = [
        kernel::ATTEMPTS,
        processes::ATTEMPTS,
        files::ATTEMPTS,
        git::ATTEMPTS,
        network::ATTEMPTS,
    ];
    let mut cases: Vec<AttackCase> = tables.concat().iter().map(AttackCase::from).collect();
    for path in kernel::REWRITTEN_FILES {
        let script = format!("v=$(cat {path}) && printf '%s\\n' \"$v\" > {path} && echo THROUGH");
        cases.push(AttackCase::shell(format!("rewrite {path}"), script));
    }
    cases.extend(credential_cases(HomeKind::Usual));
    cases
}

/// One attempt for each file that only the user should read.
fn credential_cases(home: HomeKind) -> Vec<AttackCase> {
    let read = |variable: &str, path: &str| {
        let name = format!("{}: read {path}", home.name());
        AttackCase::shell(name, format!("cat \"${variable}/{path}\" | rev"))
    };
    let homes = credentials::IN_HOME.iter().map(|path| read("H", path));
    let others = credentials::OUTSIDE_HOME
        .iter()
        .map(|path| read("ROOT", path));
    homes.chain(others).collect()
}

/// Makes each attempt outside: several in one run first, then separately each that did not work
/// there.
fn run_controls(setup: &Setup, account: AttackAccount, cases: &[AttackCase]) -> Result<Controls> {
    let target = TargetMachine::new(setup, account, HomeKind::Usual)?;
    let mut controls = Controls::new();
    let together: Vec<&AttackCase> = cases.iter().filter(|it| !it.alone).collect();
    for cases in together.chunks(escape_run::BATCH_SIZE) {
        let answer =
            target.run_on_host(&bundle::script(&target.variables, cases), StdioKind::Pipe)?;
        let sections = bundle::sections(&answer.stdout, cases.len());
        for (case, section) in cases.iter().zip(sections) {
            controls.insert(case.name.clone(), target.reveals_escape(&section));
        }
        target.reset()?;
    }
    for case in cases {
        if controls.get(&case.name) != Some(&true) {
            controls.insert(case.name.clone(), check_control(&target, case)?);
        }
    }
    Ok(controls)
}

/// Returns whether one attempt works outside.
fn check_control(target: &TargetMachine, case: &AttackCase) -> Result<bool> {
    let before = target.snapshot();
    let mark = escape_run::unique_mark();
    let variables = format!("{}export MARK={mark}\n", target.variables);
    let answer = target.run_on_host(&bundle::script(&variables, &[case]), case.stdio)?;
    let mut works = target.reveals_escape(&answer.stdout);
    works |= target.end_survivors(&mark).is_some();
    if target.snapshot() != before || case.alone {
        works |= target.snapshot() != before;
        target.reset()?;
    }
    Ok(works)
}

/// Arguments that repeat one attempt.
fn repeat_arguments(account: AttackAccount, level: ConfinementLevel, name: &str) -> String {
    let (family, who, level) = (AttackFamily::Escapes.name(), account.name(), level.name());
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
