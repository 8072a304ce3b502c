//! `cargo xtask mutants`: removes each guard and checks that the tests notice.
//!
//! A mutant is a file in `mutants/` that names a guard, the edits that remove it, and the tests
//! that must fail. The work tree is copied once and only the copy is edited. Start at
//! [`MutantRunner::run_all`]; `definition` reads the files, `edit` finds the place, `tree` keeps
//! the copy, `trial` runs the tests. `build` only compiles the mutants, in the groups of `batch`.

pub mod batch;
pub mod build;
pub mod definition;
pub mod edit;
pub mod tree;
pub mod trial;

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cluster::PostgresCluster;
use crate::{environment, output, table};
use definition::Mutant;
use tree::TreeCopy;

/// The folder of the mutants, relative to the workspace.
pub const FOLDER: &str = "mutants";

const EVERYDAY_TRIALS: &str = "10";

/// The least time limit for the tests of a mutant. It only ends tests that hang: a limit that a busy
/// machine reaches would count a mutant as caught that no test noticed.
const LEAST_LIMIT: Duration = Duration::from_mins(10);
/// The limit is at least this many times what the slowest tests took on the unchanged source.
const LIMIT_FACTOR: u32 = 5;

const USAGE: &str = "usage: cargo xtask mutants [NAME…] [--list | --build] [--share=PART/PARTS]";

/// One of several parts of the mutants, counted from 1, so that a run need not test all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MutantShare {
    part: usize,
    parts: usize,
}

impl MutantShare {
    /// Selects the part for this commit: after as many commits as there are parts, every mutant was
    /// tested.
    pub fn for_commit(commits: usize, parts: usize) -> Self {
        let parts = parts.max(1);
        Self {
            part: commits % parts + 1,
            parts,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (part, parts) = text.split_once('/')?;
        let (part, parts) = (part.parse().ok()?, parts.parse().ok()?);
        (1..=parts).contains(&part).then_some(Self { part, parts })
    }

    /// Takes every n-th mutant, so that mutants with adjacent names, which are often similar, are
    /// in different parts.
    fn select<T>(self, all: Vec<T>) -> Vec<T> {
        let is_in = |(index, _): &(usize, T)| index % self.parts == self.part - 1;
        let mine = all.into_iter().enumerate().filter(is_in);
        mine.map(|(_, one)| one).collect()
    }
}

impl std::fmt::Display for MutantShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "--share={}/{}", self.part, self.parts)
    }
}

/// What to do with the mutants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MutantTask {
    Test,
    List,
    Build,
}

/// Lists, compiles or tests the named mutants; without names, all of them or one part.
pub fn run(arguments: &[String]) -> Result<()> {
    let (flags, names): (Vec<&String>, Vec<&String>) = arguments
        .iter()
        .partition(|argument| argument.starts_with('-'));
    let mut share = None;
    let mut task = MutantTask::Test;
    for flag in flags {
        match (flag.as_str(), flag.strip_prefix("--share=")) {
            ("--list", _) => task = MutantTask::List,
            ("--build", _) => task = MutantTask::Build,
            (_, Some(text)) => {
                let parsed = MutantShare::parse(text);
                share = Some(parsed.with_context(|| format!("invalid share `{flag}`; {USAGE}"))?);
            }
            _ => bail!("unknown option `{flag}`; {USAGE}"),
        }
    }
    let root = environment::workspace_root();
    let all = definition::select(definition::read_all(&root.join(FOLDER))?, &names)?;
    let number = all.len();
    let mutants = match share {
        Some(share) => share.select(all),
        None => all,
    };
    if let Some(share) = share {
        output::line(&format!("{} of {number} mutants: {share}", mutants.len()));
    }
    match task {
        MutantTask::Test => test(root, &mutants),
        MutantTask::List => {
            output::line(&listing(&mutants));
            Ok(())
        }
        MutantTask::Build => build(root, &mutants),
    }
}

fn test(root: PathBuf, mutants: &[Mutant]) -> Result<()> {
    let mut runner = MutantRunner::of_workspace(root);
    let _alone = runner.lock()?;
    let cluster = PostgresCluster::start()?;
    let trials = environment::variable(environment::TRIALS);
    runner.variables = cluster.variables();
    runner.variables.push((
        environment::TRIALS.into(),
        trials.unwrap_or_else(|| EVERYDAY_TRIALS.into()),
    ));
    let verdicts = runner.run_all(mutants)?;
    output::heading("mutants");
    output::line(&verdict_table(mutants, &verdicts));
    check_verdicts(mutants, &verdicts)
}

fn build(root: PathBuf, mutants: &[Mutant]) -> Result<()> {
    let runner = MutantRunner::of_workspace(root);
    let _alone = runner.lock()?;
    let problems = runner.build_all(mutants)?;
    for problem in &problems {
        output::line(&format!("\n{problem}"));
    }
    if problems.is_empty() {
        output::line(&format!("all {} mutants compile", mutants.len()));
        Ok(())
    } else {
        Err(output::AlreadyReported.into())
    }
}

/// The result of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MutantVerdict {
    Caught,
    /// Without the guard a test hangs until the time limit, which is as good as a failure.
    CaughtByTimeout,
    Survived(String),
    DoesNotApply(String),
    DoesNotBuild(String),
}

impl MutantVerdict {
    fn label(&self) -> &'static str {
        match self {
            MutantVerdict::Caught => "caught",
            MutantVerdict::CaughtByTimeout => "caught (timeout)",
            MutantVerdict::Survived(_) => "SURVIVED",
            MutantVerdict::DoesNotApply(_) => "does not apply",
            MutantVerdict::DoesNotBuild(_) => "does not build",
        }
    }

    /// The reason for not catching it and the next step; `None` if it was caught.
    fn failure_message(&self) -> Option<String> {
        let (advice, details) = match self {
            MutantVerdict::Caught | MutantVerdict::CaughtByTimeout => return None,
            MutantVerdict::Survived(text) => (
                "the expected tests stayed green without the guard: strengthen them",
                text,
            ),
            MutantVerdict::DoesNotApply(text) => (
                "the source has changed: update `find` and `replace` to the current text",
                text,
            ),
            MutantVerdict::DoesNotBuild(text) => {
                ("the mutated source must compile: fix `replace`", text)
            }
        };
        Some(format!("{advice}\n{details}"))
    }

    /// The failure of the mutant, with its file.
    fn problem(&self, mutant: &Mutant) -> Option<String> {
        let message = self.failure_message()?;
        Some(format!("{FOLDER}/{}.toml: {message}", mutant.name))
    }
}

/// The configuration of a mutant run.
#[derive(Debug)]
pub struct MutantRunner {
    /// The work tree to copy; never changed.
    pub source: PathBuf,
    pub tree: PathBuf,
    /// The programs of the copy; those of the source are not replaced.
    pub target: PathBuf,
    /// The compiled crates. Those that the copy does not change are shared with the source.
    pub build: PathBuf,
    /// The environment variables for the tests.
    pub variables: Vec<(String, String)>,
    /// The least time limit for the tests of one mutant.
    pub limit: Duration,
}

impl MutantRunner {
    /// A runner for the workspace at `root`, with a copy in its target folder.
    fn of_workspace(root: PathBuf) -> Self {
        let folder = root.join("target/mutants");
        Self {
            source: root,
            tree: folder.join("tree"),
            target: folder.join("target"),
            build: environment::target_dir(),
            variables: Vec::new(),
            limit: LEAST_LIMIT,
        }
    }

    /// Locks the copy until the file is dropped. Two concurrent runs would edit the same one.
    fn lock(&self) -> Result<File> {
        let folder = self.tree.parent().unwrap_or(&self.tree);
        std::fs::create_dir_all(folder)?;
        // The file stays, because removing it could race with another run.
        let file = File::create(folder.join("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                bail!("another `cargo xtask mutants` is at work; wait for it to end")
            }
            Err(TryLockError::Error(error)) => Err(error).context("cannot lock target/mutants"),
        }
    }

    /// Checks that the expected tests pass, then that each mutant makes its own fail.
    pub fn run_all(&self, mutants: &[Mutant]) -> Result<Vec<MutantVerdict>> {
        output::heading("the tests on the unchanged source");
        let copy = TreeCopy::refresh(&self.source, &self.tree)?;
        // A mutant is caught only if its tests pass without it, so this comes first.
        let slowest = self.check_tests_pass(mutants)?;
        let limit = self.limit.max(slowest * LIMIT_FACTOR);
        let mut verdicts = Vec::new();
        for mutant in mutants {
            output::line(&format!("{}: takes away {}", mutant.name, mutant.guard));
            let verdict = self.run_mutant(&copy, mutant, limit)?;
            output::line(&format!("{}: {}", mutant.name, verdict.label()));
            verdicts.push(verdict);
        }
        Ok(verdicts)
    }

    fn run_mutant(
        &self,
        copy: &TreeCopy,
        mutant: &Mutant,
        limit: Duration,
    ) -> Result<MutantVerdict> {
        let changed = match mutant.changed_files(&self.source) {
            Ok(changed) => changed,
            Err(error) => return Ok(MutantVerdict::DoesNotApply(format!("{error:#}"))),
        };
        copy.write(&changed)?;
        let verdict = self.try_mutant(mutant, limit);
        // Restored before the verdict is examined: an error must not leave the guard removed for
        // the next mutant.
        copy.restore(&self.source, &changed).with_context(|| {
            format!(
                "cannot take {} back; run this again for a fresh copy",
                mutant.name
            )
        })?;
        verdict
    }
}

fn listing(mutants: &[Mutant]) -> String {
    let rows: Vec<Vec<String>> = mutants
        .iter()
        .map(|mutant| {
            let expected: Vec<String> = mutant.tests().iter().map(|it| it.join(" ")).collect();
            vec![
                mutant.name.clone(),
                mutant.guard.clone(),
                expected.join(" | "),
            ]
        })
        .collect();
    table::render(&["name", "guard", "expected to go red"], &rows)
}

fn verdict_table(mutants: &[Mutant], verdicts: &[MutantVerdict]) -> String {
    let rows: Vec<Vec<String>> = mutants
        .iter()
        .zip(verdicts)
        .map(|(mutant, verdict)| {
            vec![
                mutant.name.clone(),
                mutant.guard.clone(),
                verdict.label().into(),
            ]
        })
        .collect();
    table::render(&["name", "guard", "result"], &rows)
}

fn check_verdicts(mutants: &[Mutant], verdicts: &[MutantVerdict]) -> Result<()> {
    let complaints: Vec<String> = mutants
        .iter()
        .zip(verdicts)
        .filter_map(|(mutant, verdict)| verdict.problem(mutant))
        .collect();
    for complaint in &complaints {
        output::line(&format!("\n{complaint}"));
    }
    let caught = verdicts.len() - complaints.len();
    output::line(&format!("\n{caught} of {} mutants caught", verdicts.len()));
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(output::AlreadyReported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_shares_cover_all_mutants() {
        for parts in 1..6 {
            let mut judged: Vec<usize> = (100..100 + parts)
                .flat_map(|commits| {
                    MutantShare::for_commit(commits, parts).select((0..23).collect())
                })
                .collect();
            judged.sort_unstable();
            assert_eq!(judged, (0..23).collect::<Vec<_>>(), "{parts} parts");
        }
    }

    #[test]
    fn a_share_reads_back() {
        let share = MutantShare::for_commit(4, 3);
        assert_eq!(share.to_string(), "--share=2/3");
        assert_eq!(MutantShare::parse("2/3"), Some(share));
        for wrong in ["", "2", "0/3", "4/3", "1/0", "a/b"] {
            assert_eq!(MutantShare::parse(wrong), None, "{wrong}");
        }
    }
}
