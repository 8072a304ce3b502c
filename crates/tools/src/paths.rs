//! Paths given by callers, and the locations in the tree that they lead to.
//!
//! A path is resolved by open folders below the tree (`cleveragents_safe_fs::resolve`), so what was
//! checked is what is used. Errors name the path as it was given and never a path of the machine.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cleveragents_domain::ResourcePath;
use cleveragents_domain::change::PathError;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation};
use cleveragents_safe_fs::file_access::open_root;
use cleveragents_safe_fs::path_from_bytes;
use cleveragents_safe_fs::refused_names::{is_dot_git, is_refused_name};
use cleveragents_safe_fs::resolve::{LastLink, ResolveError, ResolvedEntry, ResolvedPath, resolve};
use rustix::fs::{FileType, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::builtin::{failed, invalid_input};
use crate::excerpt::truncate_str;

/// Maximum bytes of a path and of a name, and maximum depth: the limits of a capture.
const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;
const MAX_DEPTH: usize = 200;

/// The use of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathPurpose {
    /// To read what is there; a link is followed.
    Read,
    /// To write there; a link is followed.
    Write,
    /// To move, remove or replace what is there; a link at the end is not followed.
    Relocate,
}

/// The open tree of a call's sandbox.
#[derive(Debug)]
pub(crate) struct SandboxTree(OwnedFd);

/// A location in a tree. Nothing need exist there.
#[derive(Debug)]
pub(crate) struct TreePath {
    pub(crate) entry: ResolvedEntry,
    /// The path after resolving links. Stamps and changes use this path.
    pub(crate) path: ResourcePath,
}

#[derive(Debug)]
pub(crate) enum TreeLocation {
    Root,
    Path(TreePath),
}

impl SandboxTree {
    pub(crate) fn open(call: &ToolInvocation<'_>) -> Result<Self, ToolFailure> {
        let root = open_root(call.sandbox.tree());
        let root = root.map_err(|error| failed(format!("the sandbox cannot be opened: {error}")));
        Ok(Self(root?))
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Resolves a path. Fails for the root.
    pub(crate) fn resolve_path(
        &self,
        given: &str,
        purpose: PathPurpose,
    ) -> Result<TreePath, ToolFailure> {
        match self.resolve(given, purpose)? {
            TreeLocation::Path(target) => Ok(target),
            TreeLocation::Root => {
                let given = quote_path(given);
                Err(invalid_input(format!(
                    "{given} is the root of the sandbox, a path in it is needed"
                )))
            }
        }
    }

    /// Resolves a path, which may be the root.
    pub(crate) fn resolve(
        &self,
        given: &str,
        purpose: PathPurpose,
    ) -> Result<TreeLocation, ToolFailure> {
        let Some(path) = parse_path(given)? else {
            return Ok(TreeLocation::Root);
        };
        // Checked as given and again as resolved: a link may lead to a reserved name.
        check_names(given, &path, purpose)?;
        let last = match purpose {
            PathPurpose::Read | PathPurpose::Write => LastLink::Follow,
            // Moving or removing a link concerns the link, not its target.
            PathPurpose::Relocate => LastLink::Keep,
        };
        let resolved = resolve(self.root(), path.as_bytes(), last);
        match resolved.map_err(|lost| resolve_failure(given, lost))? {
            ResolvedPath::Root => Ok(TreeLocation::Root),
            ResolvedPath::Entry(entry) => {
                let path = ResourcePath::from_bytes(entry.path.clone());
                let path = path.map_err(|error| failed(error.to_string()))?;
                check_names(given, &path, purpose)?;
                if purpose != PathPurpose::Read && entry.stat.is_none() {
                    check_new_name(given, &path)?;
                }
                Ok(TreeLocation::Path(TreePath { entry, path }))
            }
        }
    }
}

impl TreePath {
    /// Returns the type of what is there. Fails if nothing is there.
    pub(crate) fn kind(&self) -> Result<FileType, ToolFailure> {
        let path = &self.path;
        match &self.entry.stat {
            Some(stat) => Ok(stat.kind()),
            None => Err(failed(format!("{path} does not exist"))),
        }
    }

    /// Fails unless a regular file is there.
    pub(crate) fn expect_file(&self) -> Result<(), ToolFailure> {
        match self.kind()? {
            FileType::RegularFile => Ok(()),
            other => Err(self.wrong_kind(other, "a file")),
        }
    }

    pub(crate) fn wrong_kind(&self, kind: FileType, needed: &str) -> ToolFailure {
        let (path, word) = (&self.path, kind_name(kind));
        failed(format!("{path} is a {word}, {needed} is needed"))
    }

    /// Opens the regular file that is there. Neither blocks on a FIFO nor touches a device, even if
    /// one replaces the file at this moment.
    pub(crate) fn open_file(&self) -> Result<File, ToolFailure> {
        self.expect_file()?;
        // `NOFOLLOW` refuses a link, `NONBLOCK` a wait on a FIFO, `NOCTTY` a controlling terminal.
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let folder = self.entry.folder();
        let file = folder.and_then(|folder| {
            openat(
                folder,
                path_from_bytes(&self.entry.name),
                flags,
                Mode::empty(),
            )
        });
        let file = File::from(file.map_err(|error| self.io_failure("be read", error))?);
        match file.metadata() {
            // Checked on the open file: the name may have been replaced since it was resolved.
            Ok(found) if found.is_file() => Ok(file),
            _ => Err(failed(format!("{} was replaced meanwhile", self.path))),
        }
    }

    pub(crate) fn io_failure(&self, what: &str, error: Errno) -> ToolFailure {
        let reason = std::io::Error::from(error);
        failed(format!("{} cannot {what}: {reason}", self.path))
    }
}

/// Parses a path that need not exist. Returns `None` for the root.
pub(crate) fn parse_readable_path(given: &str) -> Result<Option<ResourcePath>, ToolFailure> {
    let path = parse_path(given)?;
    if let Some(path) = &path {
        check_names(given, path, PathPurpose::Read)?;
    }
    Ok(path)
}

/// Returns the name of a file type for users.
pub(crate) fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "file",
        FileType::Directory => "folder",
        FileType::Symlink => "link",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        _ => "device",
    }
}

/// Removes `.` and redundant `/` from the path. Returns `None` for the root.
fn parse_path(given: &str) -> Result<Option<ResourcePath>, ToolFailure> {
    let wrong = |why: String| {
        Err(invalid_input(format!(
            "{} cannot be used: {why}",
            quote_path(given)
        )))
    };
    if given.is_empty() {
        return wrong(PathError::Empty.to_string());
    }
    if given.starts_with('/') {
        return wrong(PathError::Absolute.to_string());
    }
    let parts = given.split('/').filter(|part| !matches!(*part, "" | "."));
    let plain = parts.collect::<Vec<_>>().join("/");
    if plain.is_empty() {
        return Ok(None);
    }
    let path: ResourcePath = match plain.parse() {
        Ok(path) => path,
        Err(error) => return wrong(error.to_string()),
    };
    let bytes = path.as_bytes();
    let mut names = bytes.split(|byte| *byte == b'/');
    if bytes.contains(&0) {
        return wrong("no path has a NUL character in it".to_owned());
    }
    if bytes.len() > MAX_PATH || names.clone().count() > MAX_DEPTH {
        return wrong(format!(
            "a path has at most {MAX_PATH} bytes and {MAX_DEPTH} names"
        ));
    }
    if names.any(|name| name.len() > MAX_NAME) {
        wrong(format!("a name has at most {MAX_NAME} bytes"))
    } else {
        Ok(Some(path))
    }
}

/// Names reserved by git are never changed. The content of `.git` is not shown either: it belongs
/// to the host and contains paths of the machine.
fn check_names(given: &str, path: &ResourcePath, purpose: PathPurpose) -> Result<(), ToolFailure> {
    let refused = |name: &[u8]| match purpose {
        PathPurpose::Read => is_dot_git(name),
        PathPurpose::Write | PathPurpose::Relocate => {
            is_dot_git(name) || is_refused_name(name, FileType::RegularFile)
        }
    };
    let mut names = path.as_bytes().split(|byte| *byte == b'/');
    match names.find(|name| refused(name)) {
        None => Ok(()),
        Some(name) => {
            let name = String::from_utf8_lossy(name).escape_debug().to_string();
            Err(invalid_input(format!(
                "{} cannot be used: `{name}` belongs to git (builtin/git-status, git-diff and \
                 git-log show what it knows)",
                quote_path(given)
            )))
        }
    }
}

/// A new name must be text. Files with other names can be read, moved and removed, but not created.
fn check_new_name(given: &str, path: &ResourcePath) -> Result<(), ToolFailure> {
    match std::str::from_utf8(path.as_bytes()) {
        Ok(text) if !text.contains(char::is_control) => Ok(()),
        Ok(_) => Err(invalid_input(format!(
            "{} cannot be used: a new name has no control characters",
            quote_path(given)
        ))),
        Err(_) => Err(invalid_input(format!(
            "{} cannot be used: a new name is UTF-8",
            quote_path(given)
        ))),
    }
}

fn resolve_failure(given: &str, lost: ResolveError) -> ToolFailure {
    let shown = |bytes: Vec<u8>| match ResourcePath::from_bytes(bytes) {
        Ok(path) => path.to_string(),
        Err(_) => ".".to_owned(),
    };
    let given = quote_path(given);
    failed(match lost {
        ResolveError::Outside { link } => format!(
            "{given} leaves the sandbox: the link {} leads out of it",
            shown(link)
        ),
        ResolveError::NotAFolder { at } => {
            format!("{given} does not exist: {} is not a folder", shown(at))
        }
        ResolveError::Absent { at } => format!(
            "{given} does not exist: a link at {} leads nowhere",
            shown(at)
        ),
        ResolveError::TooManyLinks { link } => {
            format!(
                "{given} leads through too many links, the last is {}",
                shown(link)
            )
        }
        ResolveError::Failed { at, error } => {
            let reason = std::io::Error::from(error);
            format!("{given} cannot be reached: {}: {reason}", shown(at))
        }
    })
}

/// Quotes the given path, truncated and without characters that could affect a terminal.
fn quote_path(given: &str) -> String {
    // A model may pass a whole file as a path. The answer must stay readable.
    let short = truncate_str(given, 120);
    let more = if short.len() < given.len() { "…" } else { "" };
    format!("`{}{more}`", short.escape_debug())
}
