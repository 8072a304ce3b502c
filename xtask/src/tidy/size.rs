//! Sizes: files by line count, functions by clippy, and no unlisted exemptions from clippy's size
//! lints.

use super::source::RustSource;
use super::tree::SourceTree;
use super::{Severity, TidyFinding};

const WARN_LINES: usize = 400;
const MAX_LINES: usize = 600;

/// The lints that enforce the limits of functions.
const LINTS: [&str; 2] = ["too_many_lines", "too_many_arguments"];

/// Reports file sizes and silenced size lints.
pub fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    tree.sources
        .iter()
        .flat_map(|source| file_size(source).into_iter().chain(silenced_lints(source)))
        .collect()
}

fn file_size(source: &RustSource) -> Option<TidyFinding> {
    let lines = source.code_lines();
    let message = format!(
        "{lines} code lines; {MAX_LINES} are allowed, {WARN_LINES} are plenty: split it by subject"
    );
    let finding = TidyFinding::error("size", &source.path, 1, message);
    match lines {
        _ if lines > MAX_LINES => Some(finding),
        _ if lines >= WARN_LINES => Some(TidyFinding {
            severity: Severity::Warning,
            ..finding
        }),
        _ => None,
    }
}

fn silenced_lints(source: &RustSource) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut silencing = false;
    for (index, line) in source.lines.iter().enumerate() {
        for word in words(&line.code) {
            match word {
                "allow" | "expect" => silencing = true,
                "warn" | "deny" | "forbid" => silencing = false,
                lint if silencing && LINTS.contains(&lint) => findings.push(TidyFinding::error(
                    "lint",
                    &source.path,
                    index + 1,
                    format!("clippy::{lint} is silenced: make the function smaller"),
                )),
                _ => {}
            }
        }
    }
    findings
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character: char| !(character.is_alphanumeric() || character == '_'))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{assert_clean, assert_only};

    fn file_of(lines: usize) -> String {
        "const A: u8 = 0;\n// a comment\n\n".repeat(lines)
    }

    #[test]
    fn a_long_file_warns_then_fails() {
        let path = "crates/store/src/long.rs";
        assert_clean(&[(path, &file_of(399))]);
        let warning = "crates/store/src/long.rs:1: warning [size] 400 code lines";
        assert_only(&[(path, &file_of(400))], warning);
        let error = "crates/store/src/long.rs:1: error [size] 601 code lines";
        assert_only(&[(path, &file_of(601))], error);
    }

    #[test]
    fn a_silenced_size_lint_is_found_over_several_lines() {
        let text = "#[expect(\n    clippy::too_many_lines,\n    reason = \"x\"\n)]\nfn a() {}\n";
        assert_only(
            &[("crates/store/src/a.rs", text)],
            "crates/store/src/a.rs:2: error [lint] clippy::too_many_lines",
        );
        assert_clean(&[(
            "crates/store/src/a.rs",
            "#![warn(clippy::too_many_lines)]\n// allow(too_many_lines)\n",
        )]);
    }
}
