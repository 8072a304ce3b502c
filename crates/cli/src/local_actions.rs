//! Actions in a project's own files: `.agents/actions/*.yaml` and `*.yml`. Using one does not
//! register it.
//!
//! A registered action wins over a file with the same name: the user chose to register it, while
//! the file may have arrived with the last `git pull`. The command then warns about the shadowed
//! file ([`ActionSource::Registered`]).
//!
//! A repository is not trusted. Links that lead out of the folder are not followed, `${VAR}` is not
//! expanded, and the number and size of files are limited. Files are read again on each use, and
//! using one needs consent to its content ([`crate::consent`]).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cleveragents_definitions::ActionDraft;
use cleveragents_domain::{AbsolutePath, NamespacedName, RepositoryFile, ResourcePath};
use cleveragents_engine::trust::RepositoryAction;
use rustix::fs::OFlags;

use crate::definition_file::DefinitionFile;
use crate::environment::Environment;
use crate::failure::{CommandFailure, display_path};

const FOLDER: &str = ".agents/actions";
/// The maximum number of files in one folder.
const FILES_MAXIMUM: usize = 256;

#[derive(Debug, Clone)]
pub struct LocalAction {
    pub draft: ActionDraft,
    pub file: PathBuf,
    /// The identity that consent is recorded for.
    pub identity: RepositoryFile,
}

impl LocalAction {
    /// Converts to the form that the engine uses.
    pub fn into_action(self) -> RepositoryAction {
        RepositoryAction {
            draft: self.draft,
            file: self.identity,
        }
    }
}

/// The result of scanning the folders.
#[derive(Debug, Default)]
pub struct LocalActionScan {
    /// One per file, in the order of the folders.
    pub actions: Vec<LocalAction>,
    /// Files and folders that cannot be read or are invalid.
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

/// The source of an action found by name.
#[derive(Debug)]
pub enum ActionSource<T> {
    /// A registered action, and the file that it shadows, if any.
    Registered {
        action: T,
        shadowed: Option<PathBuf>,
    },
    File(Box<LocalAction>),
}

/// Returns the nearest folder at or above `from` that has an actions folder.
pub fn enclosing_folder(from: &Path) -> Option<PathBuf> {
    from.ancestors()
        .find(|folder| folder.join(FOLDER).is_dir())
        .map(Path::to_owned)
}

/// Returns the folders to search when no project is given: the one around the working directory.
pub fn default_folders(environment: &Environment) -> Vec<PathBuf> {
    let here = environment.working_directory.as_deref();
    here.and_then(enclosing_folder).into_iter().collect()
}

/// Reads all actions of the `folders`, each the root of a project. Errors are collected and do not
/// stop the scan.
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
                // Two resources may share a folder, and a link may point to another file of the
                // folder.
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

/// Returns the action `name` from the files in `folders`. Fails if two files define it. Also fails
/// if no file defines it but one cannot be read, because that one might.
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

/// Returns the action `name`: the one that `registered` returns, else the one from the files, else
/// `None`. Broken or duplicate files do not prevent the use of a registered action.
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

/// Returns the warning about a file whose action is also registered.
pub fn shadowed_warning(name: &NamespacedName, file: &Path) -> String {
    format!(
        "{} defines {name} too; the registered action is used",
        display_path(file)
    )
}

/// Returns a failure for each name that more than one file defines, or only for `requested` if
/// given.
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

/// A file to read, with the path to display and the canonical path.
struct ActionFile {
    display_path: PathBuf,
    real_path: PathBuf,
    /// The root of its repository.
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

/// Opens a regular file. `NONBLOCK` because opening a FIFO would wait for a writer, and `NOFOLLOW`
/// because the file may have been replaced by a link after its path was resolved.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// Returns the action files of the project at `root`, sorted by name. Single files may fail.
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

/// Resolves the file `name` in `folder`, whose canonical path is `inside`, of the repository at
/// `root`. Fails if it is a link out of the folder.
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
    if real.starts_with(inside) {
        Ok(ActionFile {
            display_path: shown,
            real_path: real,
            root: root.to_owned(),
        })
    } else {
        Err(unreadable_failure(&shown).because("it is a link that leads out of the folder"))
    }
}

fn unreadable_failure(path: &Path) -> CommandFailure {
    CommandFailure::usage(format!("cannot read {}", display_path(path)))
        .kind("unreadable")
        .hint("agents action validate FILE")
}

#[cfg(test)]
mod tests;
