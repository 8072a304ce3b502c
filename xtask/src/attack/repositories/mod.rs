//! The whole lifecycle of a plan on unusual and hostile repositories: nothing in them is executed,
//! no work of the plan is dropped silently, and git agrees with the result.
//!
//! `table` lists the repositories, `plan_cycle` runs a plan through its lifecycle and checks it.
//! Start at [`run`].

pub mod plan_cycle;
pub mod table;

use anyhow::Result;

use super::escapes::accounts;
use super::machine::Setup;
use super::options::{AttackAccount, AttackFamily, AttackOptions};
use super::parallel;
use super::tally::{AttackOutcome, AttackVerdict};
use table::{EXECUTING_KEYS, REPOSITORIES};

/// A repository to attack with.
#[derive(Debug, Clone)]
pub struct RepositoryCase {
    pub name: String,
    pub script: String,
    pub change: String,
    pub expected: table::ExpectedResult,
}

/// Runs a plan through its lifecycle on each repository.
pub fn run(setup: &Setup, options: &AttackOptions) -> Result<Vec<AttackOutcome>> {
    let mut jobs = Vec::new();
    for (index, who) in accounts(options).into_iter().enumerate() {
        let cases = cases(options)
            .into_iter()
            .filter(|it| options.selects(&it.name));
        // The second account is only needed for files of another owner, so it is skipped in the
        // short form.
        let wanted = index == 0 || options.is_full();
        jobs.extend(cases.filter(|_| wanted).map(|case| (who, case)));
    }
    let outcomes = parallel(jobs, |(who, case)| attempt(setup, who, &case));
    outcomes.into_iter().collect()
}

fn attempt(setup: &Setup, account: AttackAccount, case: &RepositoryCase) -> Result<AttackOutcome> {
    let verdict = match plan_cycle::run_plan_cycle(setup, account, case) {
        Ok(verdict) => verdict,
        Err(error) => AttackVerdict::NotCounted(format!("cannot be made here: {error:#}")),
    };
    Ok(AttackOutcome {
        family: AttackFamily::Repositories,
        setting: account.name().to_owned(),
        name: case.name.clone(),
        verdict,
        repeat: format!("repositories --{} --only '{}'", account.name(), case.name),
    })
}

/// The repositories of the table, and those with configuration keys that execute.
fn cases(options: &AttackOptions) -> Vec<RepositoryCase> {
    let tabled = REPOSITORIES.iter().map(|it| RepositoryCase {
        name: it.name.to_owned(),
        script: it.script.to_owned(),
        change: it.change.to_owned(),
        expected: it.expected,
    });
    let mut cases: Vec<RepositoryCase> = tabled.collect();
    let set = |key: &str| format!("git config '{key}' $TRIP");
    let executing = |name: String, keys: &[&str]| RepositoryCase {
        name,
        script: format!(
            "printf '* filter=x diff=x merge=x\\n' > .gitattributes; git add -A; git commit -qm keys; {}",
            keys.iter()
                .map(|key| set(key))
                .collect::<Vec<_>>()
                .join("; ")
        ),
        change: "echo new > new; rm z".to_owned(),
        expected: table::ExpectedResult::AppliedOrRefused,
    };
    cases.push(executing("executing-keys".to_owned(), EXECUTING_KEYS));
    if options.is_full() || options.only.is_some() {
        let single = EXECUTING_KEYS
            .iter()
            .map(|key| executing(format!("executing-key {key}"), &[key]));
        cases.extend(single);
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let options = AttackOptions::parse(&["--full".to_owned()]).unwrap();
        let cases = cases(&options);
        let names: BTreeSet<&str> = cases.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), cases.len());
        assert!(names.len() >= 35);
    }
}
