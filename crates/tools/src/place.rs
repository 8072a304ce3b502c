//! Paths as callers write them, and the places in the tree they lead to.
//!
//! A path is followed by open folders beneath the tree (`cleveragents_beneath::resolve`), so what
//! was checked is what is used. Failures name the path as it was given and never the machine's.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cleveragents_beneath::path_of;
use cleveragents_beneath::reach::open_root;
use cleveragents_beneath::refused_names::{is_dot_git, is_refused_name};
use cleveragents_beneath::resolve::{Entry, LastLink, Lost, Resolved, resolve};
use cleveragents_domain::ResourcePath;
use cleveragents_domain::change::PathError;
use cleveragents_engine::ports::tools::{Call, ToolFailure};
use rustix::fs::{FileType, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::builtin::{failed, unusable};
use crate::excerpt::beginning;

/// The most bytes of a path, of a name, and the most folders: what a capture can hold.
const MOST_PATH: usize = 4096;
const MOST_NAME: usize = 255;
const MOST_DEPTH: usize = 200;

/// What a path is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To look at what is there; a link stands for what it leads to.
    Look,
    /// To write there; a link stands for what it leads to.
    Write,
    /// To move or remove what is there, or to put something in its place; a link stands for
    /// itself.
    Rearrange,
}

/// The tree of a call's sandbox, open.
#[derive(Debug)]
pub(crate) struct Tree(OwnedFd);

/// A place in a tree, where something is or may come to be.
#[derive(Debug)]
pub(crate) struct Spot {
    pub(crate) entry: Entry,
    /// The path without links: what stamps and changes are known by.
    pub(crate) path: ResourcePath,
}

/// The root, or a place beneath it.
#[derive(Debug)]
pub(crate) enum Somewhere {
    Root,
    Spot(Spot),
}

impl Tree {
    pub(crate) fn of(call: &Call<'_>) -> Result<Self, ToolFailure> {
        let root = open_root(call.sandbox.tree());
        let root = root.map_err(|error| failed(format!("the sandbox cannot be opened: {error}")));
        Ok(Self(root?))
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The place a path leads to; the root is none.
    pub(crate) fn spot(&self, given: &str, purpose: Purpose) -> Result<Spot, ToolFailure> {
        match self.find(given, purpose)? {
            Somewhere::Spot(spot) => Ok(spot),
            Somewhere::Root => {
                let given = quoted(given);
                Err(unusable(format!(
                    "{given} is the root of the sandbox, a path in it is needed"
                )))
            }
        }
    }

    /// The place a path leads to, the root included.
    pub(crate) fn find(&self, given: &str, purpose: Purpose) -> Result<Somewhere, ToolFailure> {
        let Some(path) = parse(given)? else {
            return Ok(Somewhere::Root);
        };
        check_names(given, &path, purpose)?;
        let last = match purpose {
            Purpose::Look | Purpose::Write => LastLink::Follow,
            Purpose::Rearrange => LastLink::Keep,
        };
        let resolved = resolve(self.root(), path.as_bytes(), last);
        match resolved.map_err(|lost| explain(given, lost))? {
            Resolved::Root => Ok(Somewhere::Root),
            Resolved::Entry(entry) => {
                let path = ResourcePath::from_bytes(entry.path.clone());
                let path = path.map_err(|error| failed(error.to_string()))?;
                check_names(given, &path, purpose)?;
                if purpose != Purpose::Look && entry.stat.is_none() {
                    check_new(given, &path)?;
                }
                Ok(Somewhere::Spot(Spot { entry, path }))
            }
        }
    }
}

impl Spot {
    /// What is there; that nothing is there is a failure.
    pub(crate) fn kind(&self) -> Result<FileType, ToolFailure> {
        let path = &self.path;
        match &self.entry.stat {
            Some(stat) => Ok(stat.kind()),
            None => Err(failed(format!("{path} does not exist"))),
        }
    }

    /// That a regular file is there.
    pub(crate) fn expect_file(&self) -> Result<(), ToolFailure> {
        match self.kind()? {
            FileType::RegularFile => Ok(()),
            other => Err(self.is_instead(other, "a file")),
        }
    }

    pub(crate) fn is_instead(&self, kind: FileType, needed: &str) -> ToolFailure {
        let (path, word) = (&self.path, kind_word(kind));
        failed(format!("{path} is a {word}, {needed} is needed"))
    }

    /// Opens the regular file that is there. A FIFO makes nobody wait and a device is not touched,
    /// also if one is put there at this moment.
    pub(crate) fn open_file(&self) -> Result<File, ToolFailure> {
        self.expect_file()?;
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let folder = self.entry.folder();
        let file = folder
            .and_then(|folder| openat(folder, path_of(&self.entry.name), flags, Mode::empty()));
        let file = File::from(file.map_err(|error| self.failed("be read", error))?);
        match file.metadata() {
            Ok(found) if found.is_file() => Ok(file),
            _ => Err(failed(format!(
                "{} has just become something else",
                self.path
            ))),
        }
    }

    pub(crate) fn failed(&self, what: &str, error: Errno) -> ToolFailure {
        let reason = std::io::Error::from(error);
        failed(format!("{} cannot {what}: {reason}", self.path))
    }
}

/// A path that need not be there, or no longer; nothing for the root.
pub(crate) fn named(given: &str) -> Result<Option<ResourcePath>, ToolFailure> {
    let path = parse(given)?;
    if let Some(path) = &path {
        check_names(given, path, Purpose::Look)?;
    }
    Ok(path)
}

/// What something is called in front of people.
pub(crate) fn kind_word(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "file",
        FileType::Directory => "folder",
        FileType::Symlink => "link",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        _ => "device",
    }
}

/// The path without `.` and superfluous `/`; nothing for the root.
fn parse(given: &str) -> Result<Option<ResourcePath>, ToolFailure> {
    let wrong = |why: String| Err(unusable(format!("{} cannot be used: {why}", quoted(given))));
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
    if bytes.len() > MOST_PATH || names.clone().count() > MOST_DEPTH {
        return wrong(format!(
            "a path has at most {MOST_PATH} bytes and {MOST_DEPTH} names"
        ));
    }
    match names.any(|name| name.len() > MOST_NAME) {
        true => wrong(format!("a name has at most {MOST_NAME} bytes")),
        false => Ok(Some(path)),
    }
}

/// Names that git keeps for itself are never changed, and what is in `.git` is not shown either:
/// it is the host's, and holds paths of the machine.
fn check_names(given: &str, path: &ResourcePath, purpose: Purpose) -> Result<(), ToolFailure> {
    let refused = |name: &[u8]| match purpose {
        Purpose::Look => is_dot_git(name),
        Purpose::Write | Purpose::Rearrange => {
            is_dot_git(name) || is_refused_name(name, FileType::RegularFile)
        }
    };
    let mut names = path.as_bytes().split(|byte| *byte == b'/');
    match names.find(|name| refused(name)) {
        None => Ok(()),
        Some(name) => {
            let name = String::from_utf8_lossy(name).escape_debug().to_string();
            Err(unusable(format!(
                "{} cannot be used: `{name}` belongs to git (builtin/git-status, git-diff and \
                 git-log show what it knows)",
                quoted(given)
            )))
        }
    }
}

/// A new name is text. Files of other names can be read, moved and removed, but not made.
fn check_new(given: &str, path: &ResourcePath) -> Result<(), ToolFailure> {
    match std::str::from_utf8(path.as_bytes()) {
        Ok(text) if !text.contains(char::is_control) => Ok(()),
        Ok(_) => Err(unusable(format!(
            "{} cannot be used: a new name has no control characters",
            quoted(given)
        ))),
        Err(_) => Err(unusable(format!(
            "{} cannot be used: a new name is UTF-8",
            quoted(given)
        ))),
    }
}

fn explain(given: &str, lost: Lost) -> ToolFailure {
    let shown = |bytes: Vec<u8>| match ResourcePath::from_bytes(bytes) {
        Ok(path) => path.to_string(),
        Err(_) => ".".to_owned(),
    };
    let given = quoted(given);
    failed(match lost {
        Lost::Outside { link } => format!(
            "{given} leaves the sandbox: the link {} leads out of it",
            shown(link)
        ),
        Lost::NotAFolder { at } => format!("{given} does not exist: {} is no folder", shown(at)),
        Lost::Absent { at } => format!(
            "{given} does not exist: a link at {} leads nowhere",
            shown(at)
        ),
        Lost::TooManyLinks { link } => {
            format!(
                "{given} leads through too many links, the last is {}",
                shown(link)
            )
        }
        Lost::Failed { at, error } => {
            let reason = std::io::Error::from(error);
            format!("{given} cannot be reached: {}: {reason}", shown(at))
        }
    })
}

/// What was given, bounded and without anything that plays tricks on a terminal.
fn quoted(given: &str) -> String {
    let short = beginning(given, 120);
    let more = if short.len() < given.len() { "…" } else { "" };
    format!("`{}{more}`", short.escape_debug())
}
