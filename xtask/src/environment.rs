//! The only module that reads this process's environment.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The percentage of the full kill and race trials that the tests run.
pub const TRIALS: &str = "CLEVERAGENTS_TRIALS";

#[expect(
    clippy::disallowed_methods,
    reason = "xtask's one home for reading the environment"
)]
fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The value of a variable if it is set, not empty and valid UTF-8.
pub fn variable(name: &str) -> Option<String> {
    raw(name)?.into_string().ok()
}

/// The folder of the workspace's `Cargo.toml`.
pub fn workspace_root() -> PathBuf {
    let manifest_dir = raw("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest_dir
        .parent()
        .map_or_else(|| manifest_dir.clone(), Path::to_path_buf)
}

/// The cargo that started us, so that nested builds use the same toolchain.
pub fn cargo() -> OsString {
    raw("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The build folder: the workspace's `target`, unless the user chose another.
pub fn target_dir() -> PathBuf {
    raw("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from)
}

/// The first executable file of that name on the search path.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = raw("PATH")?;
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

pub fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
}

pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// Returns whether the output is a terminal.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}
