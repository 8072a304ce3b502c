//! Actions that stand in a project's own files: `.agents/actions/*.yaml` and `*.yml`.
//!
//! They travel with the repository and are never registered by being used. A registered action
//! wins over a file that defines the same name: what somebody registered on this machine was
//! chosen by its user, while a file may have come with the last `git pull`. Whoever uses the
//! registered one says that the file is shadowed ([`ActionSource::Registered`]).
//!
//! A repository is not trusted: links that lead out of the folder are not followed, no variable is
//! filled in, and how many files are read and how large they may be is bounded. Files are read when
//! somebody asks, each time anew; using one needs consent to its content ([`crate::consent`]).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::{AbsolutePath, NamespacedName, RepositoryFile, ResourcePath};
use cleveragents_engine::definitions::ActionDraft;
use cleveragents_engine::trust::RepositoryAction;
use rustix::fs::OFlags;

use crate::definition_file::DefinitionFile;
use crate::environment::Environment;
use crate::failure::{CommandFailure, display_path};

/// Where a project keeps its actions.
const FOLDER: &str = ".agents/actions";
/// How many files of one folder are read.
const FILES_MAXIMUM: usize = 256;

/// An action and the file that defines it.
#[derive(Debug, Clone)]
pub struct LocalAction {
    pub draft: ActionDraft,
    pub file: PathBuf,
    /// What consent to it is given to.
    pub identity: RepositoryFile,
}

impl LocalAction {
    /// The action as the engine uses it.
    pub fn into_action(self) -> RepositoryAction {
        RepositoryAction {
            draft: self.draft,
            file: self.identity,
        }
    }
}

/// What was found in the folders.
#[derive(Debug, Default)]
pub struct LocalActionScan {
    /// By file, in the order of the folders.
    pub actions: Vec<LocalAction>,
    /// Files and folders that could not be read, or do not say what they should.
    pub failures: Vec<CommandFailure>,
}

impl LocalActionScan {
    fn add(&mut self, file: &ActionFile) {
        match file.read() {
            Ok(action) => self.actions.push(action),
            Err(failure) => self.failures.push(failure),
        }
    }
}

/// Where an action of a name comes from.
#[derive(Debug)]
pub enum ActionSource<T> {
    /// A registered one; a file that defines the same name is shadowed by it.
    Registered {
        action: T,
        shadowed: Option<PathBuf>,
    },
    File(Box<LocalAction>),
}

/// The nearest folder at or above `from` that has actions of its own.
pub fn enclosing_folder(from: &Path) -> Option<PathBuf> {
    from.ancestors()
        .find(|folder| folder.join(FOLDER).is_dir())
        .map(Path::to_owned)
}

/// The folders to look in when nobody named a project: the one around the working directory.
pub fn default_folders(environment: &Environment) -> Vec<PathBuf> {
    let here = environment.working_directory.as_deref();
    here.and_then(enclosing_folder).into_iter().collect()
}

/// Reads every action of the `folders`, each the root of a project. Nothing in them stops it.
pub fn scan(folders: &[PathBuf]) -> LocalActionScan {
    let mut survey = LocalActionScan::default();
    let mut seen = Vec::new();
    for root in folders {
        let files = match list_files(root) {
            Ok(files) => files,
            Err(failure) => {
                survey.failures.push(failure);
                continue;
            }
        };
        for file in files {
            match file {
                // Two resources may lie in one folder, and a link may lead to its neighbour.
                Ok(file) if seen.contains(&file.real_path) => {}
                Ok(file) => {
                    survey.add(&file);
                    seen.push(file.real_path);
                }
                Err(failure) => survey.failures.push(failure),
            }
        }
    }
    survey
}

/// The action `name` of the files in `folders`. Two files that define it are refused by name; a
/// file that cannot be read is, if no other defines the name, because it might be the one.
pub fn find(
    name: &NamespacedName,
    folders: &[PathBuf],
) -> Result<Option<LocalAction>, CommandFailure> {
    let survey = scan(folders);
    if let Some(failure) = find_duplicates(&survey.actions, Some(name))
        .into_iter()
        .next()
    {
        return Err(failure);
    }
    let found = survey
        .actions
        .into_iter()
        .find(|local| local.draft.name == *name);
    match (found, survey.failures.into_iter().next()) {
        (None, Some(failure)) => Err(failure),
        (found, _) => Ok(found),
    }
}

/// The action to use by the name `name`: the registered one if there is one, which `registered`
/// says, else the one of the files; `None` if there is neither. Files that are broken or define
/// a name twice are no obstacle to a registered action.
pub fn choose<T>(
    name: &NamespacedName,
    folders: &[PathBuf],
    registered: impl FnOnce() -> Result<Option<T>, CommandFailure>,
) -> Result<Option<ActionSource<T>>, CommandFailure> {
    match registered()? {
        Some(action) => Ok(Some(ActionSource::Registered {
            action,
            shadowed: scan(folders)
                .actions
                .into_iter()
                .find(|local| local.draft.name == *name)
                .map(|local| local.file),
        })),
        None => {
            let found = find(name, folders)?;
            Ok(found.map(|local| ActionSource::File(Box::new(local))))
        }
    }
}

/// What to say of a file whose action is registered too.
pub fn shadowed_warning(name: &NamespacedName, file: &Path) -> String {
    format!(
        "{} defines {name} too; the registered action is used",
        display_path(file)
    )
}

/// A failure for each name (or only for `wanted`) that more than one file defines.
pub fn find_duplicates(
    actions: &[LocalAction],
    requested: Option<&NamespacedName>,
) -> Vec<CommandFailure> {
    let mut files: BTreeMap<&NamespacedName, Vec<&Path>> = BTreeMap::new();
    for local in actions {
        let name = &local.draft.name;
        if requested.is_none_or(|wanted| wanted == name) {
            files.entry(name).or_default().push(&local.file);
        }
    }
    files
        .into_iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(name, files)| {
            let files: Vec<String> = files.into_iter().map(display_path).collect();
            CommandFailure::usage(format!("the action {name} is defined more than once"))
                .kind("defined_twice")
                .because(format!("by {}", files.join(" and ")))
                .hint("give one of them another name")
                .with("files", files.into())
        })
        .collect()
}

/// A file to read: by the path people know it by, and by its own.
struct ActionFile {
    display_path: PathBuf,
    real_path: PathBuf,
    /// The top of its repository.
    root: PathBuf,
}

impl ActionFile {
    fn read(&self) -> Result<LocalAction, CommandFailure> {
        let file = open(&self.real_path)
            .map_err(|error| unreadable_failure(&self.display_path).caused_by(&error))?;
        let definition = DefinitionFile::from_repository(display_path(&self.display_path), file)?;
        let draft = definition.repository_action().map_err(|errors| {
            let file = display_path(&self.display_path);
            CommandFailure::from(errors).hint(format!("agents action validate {file}"))
        })?;
        Ok(LocalAction {
            draft,
            file: self.display_path.clone(),
            identity: self.identity(definition.hash())?,
        })
    }

    fn identity(&self, hash: String) -> Result<RepositoryFile, CommandFailure> {
        let path = self
            .real_path
            .strip_prefix(&self.root)
            .unwrap_or(&self.real_path);
        let root = AbsolutePath::from_bytes(self.root.as_os_str().as_bytes());
        let path = ResourcePath::from_bytes(path.as_os_str().as_bytes());
        Ok(RepositoryFile {
            repository: root
                .map_err(|error| unreadable_failure(&self.display_path).caused_by(&error))?,
            path: path.map_err(|error| unreadable_failure(&self.display_path).caused_by(&error))?,
            hash,
        })
    }
}

/// Opens a regular file without waiting for what only looks like one.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// The files of the project at `root` that define actions, by name; each may be out of reach.
fn list_files(root: &Path) -> Result<Vec<Result<ActionFile, CommandFailure>>, CommandFailure> {
    let folder = root.join(FOLDER);
    let failed = |error: io::Error| unreadable_failure(&folder).caused_by(&error);
    let inside = match folder.canonicalize() {
        Ok(inside) => inside,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let root = root.canonicalize().map_err(failed)?;
    if !inside.starts_with(&root) {
        return Err(
            unreadable_failure(&folder).because("it is a link that leads out of the project")
        );
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&inside).map_err(failed)? {
        let name = PathBuf::from(entry.map_err(failed)?.file_name());
        let wanted = |extension: &std::ffi::OsStr| extension == "yaml" || extension == "yml";
        if !name.extension().is_some_and(wanted) {
            continue;
        }
        names.push(name);
        if names.len() > FILES_MAXIMUM {
            let reason = format!("it has more than {FILES_MAXIMUM} files");
            return Err(unreadable_failure(&folder).because(reason));
        }
    }
    names.sort();
    let names = names.iter();
    let within = |name| resolve_file(&folder, (&root, &inside), name);
    Ok(names.map(|name: &PathBuf| within(name)).collect())
}

/// The file `name` of the folder, whose real path is `inside`, of the repository at `root`.
fn resolve_file(
    folder: &Path,
    (root, inside): (&Path, &Path),
    name: &Path,
) -> Result<ActionFile, CommandFailure> {
    let shown = folder.join(name);
    let real = inside
        .join(name)
        .canonicalize()
        .map_err(|error| unreadable_failure(&shown).caused_by(&error))?;
    match real.starts_with(inside) {
        true => Ok(ActionFile {
            display_path: shown,
            real_path: real,
            root: root.to_owned(),
        }),
        false => {
            Err(unreadable_failure(&shown).because("it is a link that leads out of the folder"))
        }
    }
}

fn unreadable_failure(path: &Path) -> CommandFailure {
    CommandFailure::usage(format!("cannot read {}", display_path(path)))
        .kind("unreadable")
        .hint("agents action validate FILE")
}

#[cfg(test)]
mod tests;
