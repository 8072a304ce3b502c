//! What a path on this machine is, before it becomes a resource. Only files are looked at; no
//! program is asked.

use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use cleveragents_domain::{AbsolutePath, ResourceType};
use cleveragents_engine::projects::Found;

use crate::failure::{ExitCode, Failure, excerpt, shown_path};

/// A file of a linked worktree or submodule that names its git directory is no longer than this.
const GIT_FILE_MAXIMUM: u64 = 64 * 1024;

/// A directory that can be read, by its real name: symbolic links are followed to their ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub path: PathBuf,
    pub kind: Kind,
}

/// What a directory is to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The top of a working tree.
    GitCheckout,
    /// Somewhere below the top of a working tree.
    InsideRepository {
        root: PathBuf,
    },
    /// Its `.git` leads nowhere.
    BrokenCheckout {
        reason: String,
    },
    Directory,
}

/// Looks at `path`. `data_directory` is ours and never a resource, nor is what is in it or around
/// it.
pub fn look(path: &Path, data_directory: &Path) -> Result<Place, Failure> {
    let real = fs::canonicalize(path).map_err(|error| unreachable(path, &error))?;
    let facts = fs::metadata(&real).map_err(|error| unreachable(path, &error))?;
    if !facts.is_dir() {
        let what = format!("{} is not a directory", shown_path(path));
        return Err(Failure::usage(what)
            .kind("not_a_directory")
            .because("a resource is a directory: a git checkout or a folder")
            .hint("name the directory it is in"));
    }
    fs::read_dir(&real).map_err(|error| unreachable(path, &error))?;
    keep_apart(&real, data_directory)?;
    let kind = kind_of(&real)?;
    Ok(Place { path: real, kind })
}

impl Place {
    /// The place as the resource it is by itself. Below the top of a repository it is neither.
    pub fn found(&self) -> Result<Found, Failure> {
        let resource_type = match &self.kind {
            Kind::GitCheckout => ResourceType::GitCheckout,
            Kind::Directory => ResourceType::FsDirectory,
            Kind::InsideRepository { root } => return Err(self.inside(root)),
            Kind::BrokenCheckout { reason } => return Err(self.broken(reason)),
        };
        self.found_as(resource_type)
    }

    /// The place as a resource of the type that somebody asked for.
    pub fn found_as(&self, resource_type: ResourceType) -> Result<Found, Failure> {
        match (resource_type, &self.kind) {
            (ResourceType::FsDirectory, _) | (ResourceType::GitCheckout, Kind::GitCheckout) => {}
            (_, Kind::InsideRepository { root }) => return Err(self.inside(root)),
            (_, Kind::BrokenCheckout { reason }) => return Err(self.broken(reason)),
            (_, Kind::Directory) => return Err(self.no_repository()),
        }
        let bytes = self.path.as_os_str().as_bytes();
        let path = AbsolutePath::from_bytes(bytes).map_err(|error| {
            let what = format!("{} cannot be registered", shown_path(&self.path));
            Failure::usage(what).caused_by(&error)
        })?;
        Ok(Found {
            path,
            resource_type,
        })
    }

    fn inside(&self, root: &Path) -> Failure {
        let what = format!(
            "{} is inside the repository {}, not its top",
            shown_path(&self.path),
            shown_path(root)
        );
        Failure::usage(what)
            .kind("inside_repository")
            .because("a git checkout is sandboxed and committed as a whole")
            .hint(format!("use the repository: --path {}", quoted(root)))
            .hint(self.as_directory("or, if only this folder is meant: "))
            .with("repository", shown_path(root).into())
    }

    fn broken(&self, reason: &str) -> Failure {
        let what = format!("the .git of {} is no repository", shown_path(&self.path));
        Failure::usage(what)
            .kind("broken_repository")
            .because(reason)
            .hint(format!("git -C {} status", quoted(&self.path)))
            .hint(self.as_directory("or, if only the folder is meant: "))
    }

    fn no_repository(&self) -> Failure {
        let what = format!("{} is not a git repository", shown_path(&self.path));
        Failure::usage(what)
            .kind("not_a_repository")
            .because("there is no .git in it")
            .hint(format!("git init {}", quoted(&self.path)))
            .hint(self.as_directory("or: "))
    }

    fn as_directory(&self, before: &str) -> String {
        let path = quoted(&self.path);
        format!("{before}agents resource add fs-directory NAME --path {path}")
    }
}

/// A path for a shell.
pub fn quoted(path: &Path) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%,:=".contains(c);
    let text = shown_path(path);
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn unreachable(path: &Path, error: &io::Error) -> Failure {
    let shown = shown_path(path);
    match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::new(ExitCode::NotFound, format!("there is no directory {shown}"))
                .because(error.to_string())
                .hint(format!("mkdir {}, or check the spelling", quoted(path)))
        }
        io::ErrorKind::PermissionDenied => Failure::usage(format!("{shown} cannot be read"))
            .kind("not_readable")
            .because(error.to_string())
            .hint(format!(
                "check owner and permissions: ls -ld {}",
                quoted(path)
            )),
        _ => Failure::usage(format!("{shown} cannot be used"))
            .kind("not_usable")
            .because(error.to_string())
            .hint("name an existing directory"),
    }
}

/// Plans must not work on our own data, which would change under their hands.
fn keep_apart(path: &Path, data_directory: &Path) -> Result<(), Failure> {
    let data = real_name(data_directory);
    let how = if path == data {
        "is the data directory of agents"
    } else if path.starts_with(&data) {
        "is inside the data directory of agents"
    } else if data.starts_with(path) {
        "contains the data directory of agents"
    } else {
        return Ok(());
    };
    let what = format!("{} {how}", shown_path(path));
    Err(Failure::usage(what)
        .kind("data_directory")
        .because(format!(
            "the data directory {} cannot be part of a resource",
            shown_path(&data)
        ))
        .hint("name a directory apart from it")
        .hint("agents --data-dir DIR … with a directory elsewhere"))
}

/// The real name of a path of which the last parts may not exist yet.
fn real_name(path: &Path) -> PathBuf {
    for folder in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(folder), path.strip_prefix(folder)) {
            // Joining nothing would leave a slash behind.
            return match rest.as_os_str().is_empty() {
                true => real,
                false => real.join(rest),
            };
        }
    }
    path.to_owned()
}

/// What the directory is; the nearest thing of git's on the way up decides.
fn kind_of(path: &Path) -> Result<Kind, Failure> {
    if let GitEntry::Broken(reason) = git_entry(path) {
        return Ok(Kind::BrokenCheckout { reason });
    }
    for folder in path.ancestors() {
        if matches!(git_entry(folder), GitEntry::Repository) {
            return Ok(match folder == path {
                true => Kind::GitCheckout,
                false => Kind::InsideRepository {
                    root: folder.to_owned(),
                },
            });
        }
        if is_git_directory(folder) {
            return Err(git_data(path, folder));
        }
    }
    Ok(Kind::Directory)
}

/// A repository's own files are no place to work in.
fn git_data(path: &Path, repository: &Path) -> Failure {
    let shown = shown_path(path);
    let bare = repository == path && path.file_name().is_none_or(|name| name != ".git");
    if bare {
        return Failure::usage(format!("{shown} is a bare repository"))
            .kind("bare_repository")
            .because("it has no working tree, so there are no files to work on")
            .hint(format!("git clone {} DIR, then use DIR", quoted(path)));
    }
    Failure::usage(format!("{shown} belongs to git's own data"))
        .kind("git_data")
        .because(format!(
            "it is in the git directory {}",
            shown_path(repository)
        ))
        .hint("name the top of the working tree")
}

/// What the `.git` of a directory is.
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
        return match is_git_directory(&entry) {
            true => GitEntry::Repository,
            false => GitEntry::Broken(".git has no HEAD, objects and refs".to_owned()),
        };
    }
    if !facts.is_file() || facts.len() > GIT_FILE_MAXIMUM {
        return GitEntry::Broken(".git is neither a directory nor a small file".to_owned());
    }
    match fs::read(&entry) {
        Ok(content) => named_git_directory(folder, content),
        Err(error) => GitEntry::Broken(format!(".git cannot be read: {error}")),
    }
}

/// A linked worktree or a submodule has a file that names its git directory.
fn named_git_directory(folder: &Path, content: Vec<u8>) -> GitEntry {
    let line = content.split(|byte| *byte == b'\n').next();
    let Some(name) = line.and_then(|line| line.strip_prefix(b"gitdir: ")) else {
        return GitEntry::Broken(".git names no git directory".to_owned());
    };
    let name = name.strip_suffix(b"\r").unwrap_or(name);
    let named = PathBuf::from(std::ffi::OsString::from_vec(name.to_vec()));
    // A linked worktree's own directory has a HEAD; objects and refs are those of the repository.
    match folder.join(&named).join("HEAD").symlink_metadata() {
        Ok(_) => GitEntry::Repository,
        Err(_) => {
            let named = excerpt(&named.display().to_string());
            GitEntry::Broken(format!(".git names {named}, which is no git directory"))
        }
    }
}

fn is_git_directory(folder: &Path) -> bool {
    let head = folder.join("HEAD").symlink_metadata();
    head.is_ok_and(|facts| !facts.is_dir())
        && folder.join("objects").is_dir()
        && folder.join("refs").is_dir()
}
