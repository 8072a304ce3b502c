//! Hostile definitions in repositories and in the environment: actions that approve themselves,
//! bombs, disguises, variables, credentials. Each attempt is a script of commands as a user types
//! them.

pub mod table;

use anyhow::Result;

use super::escapes::accounts;
use super::machine::{CommandOutput, Machine, Setup};
use super::options::{AttackAccount, AttackFamily, AttackOptions};
use super::parallel;
use super::tally::{AttackOutcome, AttackVerdict, BrokenPromise, shorten};
use table::SCRIPTS;

const PRELUDE: &str = include_str!("prelude.sh");

/// Variables set for every command, some of them named like secrets.
const VARIABLES: &[(&str, &str)] = &[
    ("KEYCLOAK_URL", "http://localhost:8080"),
    ("MONKEY_NAME", "george-the-monkey"),
    ("PLAIN_SETTING", "setting-of-the-user"),
    ("DEPLOY_TOKEN", "tok-4711-abcdefgh-4711"),
];

/// Seconds for one script.
const SECONDS: u64 = 240;

/// Runs every script on its own machine.
pub fn run(setup: &Setup, options: &AttackOptions) -> Result<Vec<AttackOutcome>> {
    let mut jobs = Vec::new();
    for (index, account) in accounts(options).into_iter().enumerate() {
        let wanted = SCRIPTS.iter().filter(|it| options.selects(it.0));
        let wanted = wanted.filter(|_| index == 0 || options.is_full());
        jobs.extend(wanted.map(|(name, script)| (account, *name, *script)));
    }
    let outcomes = parallel(jobs, |(account, name, script)| {
        let verdict = run_script(setup, account, script);
        let verdict = verdict
            .unwrap_or_else(|it| AttackVerdict::NotCounted(format!("cannot be made: {it:#}")));
        AttackOutcome {
            family: AttackFamily::Definitions,
            setting: account.name().to_owned(),
            name: name.to_owned(),
            verdict,
            repeat: format!("definitions --{} --only '{name}'", account.name()),
        }
    });
    Ok(outcomes)
}

fn run_script(setup: &Setup, account: AttackAccount, script: &str) -> Result<AttackVerdict> {
    let mut machine = Machine::new(setup, account)?;
    let program = setup.program.display().to_string();
    let root = machine.root().display().to_string();
    let given = [("AGENTS", program.as_str()), ("ROOT", &root)];
    let all = given.iter().chain(VARIABLES);
    machine
        .variables
        .extend(all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    machine.must_shell(
        "git init -q --template= -b main shop && cd shop && echo a > a && git add -A && git commit -qm first",
    )?;
    let shop = machine.path("shop").display().to_string();
    machine.must_agents(&["project", "create", "shop", "--path", &shop])?;
    let step = "  - {tool: builtin/file-write, input: {path: made, content: \"made\\n\"}}";
    let ready = machine.shell(&format!(
        "{PRELUDE}\nown worker '{step}' '' && own job '{step}' '' && echo ready"
    ))?;
    if !ready.stdout.contains("ready") {
        anyhow::bail!("{}", ready.summary());
    }
    let mut command = machine.command(&["sh", "-c", &format!("{PRELUDE}\n{script}")]);
    command.envs([
        ("GIT_AUTHOR_NAME", "User"),
        ("GIT_AUTHOR_EMAIL", "user@localhost"),
    ]);
    command.envs([
        ("GIT_COMMITTER_NAME", "User"),
        ("GIT_COMMITTER_EMAIL", "user@localhost"),
    ]);
    let answer = machine.run_command(&mut command, std::time::Duration::from_secs(SECONDS))?;
    Ok(classify_output(&answer))
}

fn classify_output(answer: &CommandOutput) -> AttackVerdict {
    let faults = [
        ("THROUGH", BrokenPromise::Escaped),
        ("LOST", BrokenPromise::Lost),
        ("STUCK", BrokenPromise::Stuck),
    ];
    for (word, fault) in faults {
        if let Some(line) = answer.stdout.lines().find(|it| it.starts_with(word)) {
            return AttackVerdict::Broken(fault, shorten(line));
        }
    }
    if answer.timed_out {
        return AttackVerdict::Broken(BrokenPromise::Stuck, answer.summary());
    }
    if !answer.stdout.lines().any(|it| it == "CONTROL") {
        return AttackVerdict::NotCounted(format!("its control fails: {}", answer.summary()));
    }
    AttackVerdict::Held
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(stdout: &str) -> AttackVerdict {
        classify_output(&CommandOutput {
            code: Some(0),
            stdout: stdout.into(),
            ..CommandOutput::default()
        })
    }

    #[test]
    fn a_script_decides_by_what_it_prints() {
        assert_eq!(verdict("CONTROL\n"), AttackVerdict::Held);
        let broken = AttackVerdict::Broken(BrokenPromise::Escaped, "THROUGH it".into());
        assert_eq!(verdict("CONTROL\nTHROUGH it\n"), broken);
        assert!(matches!(
            verdict("STUCK x\n"),
            AttackVerdict::Broken(BrokenPromise::Stuck, _)
        ));
        assert!(matches!(verdict("nothing\n"), AttackVerdict::NotCounted(_)));
    }
}
