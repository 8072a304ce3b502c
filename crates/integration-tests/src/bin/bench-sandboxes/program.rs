//! Runs the measured program as its users do, with a separate home directory.

use std::path::Path;
use std::process::Command;

/// The data directory, relative to the home.
pub(crate) const DATA: &str = "data";

/// Initialises a repository and commits all files of a folder.
pub(crate) fn commit(repository: &Path, home: &Path) {
    const IDENTITY: [&str; 4] = ["-c", "user.name=A", "-c", "user.email=a@b"];
    for arguments in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["commit", "-qm", "all"],
    ] {
        let mut git = command("git");
        git.args(IDENTITY).args(arguments).current_dir(repository);
        run(&mut git, home);
    }
}

/// CPU milliseconds of all terminated children and their children.
pub(crate) fn children_cpu_ms() -> f64 {
    // Fields 16 and 17 of the line, counted after the name.
    processor_time(&[13, 14])
}

/// Like [`children_cpu_ms`], including this process, because part of the cost of a process's exit
/// is charged to its waiting parent.
pub(crate) fn total_cpu_ms() -> f64 {
    processor_time(&[11, 12, 13, 14])
}

fn processor_time(fields: &[usize]) -> f64 {
    let usage = std::fs::read_to_string("/proc/self/stat").expect("readable");
    let all = usage.rsplit(')').next().unwrap_or_default();
    let all: Vec<&str> = all.split_whitespace().collect();
    let ticks = |at: &usize| all[*at].parse::<f64>().expect("a number");
    fields.iter().map(ticks).sum::<f64>() * 1000.0 / 100.0
}

pub(crate) fn run(command: &mut Command, home: &Path) -> Vec<u8> {
    let data = home.join(DATA);
    let command = command.env("HOME", home).env("CLEVERAGENTS_DATA_DIR", data);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    output.stdout
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program that is measured is a process"
)]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

#[expect(
    clippy::disallowed_methods,
    reason = "files that are measured need not outlive a power cut"
)]
pub(crate) fn write_file(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file is written");
}
