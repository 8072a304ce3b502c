//! The only module that prints.

use std::fmt;

/// A failure whose details are already printed: only the exit code is missing.
#[derive(Debug)]
pub struct AlreadyReported;

impl fmt::Display for AlreadyReported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("failed; the reasons are above")
    }
}

impl std::error::Error for AlreadyReported {}

/// Prints a line of result.
#[expect(clippy::print_stdout, reason = "xtask's one home for printing")]
pub fn line(text: &str) {
    println!("{text}");
}

/// Prints a line about a problem.
#[expect(clippy::print_stderr, reason = "xtask's one home for printing")]
pub fn problem(text: &str) {
    eprintln!("{text}");
}

/// Prints a heading before a longer step.
pub fn heading(text: &str) {
    line(&format!("\n== {text}"));
}
