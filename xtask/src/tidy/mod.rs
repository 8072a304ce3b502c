//! The project rules that a machine can check: dependencies, sizes, names, documents.
//!
//! It reads manifests, sources and documents as text and never builds anything. Start at [`check`];
//! each file holds one family of rules over a [`SourceTree`], `source` distinguishes code from
//! comments and strings.

pub mod answers;
pub mod dependencies;
pub mod documents;
pub mod exceptions;
pub mod modules;
pub mod mutants;
pub mod plain_words;
pub mod shape;
pub mod size;
pub mod source;
pub mod tree;
pub mod wording;

use std::fmt;
use std::path::Path;

use anyhow::Result;

use crate::{environment, output};
use tree::SourceTree;

/// Whether a finding fails the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

/// One violation of a rule, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TidyFinding {
    pub rule: &'static str,
    pub severity: Severity,
    /// Relative to the workspace, with forward slashes.
    pub file: String,
    pub line: usize,
    pub message: String,
}

impl TidyFinding {
    fn error(
        rule: &'static str,
        file: &str,
        line: usize,
        message: impl Into<String>,
    ) -> TidyFinding {
        TidyFinding {
            rule,
            severity: Severity::Error,
            file: file.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for TidyFinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(
            formatter,
            "{}:{}: {word} [{}] {}",
            self.file, self.line, self.rule, self.message
        )
    }
}

/// `cargo xtask tidy`.
pub fn run(arguments: &[String]) -> Result<()> {
    crate::no_arguments("tidy", arguments)?;
    let findings = check(&environment::workspace_root())?;
    for finding in &findings {
        output::line(&finding.to_string());
    }
    match errors(&findings) {
        0 => Ok(()),
        _ => Err(output::AlreadyReported.into()),
    }
}

/// The number of findings that fail the check.
pub fn errors(findings: &[TidyFinding]) -> usize {
    findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count()
}

/// Every finding in the workspace at `root`, after applying the exceptions.
pub fn check(root: &Path) -> Result<Vec<TidyFinding>> {
    let tree = SourceTree::read(root)?;
    let findings = [
        dependencies::check,
        size::check,
        shape::check,
        modules::check,
        wording::check,
        answers::check,
        plain_words::check,
        documents::check_decisions,
        documents::check_links,
    ]
    .iter()
    .flat_map(|rule| rule(&tree))
    .collect();
    let mut findings = exceptions::apply(root, findings)?;
    findings.extend(mutants::check(root, &tree));
    findings.sort_by(|one, other| (&one.file, one.line).cmp(&(&other.file, other.line)));
    Ok(findings)
}

#[cfg(test)]
pub(crate) mod fixture {
    //! Small trees that break one rule each.

    use super::{TidyFinding, check};
    use crate::files;

    /// The findings in a tree of the given files, as text.
    pub(crate) fn findings(content: &[(&str, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in content {
            files::write(&root.path().join(path), text).unwrap();
        }
        let found = check(root.path()).unwrap();
        found.iter().map(TidyFinding::to_string).collect()
    }

    /// Asserts that there is exactly one finding with this beginning.
    pub(crate) fn assert_only(content: &[(&str, &str)], beginning: &str) {
        let found = findings(content);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with(beginning), "{found:#?}");
    }

    /// Asserts that there are no findings.
    pub(crate) fn assert_clean(content: &[(&str, &str)]) {
        assert_eq!(findings(content), [""; 0]);
    }
}
