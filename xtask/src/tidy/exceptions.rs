//! The named places that may break a rule, with reasons; the list only shrinks.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{Severity, TidyFinding};
use crate::files;

/// The path of the list, relative to the workspace.
pub const FILE: &str = "xtask/tidy-exceptions.toml";

/// The rules that may have exceptions.
const RULES: [&str; 6] = [
    "size",
    "methods",
    "parameters",
    "lint",
    "sleep",
    "sql-client",
];

#[derive(Debug)]
struct Exception {
    rule: String,
    file: String,
    count: usize,
}

/// Removes the excepted findings and adds one for every entry that allows more than needed.
pub fn apply(root: &Path, mut findings: Vec<TidyFinding>) -> Result<Vec<TidyFinding>> {
    let path = root.join(FILE);
    if !path.exists() {
        return Ok(findings);
    }
    let text = files::read(&path)?;
    for exception in parse(&text).with_context(|| format!("cannot read {FILE}"))? {
        let mut covered = 0;
        findings.retain(|finding| {
            let matches = finding.rule == exception.rule
                && finding.file == exception.file
                && finding.severity == Severity::Error;
            let covers = matches && covered < exception.count;
            covered += usize::from(covers);
            !covers
        });
        if covered < exception.count {
            findings.push(outgrown(&text, &exception, covered));
        }
    }
    Ok(findings)
}

fn outgrown(text: &str, exception: &Exception, covered: usize) -> TidyFinding {
    let Exception { rule, file, count } = exception;
    let line = text.lines().position(|line| line.contains(file.as_str()));
    let advice = match covered {
        0 => "remove it".to_owned(),
        _ => format!("lower its count to {covered}"),
    };
    let message = format!(
        "the exception of {file} from `{rule}` covers {count} findings, there are {covered}: {advice}"
    );
    TidyFinding::error("exceptions", FILE, line.map_or(1, |at| at + 1), message)
}

fn parse(text: &str) -> Result<Vec<Exception>> {
    let list: toml::Table = text.parse()?;
    let Some(entries) = list.get("exception") else {
        return Ok(Vec::new());
    };
    let entries = entries.as_array().context("`exception` is a list")?;
    entries.iter().map(parse_entry).collect()
}

fn parse_entry(entry: &toml::Value) -> Result<Exception> {
    let field = |name: &str| {
        let value = entry.get(name).and_then(toml::Value::as_str);
        value
            .filter(|text| !text.trim().is_empty())
            .map(str::to_owned)
            .with_context(|| format!("an exception needs a `{name}`: {entry}"))
    };
    let rule = field("rule")?;
    field("reason")?;
    if !RULES.contains(&rule.as_str()) {
        bail!(
            "rule `{rule}` has no exceptions; only {} have",
            RULES.join(", ")
        );
    }
    let count = match entry.get("count") {
        None => 1,
        Some(count) => count
            .as_integer()
            .and_then(|count| usize::try_from(count).ok())
            .filter(|count| *count > 0)
            .context("`count` is a number from 1")?,
    };
    Ok(Exception {
        rule,
        file: field("file")?,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{assert_clean, assert_only, findings};
    use super::*;

    const SLEEPING_TEST: (&str, &str) = ("crates/store/tests/slow.rs", "fn a() { sleep(1) }\n");
    const EXCEPTION: &str = "[[exception]]\nrule = 'sleep'\n\
                             file = 'crates/store/tests/slow.rs'\nreason = 'waits for a lease'\n";

    #[test]
    fn an_exception_silences_its_finding() {
        assert_eq!(findings(&[SLEEPING_TEST]).len(), 1);
        assert_clean(&[SLEEPING_TEST, (FILE, EXCEPTION)]);
    }

    #[test]
    fn an_unused_exception_fails() {
        assert_only(
            &[(FILE, EXCEPTION)],
            "xtask/tidy-exceptions.toml:3: error [exceptions]",
        );
    }

    #[test]
    fn an_exception_covers_no_more_than_its_count() {
        let twice = (
            "crates/store/tests/slow.rs",
            "fn a() { sleep(1);\n sleep(2) }\n",
        );
        assert_only(
            &[twice, (FILE, EXCEPTION)],
            "crates/store/tests/slow.rs:2: error [sleep]",
        );
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_rule_that_has_some() {
        assert!(parse("[[exception]]\nrule = 'sleep'\nfile = 'a.rs'\n").is_err());
        assert!(parse("[[exception]]\nrule = 'names'\nfile = 'a'\nreason = 'b'\n").is_err());
    }
}
