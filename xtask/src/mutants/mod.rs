//! `cargo xtask mutants`: takes each guard away and shows that the tests notice.
//!
//! A mutant is a patch in `mutants/` with a header saying which guard it removes and which tests must go red.
//! The work tree is copied once and only the copy is ever patched. Start at [`Workshop::judge_all`]; `patch`
//! reads the files, `tree` keeps the copy, `trial` runs the tests.

pub mod patch;
pub mod tree;
pub mod trial;

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cluster::Cluster;
use crate::{environment, output, table};
use patch::Mutant;
use tree::{Copy, Direction};

/// Where the patches are, relative to the workspace.
const FOLDER: &str = "mutants";

const EVERYDAY_TRIALS: &str = "10";

/// Lists, or judges, the named mutants; all of them when none is named.
pub fn run(arguments: &[String]) -> Result<()> {
    let (flags, names): (Vec<&String>, Vec<&String>) = arguments
        .iter()
        .partition(|argument| argument.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| **flag != "--list") {
        bail!("unknown option `{unknown}`; usage: cargo xtask mutants [NAME…] [--list]");
    }
    let root = environment::workspace_root();
    let mutants = patch::select(patch::read_all(&root.join(FOLDER))?, &names)?;
    if !flags.is_empty() {
        output::line(&listing(&mutants));
        return Ok(());
    }

    let workplace = root.join("target/mutants");
    let _alone = lock(&workplace)?;
    let cluster = Cluster::start()?;
    let mut variables = cluster.variables();
    let trials = environment::variable(environment::TRIALS);
    variables.push((
        environment::TRIALS.into(),
        trials.unwrap_or_else(|| EVERYDAY_TRIALS.into()),
    ));
    let workshop = Workshop {
        source: root,
        tree: workplace.join("tree"),
        target: workplace.join("target"),
        variables,
        limit: Duration::from_mins(2),
    };
    let verdicts = workshop.judge_all(&mutants)?;
    output::heading("mutants");
    output::line(&verdict_table(&mutants, &verdicts));
    conclude(&mutants, &verdicts)
}

/// How a mutant fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Caught,
    Survived(String),
    Hung(String),
    DoesNotApply(String),
    DoesNotBuild(String),
}

impl Verdict {
    fn word(&self) -> &'static str {
        match self {
            Verdict::Caught => "caught",
            Verdict::Survived(_) => "SURVIVED",
            Verdict::Hung(_) => "HUNG",
            Verdict::DoesNotApply(_) => "does not apply",
            Verdict::DoesNotBuild(_) => "does not build",
        }
    }

    /// Why it was not caught and what to do; `None` if it was.
    fn complaint(&self) -> Option<String> {
        let (advice, details) = match self {
            Verdict::Caught => return None,
            Verdict::Survived(text) => (
                "the expected tests stayed green without the guard: strengthen them",
                text,
            ),
            Verdict::Hung(text) => (
                "the tests neither passed nor failed in time: make them fail, or add `# hang: counts`",
                text,
            ),
            Verdict::DoesNotApply(text) => (
                "the source has moved on: take the guard away by hand, replace the diff below the \
                 patch's header with `git diff`, and restore the source",
                text,
            ),
            Verdict::DoesNotBuild(text) => (
                "the mutated source must compile, or it shows nothing: mend the patch",
                text,
            ),
        };
        Some(format!("{advice}\n{details}"))
    }
}

/// Where mutants are tried.
#[derive(Debug)]
pub struct Workshop {
    /// The work tree to copy; never changed.
    pub source: PathBuf,
    pub tree: PathBuf,
    pub target: PathBuf,
    /// What the tests find in their environment.
    pub variables: Vec<(String, String)>,
    /// How long the tests of one mutant may run.
    pub limit: Duration,
}

impl Workshop {
    /// Shows that the expected tests are green, then that each mutant turns its own red.
    pub fn judge_all(&self, mutants: &[Mutant]) -> Result<Vec<Verdict>> {
        output::heading("the tests on the unchanged source");
        let copy = Copy::refresh(&self.source, &self.tree)?;
        self.show_green(mutants)?;
        let mut verdicts = Vec::new();
        for mutant in mutants {
            output::line(&format!("{}: takes away {}", mutant.name, mutant.guard));
            let verdict = self.judge(&copy, mutant)?;
            output::line(&format!("{}: {}", mutant.name, verdict.word()));
            verdicts.push(verdict);
        }
        Ok(verdicts)
    }

    fn judge(&self, copy: &Copy, mutant: &Mutant) -> Result<Verdict> {
        if let Err(error) = copy.apply(&mutant.path, Direction::Forward) {
            return Ok(Verdict::DoesNotApply(format!("{error:#}")));
        }
        let verdict = self.try_mutant(mutant);
        copy.apply(&mutant.path, Direction::Back).with_context(|| {
            format!(
                "cannot take {} back; run this again for a fresh copy",
                mutant.name
            )
        })?;
        verdict
    }
}

/// Two runs would patch the same copy.
fn lock(workplace: &std::path::Path) -> Result<File> {
    std::fs::create_dir_all(workplace)?;
    let file = File::create(workplace.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("another `cargo xtask mutants` is at work; wait for it to end")
        }
        Err(TryLockError::Error(error)) => Err(error).context("cannot lock target/mutants"),
    }
}

fn listing(mutants: &[Mutant]) -> String {
    let rows: Vec<Vec<String>> = mutants
        .iter()
        .map(|mutant| {
            let expected: Vec<String> = mutant.expect.iter().map(|it| it.join(" ")).collect();
            vec![
                mutant.name.clone(),
                mutant.guard.clone(),
                expected.join(" | "),
            ]
        })
        .collect();
    table::render(&["name", "guard", "expected to go red"], &rows)
}

fn verdict_table(mutants: &[Mutant], verdicts: &[Verdict]) -> String {
    let rows: Vec<Vec<String>> = mutants
        .iter()
        .zip(verdicts)
        .map(|(mutant, verdict)| {
            vec![
                mutant.name.clone(),
                mutant.guard.clone(),
                verdict.word().into(),
            ]
        })
        .collect();
    table::render(&["name", "guard", "result"], &rows)
}

fn conclude(mutants: &[Mutant], verdicts: &[Verdict]) -> Result<()> {
    let complaints: Vec<String> = mutants
        .iter()
        .zip(verdicts)
        .filter_map(|(mutant, verdict)| {
            let complaint = verdict.complaint()?;
            Some(format!("\n{FOLDER}/{}.patch: {complaint}", mutant.name))
        })
        .collect();
    for complaint in &complaints {
        output::line(complaint);
    }
    let caught = verdicts.len() - complaints.len();
    output::line(&format!("\n{caught} of {} mutants caught", verdicts.len()));
    match complaints.is_empty() {
        true => Ok(()),
        false => Err(output::AlreadyReported.into()),
    }
}
