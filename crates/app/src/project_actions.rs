//! Actions in a project's own files: `.agents/actions/*.yaml` and `*.yml`. Using one does not
//! register it.
//!
//! A registered action wins over a file with the same name: the user chose to register it, while
//! the file may have arrived with the last `git pull`. The reply then warns about the shadowed
//! file ([`FoundAction::Registered`]).
//!
//! A repository is not trusted. `${VAR}` is not expanded, files are read again on each use, and
//! using one needs consent to its content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cleveragents_api::action::ActionValidate;
use cleveragents_api::{FailureKind, NextStep};
use cleveragents_definitions::{ActionDraft, DefinitionSource, SOURCE_MAXIMUM, read_action};
use cleveragents_domain::{Action, NamespacedName, RepositoryFile};
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_engine::trust::{RepositoryAction, content_hash};
use cleveragents_ports::StoreError;
use cleveragents_ports::project_files::{ProjectFile, ProjectFileError, ProjectFiles};

use crate::failure::{RequestError, display_path};
use crate::services::Services;

/// An action that a file of a project defines.
#[derive(Debug, Clone)]
pub struct ProjectAction {
    pub draft: ActionDraft,
    /// The path for messages.
    pub file: PathBuf,
    /// The identity that consent is recorded for.
    pub identity: RepositoryFile,
}

impl ProjectAction {
    /// Converts to the form that the engine uses.
    pub fn into_action(self) -> RepositoryAction {
        RepositoryAction {
            draft: self.draft,
            file: self.identity,
        }
    }
}

/// The actions of several projects.
#[derive(Debug, Default)]
pub struct ProjectActions {
    /// One per file, in the order of the folders.
    pub actions: Vec<ProjectAction>,
    /// Files and folders that cannot be read or are invalid.
    pub failures: Vec<RequestError>,
}

/// An action found by name.
#[derive(Debug)]
pub enum FoundAction {
    /// A registered action, and the file that it shadows, if any.
    Registered {
        action: Box<Action>,
        shadowed: Option<PathBuf>,
    },
    File(Box<ProjectAction>),
}

/// An action that was not found.
#[derive(Debug)]
pub struct UnknownAction {
    pub name: NamespacedName,
    /// The actions in files of the projects.
    pub in_files: Vec<NamespacedName>,
}

impl ProjectActions {
    /// Reads all actions of the `folders`, each the root of a project. Errors are collected and do
    /// not stop the scan.
    pub fn read(files: &dyn ProjectFiles, folders: &[PathBuf]) -> Self {
        let mut all = Self::default();
        let mut seen = Vec::new();
        for root in folders {
            let listed = match files.action_files(root, SOURCE_MAXIMUM + 1) {
                Ok(listed) => listed,
                Err(error) => {
                    all.failures.push(unreadable_failure(&error));
                    continue;
                }
            };
            for file in listed {
                match file {
                    Ok(file) => {
                        let identity = (file.project.clone(), file.path.clone());
                        // Two resources may share a folder, and a link may point to another file
                        // of the folder.
                        if !seen.contains(&identity) {
                            seen.push(identity);
                            all.add(file);
                        }
                    }
                    Err(error) => all.failures.push(unreadable_failure(&error)),
                }
            }
        }
        all
    }

    fn add(&mut self, file: ProjectFile) {
        match parse(file) {
            Ok(action) => self.actions.push(action),
            Err(failure) => self.failures.push(failure),
        }
    }

    /// Returns the action `name`. Fails if two files define it. Also fails if no file defines it
    /// but one cannot be read, because that one might.
    fn find(self, name: &NamespacedName) -> Result<Option<ProjectAction>, RequestError> {
        let duplicates = find_duplicates(&self.actions, Some(name));
        if let Some(failure) = duplicates.into_iter().next() {
            return Err(failure);
        }
        let mut actions = self.actions.into_iter();
        let found = actions.find(|action| action.draft.name == *name);
        match (found, self.failures.into_iter().next()) {
            (None, Some(failure)) => Err(failure),
            (found, _) => Ok(found),
        }
    }

    /// Returns the file that defines `name`.
    fn file_of(&self, name: &NamespacedName) -> Option<&PathBuf> {
        let mut actions = self.actions.iter();
        let found = actions.find(|action| action.draft.name == *name);
        found.map(|action| &action.file)
    }
}

/// Returns the folders to search when no project is given: the one around the caller's working
/// directory.
pub(crate) fn enclosing_projects(
    services: &Services,
    working_directory: Option<&Path>,
) -> Vec<PathBuf> {
    let files = services.adapters().project_files();
    let enclosing = working_directory.and_then(|from| files.enclosing_project(from));
    enclosing.into_iter().collect()
}

pub(crate) fn project_actions(services: &Services, folders: &[PathBuf]) -> ProjectActions {
    ProjectActions::read(&*services.adapters().project_files(), folders)
}

/// Returns the registered action `name`, else the one from the files in `folders`. Broken or
/// duplicate files do not prevent the use of a registered action.
pub(crate) async fn find_action(
    services: &Services,
    name: &NamespacedName,
    folders: &[PathBuf],
) -> Result<Result<FoundAction, UnknownAction>, RequestError> {
    let registered = match services.action_registry().action(name.clone()).await {
        Ok(action) => Some(action),
        Err(LifecycleError::Store(StoreError::NotFound { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    choose(name, registered, project_actions(services, folders))
}

fn choose(
    name: &NamespacedName,
    registered: Option<Action>,
    in_files: ProjectActions,
) -> Result<Result<FoundAction, UnknownAction>, RequestError> {
    if let Some(action) = registered {
        return Ok(Ok(FoundAction::Registered {
            action: Box::new(action),
            shadowed: in_files.file_of(name).cloned(),
        }));
    }
    let known = in_files.actions.iter();
    let unknown = UnknownAction {
        name: name.clone(),
        in_files: known.map(|action| action.draft.name.clone()).collect(),
    };
    let found = in_files.find(name)?;
    Ok(match found {
        Some(action) => Ok(FoundAction::File(Box::new(action))),
        None => Err(unknown),
    })
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
    actions: &[ProjectAction],
    requested: Option<&NamespacedName>,
) -> Vec<RequestError> {
    let mut files: BTreeMap<&NamespacedName, Vec<&Path>> = BTreeMap::new();
    for action in actions {
        let name = &action.draft.name;
        if requested.is_none_or(|wanted| wanted == name) {
            files.entry(name).or_default().push(&action.file);
        }
    }
    files
        .into_iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(name, files)| {
            let files: Vec<String> = files.into_iter().map(display_path).collect();
            RequestError::usage(format!("the action {name} is defined more than once"))
                .kind(FailureKind::DefinedTwice)
                .because(format!("by {}", files.join(" and ")))
                .hint("give one of them another name")
                .with_facts(|facts| facts.files = Some(files))
        })
        .collect()
}

fn parse(file: ProjectFile) -> Result<ProjectAction, RequestError> {
    let shown = display_path(&file.display_path);
    let source = DefinitionSource::new(&shown, &file.content).from_repository();
    let draft = read_action(&source, &|_| None).map_err(|errors| {
        let validate = NextStep::fill_in::<ActionValidate>(&[("file", &shown)]);
        RequestError::from(errors).hint(validate)
    })?;
    Ok(ProjectAction {
        draft,
        identity: RepositoryFile {
            repository: file.project,
            path: file.path,
            hash: content_hash(&file.content),
        },
        file: file.display_path,
    })
}

fn unreadable_failure(error: &ProjectFileError) -> RequestError {
    RequestError::usage(format!("cannot read {}", display_path(&error.path)))
        .kind(FailureKind::Unreadable)
        .because(error.reason.clone())
        .hint(NextStep::fill_in::<ActionValidate>(&[("file", "FILE")]))
}

#[cfg(test)]
mod tests;
