//! `cargo xtask mutants --build`: compiles every mutant and runs no tests.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::batch::{MutantBatch, MutantBatches};
use super::definition::Mutant;
use super::tree::TreeCopy;
use super::trial::{BUILD_LIMIT, tail};
use super::{FOLDER, MutantRunner, MutantVerdict};
use crate::output;
use crate::process::{self, CollectedOutput};

impl MutantRunner {
    /// Compiles all mutants, as many at once as their edits allow. Returns the problems.
    pub fn build_all(&self, mutants: &[Mutant]) -> Result<Vec<String>> {
        let copy = TreeCopy::refresh(&self.source, &self.tree)?;
        let planned = MutantBatches::plan(mutants, &self.source);
        let does_not_apply = |(mutant, reason): &(&Mutant, String)| {
            MutantVerdict::DoesNotApply(reason.clone()).problem(mutant)
        };
        let mut problems: Vec<String> = planned
            .inapplicable
            .iter()
            .filter_map(does_not_apply)
            .collect();
        for batch in &planned.batches {
            output::line(&format!("{} mutants together", batch.mutants.len()));
            problems.extend(self.build_batch(&copy, batch)?);
        }
        Ok(problems)
    }

    fn build_batch(&self, copy: &TreeCopy, batch: &MutantBatch<'_>) -> Result<Vec<String>> {
        let changed: Vec<(PathBuf, String)> = batch.changed.clone().into_iter().collect();
        copy.write(&changed)?;
        let checked = self.check();
        copy.restore(&self.source, &changed)
            .context("cannot take the mutants back; run this again for a fresh copy")?;
        Ok(match checked? {
            CollectedOutput::Exited { success: true, .. } => Vec::new(),
            CollectedOutput::Exited { text, .. } => describe_errors(&text, batch),
            CollectedOutput::TimedOut { text } => {
                vec![format!("`cargo check` did not end:\n{}", tail(&text))]
            }
        })
    }

    fn check(&self) -> Result<CollectedOutput> {
        let mut command = self.cargo();
        // With `--keep-going` the errors of one crate do not hide those of another.
        command.args(["check", "--workspace", "--all-targets", "--locked"]);
        process::collect_within(command.arg("--keep-going"), BUILD_LIMIT)
    }
}

/// Returns the compiler's errors, each with the mutants that may cause it.
fn describe_errors(text: &str, batch: &MutantBatch<'_>) -> Vec<String> {
    let errors = compiler_errors(text);
    if errors.is_empty() {
        return vec![format!("`cargo check` failed:\n{}", tail(text))];
    }
    let describe = |error: &CompilerError| {
        let editors = batch.editors(&error.files);
        let suspects = if editors.is_empty() {
            "no mutant edits this file: one has changed something that it uses".to_owned()
        } else {
            let files = editors.iter().map(|name| format!("{FOLDER}/{name}.toml"));
            let files: Vec<String> = files.collect();
            format!("edited by {}", files.join(", "))
        };
        format!("{}\n{suspects}", error.text)
    };
    errors.iter().map(describe).collect()
}

/// One error of the compiler.
#[derive(Debug, Default, PartialEq, Eq)]
struct CompilerError {
    text: String,
    /// The files that it names, relative to the workspace.
    files: BTreeSet<PathBuf>,
}

/// Returns the errors in the output of cargo that name a file, each once.
fn compiler_errors(text: &str) -> Vec<CompilerError> {
    let mut errors: Vec<CompilerError> = Vec::new();
    let mut lines = text.lines();
    while let Some(first) = lines.next() {
        // Cargo's own summary of a crate names no file and has no end of its own.
        if !first.starts_with("error") || first.starts_with("error: could not compile") {
            continue;
        }
        let rest = lines.by_ref().take_while(|line| !line.is_empty());
        let block: Vec<&str> = std::iter::once(first).chain(rest).collect();
        let error = CompilerError {
            text: block.join("\n"),
            files: block.iter().filter_map(|line| named_file(line)).collect(),
        };
        // A library is compiled twice, with and without its unit tests.
        if !error.files.is_empty() && !errors.contains(&error) {
            errors.push(error);
        }
    }
    errors
}

/// Returns the file in a line like `  --> crates/app/src/drive.rs:12:5`.
fn named_file(line: &str) -> Option<PathBuf> {
    let line = line.trim_start();
    let place = line.strip_prefix("--> ").or(line.strip_prefix("::: "))?;
    Some(place.split(':').next()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
   Compiling tiny v0.1.0 (/tree)
warning: unused variable: `x`
 --> src/other.rs:3:9
  |
3 |     let x = 1;
  |         ^

    Checking tiny v0.1.0
error[E0308]: mismatched types
 --> src/lib.rs:2:8
  |
2 |     if 1 {
  |        ^ expected `bool`, found integer
 ::: src/types.rs:7:1

error[E0308]: mismatched types
 --> src/lib.rs:2:8
  |
2 |     if 1 {
  |        ^ expected `bool`, found integer
 ::: src/types.rs:7:1

For more information about this error, try `rustc --explain E0308`.
error: could not compile `tiny` (lib) due to 1 previous error
warning: unused import: `y`
 --> src/other.rs:4:9
";

    #[test]
    fn errors_are_separated_from_warnings() {
        let errors = compiler_errors(OUTPUT);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].text.starts_with("error[E0308]: mismatched types"));
        let files = ["src/lib.rs".into(), "src/types.rs".into()];
        assert_eq!(errors[0].files, BTreeSet::from(files));
    }

    #[test]
    fn output_without_a_named_file_is_shown() {
        let text = "error: the lock file needs to be updated but --locked was passed\n";
        let problems = describe_errors(text, &MutantBatch::default());
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("lock file"), "{problems:?}");
    }

    #[test]
    fn an_error_in_an_unedited_file_is_explained() {
        let problems = describe_errors(OUTPUT, &MutantBatch::default());
        assert!(
            problems[0].contains("no mutant edits this file"),
            "{problems:?}"
        );
    }
}
