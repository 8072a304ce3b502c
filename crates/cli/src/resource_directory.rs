//! Inspects a path on this machine before it becomes a resource. Only reads files; runs no program.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

pub use cleveragents_app::resource_directory::{
    DirectoryKind, ResourceDirectory, shell_quote_path,
};

use crate::failure::{CommandFailure, ExitCode, FailureKind, display_path, excerpt};

/// The size limit for the `.git` file of a linked worktree or submodule, in bytes.
const GIT_FILE_MAXIMUM: u64 = 64 * 1024;

/// Inspects `path`. Fails if it is, contains or is inside `data_directory`, which must never be a
/// resource.
pub fn inspect(path: &Path, data_directory: &Path) -> Result<ResourceDirectory, CommandFailure> {
    let real = fs::canonicalize(path).map_err(|error| unreachable_failure(path, &error))?;
    let facts = fs::metadata(&real).map_err(|error| unreachable_failure(path, &error))?;
    if !facts.is_dir() {
        let what = format!("{} is not a directory", display_path(path));
        return Err(CommandFailure::usage(what)
            .kind(FailureKind::NotADirectory)
            .because("a resource is a directory: a git checkout or a folder")
            .hint("name the directory it is in"));
    }
    // Only a test: a folder that cannot be read should fail here, not later in a plan.
    fs::read_dir(&real).map_err(|error| unreachable_failure(path, &error))?;
    // On the canonical path: a link must not lead a plan into our own data.
    check_outside_data_directory(&real, data_directory)?;
    let kind = detect_kind(&real)?;
    Ok(ResourceDirectory { path: real, kind })
}

fn unreachable_failure(path: &Path, error: &io::Error) -> CommandFailure {
    let shown = display_path(path);
    match error.kind() {
        io::ErrorKind::NotFound => {
            CommandFailure::new(ExitCode::NotFound, format!("there is no directory {shown}"))
                .because(error.to_string())
                .hint(format!(
                    "mkdir {}, or check the spelling",
                    shell_quote_path(path)
                ))
        }
        io::ErrorKind::PermissionDenied => CommandFailure::usage(format!("{shown} cannot be read"))
            .kind(FailureKind::NotReadable)
            .because(error.to_string())
            .hint(format!(
                "check owner and permissions: ls -ld {}",
                shell_quote_path(path)
            )),
        _ => CommandFailure::usage(format!("{shown} cannot be used"))
            .kind(FailureKind::NotUsable)
            .because(error.to_string())
            .hint("name an existing directory"),
    }
}

/// Fails if a plan could work on our own data, which changes while the plan runs.
fn check_outside_data_directory(path: &Path, data_directory: &Path) -> Result<(), CommandFailure> {
    // It may not exist yet, but its parents may be links.
    let data = real_path(data_directory);
    let how = if path == data {
        "is the data directory of agents"
    } else if path.starts_with(&data) {
        "is inside the data directory of agents"
    } else if data.starts_with(path) {
        "contains the data directory of agents"
    } else {
        return Ok(());
    };
    let what = format!("{} {how}", display_path(path));
    Err(CommandFailure::usage(what)
        .kind(FailureKind::DataDirectory)
        .because(format!(
            "the data directory {} cannot be part of a resource",
            display_path(&data)
        ))
        .hint("name a directory apart from it")
        .hint("agents --data-dir DIR … with a directory elsewhere"))
}

/// Returns the canonical form of a path whose last components may not exist yet.
fn real_path(path: &Path) -> PathBuf {
    for folder in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(folder), path.strip_prefix(folder)) {
            // Joining an empty path would append a slash.
            return if rest.as_os_str().is_empty() {
                real
            } else {
                real.join(rest)
            };
        }
    }
    path.to_owned()
}

/// Returns the kind of a directory; the nearest git entry at or above it decides.
fn detect_kind(path: &Path) -> Result<DirectoryKind, CommandFailure> {
    if let GitEntry::Broken(reason) = git_entry(path) {
        return Ok(DirectoryKind::BrokenCheckout { reason });
    }
    for folder in path.ancestors() {
        if matches!(git_entry(folder), GitEntry::Repository) {
            return Ok(if folder == path {
                DirectoryKind::GitCheckout
            } else {
                DirectoryKind::InsideRepository {
                    root: folder.to_owned(),
                }
            });
        }
        if is_git_directory(folder) {
            return Err(git_data_failure(path, folder));
        }
    }
    Ok(DirectoryKind::Directory)
}

/// Returns the failure for a directory that holds a repository's own data.
fn git_data_failure(path: &Path, repository: &Path) -> CommandFailure {
    let shown = display_path(path);
    let bare = repository == path && path.file_name().is_none_or(|name| name != ".git");
    if bare {
        return CommandFailure::usage(format!("{shown} is a bare repository"))
            .kind(FailureKind::BareRepository)
            .because("it has no working tree, so there are no files to work on")
            .hint(format!(
                "git clone {} DIR, then use DIR",
                shell_quote_path(path)
            ));
    }
    CommandFailure::usage(format!("{shown} belongs to git's own data"))
        .kind(FailureKind::GitData)
        .because(format!(
            "it is in the git directory {}",
            display_path(repository)
        ))
        .hint("name the top of the working tree")
}

/// The `.git` entry of a directory.
enum GitEntry {
    None,
    Repository,
    Broken(String),
}

fn git_entry(folder: &Path) -> GitEntry {
    let entry = folder.join(".git");
    let Ok(facts) = fs::metadata(&entry) else {
        return GitEntry::None;
    };
    if facts.is_dir() {
        return if is_git_directory(&entry) {
            GitEntry::Repository
        } else {
            GitEntry::Broken(".git has no HEAD, objects and refs".to_owned())
        };
    }
    // The file is untrusted, so its size is checked before it is read.
    if !facts.is_file() || facts.len() > GIT_FILE_MAXIMUM {
        return GitEntry::Broken(".git is neither a directory nor a small file".to_owned());
    }
    match fs::read(&entry) {
        Ok(content) => read_git_file(folder, content),
        Err(error) => GitEntry::Broken(format!(".git cannot be read: {error}")),
    }
}

/// Parses the `.git` file of a linked worktree or submodule, which names its git directory.
fn read_git_file(folder: &Path, content: Vec<u8>) -> GitEntry {
    let line = content.split(|byte| *byte == b'\n').next();
    let Some(name) = line.and_then(|line| line.strip_prefix(b"gitdir: ")) else {
        return GitEntry::Broken(".git names no git directory".to_owned());
    };
    let name = name.strip_suffix(b"\r").unwrap_or(name);
    let named = PathBuf::from(std::ffi::OsString::from_vec(name.to_vec()));
    // Only `HEAD` is checked: the git directory of a linked worktree has its own, but shares
    // objects and refs with the repository.
    match folder.join(&named).join("HEAD").symlink_metadata() {
        Ok(_) => GitEntry::Repository,
        Err(_) => {
            let named = excerpt(&named.display().to_string());
            GitEntry::Broken(format!(".git names {named}, which is not a git directory"))
        }
    }
}

fn is_git_directory(folder: &Path) -> bool {
    let head = folder.join("HEAD").symlink_metadata();
    head.is_ok_and(|facts| !facts.is_dir())
        && folder.join("objects").is_dir()
        && folder.join("refs").is_dir()
}
