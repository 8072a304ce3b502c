//! Passes build facts to `agents version`: target, compiler and, in a checkout, the commit. Reads
//! git's files directly, so the build needs no git; without a checkout the commit is left out.
#![expect(
    clippy::disallowed_methods,
    reason = "a build script talks to cargo by environment variables and asks rustc its version"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    set_variable("AGENTS_TARGET", &variable("TARGET"));
    set_variable("AGENTS_RUSTC", &rustc_version(&variable("RUSTC")));
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../..");
    set_variable("AGENTS_COMMIT", &commit(&root).unwrap_or_default());
    watch(Path::new("build.rs"));
}

fn set_variable(name: &str, value: &str) {
    println!("cargo::rustc-env={name}={}", value.trim());
}

fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

/// Returns `1.95.0` for `rustc 1.95.0 (59807616e 2026-04-14)`.
fn rustc_version(rustc: &str) -> String {
    let output = Command::new(rustc).arg("--version").output();
    let text = output.map_or(String::new(), |output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    text.split_whitespace()
        .nth(1)
        .unwrap_or("unknown")
        .to_owned()
}

/// Returns the commit that is checked out, if any.
fn commit(root: &Path) -> Option<String> {
    let git = git_directory(root)?;
    let head_file = git.join("HEAD");
    watch(&head_file);
    let head = std::fs::read_to_string(&head_file).ok()?;
    let Some(reference) = head.trim().strip_prefix("ref: ") else {
        return Some(head.trim().to_owned());
    };
    let common = std::fs::read_to_string(git.join("commondir"))
        .map_or_else(|_| git.clone(), |folder| git.join(folder.trim()));
    let loose = common.join(reference);
    if let Ok(commit) = std::fs::read_to_string(&loose) {
        watch(&loose);
        return Some(commit);
    }
    let packed = common.join("packed-refs");
    watch(&packed);
    let text = std::fs::read_to_string(packed).ok()?;
    let line = text.lines().find(|line| line.ends_with(reference))?;
    line.split_whitespace().next().map(str::to_owned)
}

/// Returns `.git`, or the directory that the `.git` file of a linked worktree points to.
fn git_directory(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = std::fs::read_to_string(&git).ok()?;
    Some(root.join(text.strip_prefix("gitdir: ")?.trim()))
}
