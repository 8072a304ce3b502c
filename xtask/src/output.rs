//! The one place that prints.

use std::fmt;

/// A failure whose details are already on the screen: only the exit code is still owed.
#[derive(Debug)]
pub struct AlreadyReported;

impl fmt::Display for AlreadyReported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("failed; the reasons are above")
    }
}

impl std::error::Error for AlreadyReported {}

/// A line of result.
#[expect(clippy::print_stdout, reason = "xtask's one home for printing")]
pub fn line(text: &str) {
    println!("{text}");
}

/// A line about what goes wrong.
#[expect(clippy::print_stderr, reason = "xtask's one home for printing")]
pub fn problem(text: &str) {
    eprintln!("{text}");
}

/// A heading before a step that takes a while.
pub fn heading(text: &str) {
    line(&format!("\n== {text}"));
}
