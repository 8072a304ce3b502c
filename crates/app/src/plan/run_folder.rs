//! The folder of a task, as a project.

use std::path::{Path, PathBuf};

use cleveragents_api::project::ProjectCreate;
use cleveragents_api::{FailureKind, NextStep};
use cleveragents_domain::{NamespacedName, Resource};
use cleveragents_engine::projects::{LocatedResource, NewProject, ProjectError};
use cleveragents_ports::StoreError;

use crate::app::Caller;
use crate::failure::{RequestError, display_path};
use crate::resource_directory::DirectoryKind;
use crate::services::Services;

/// Number of names to try for the new project if the folder's name is taken.
const NAMES_TRIED: u32 = 1000;

#[derive(Debug)]
pub(super) struct RunFolder {
    pub(super) path: PathBuf,
    pub(super) location: LocatedResource,
}

/// The project for the folder.
#[derive(Debug)]
pub(super) struct RunProject {
    pub(super) name: NamespacedName,
    pub(super) resources: Vec<Resource>,
    pub(super) is_new: bool,
}

/// Returns the folder, or the repository that contains it.
pub(super) fn open_run_folder(services: &Services, path: &Path) -> Result<RunFolder, RequestError> {
    let mut directory = services.adapters().inspect_directory(path)?;
    if let DirectoryKind::InsideRepository { root } = &directory.kind {
        directory = services.adapters().inspect_directory(&root.clone())?;
    }
    Ok(RunFolder {
        location: directory.to_location()?,
        path: directory.path,
    })
}

/// Returns the project that has exactly this folder; creates it if there is none.
pub(super) async fn find_or_create_project(
    services: &Services,
    folder: &RunFolder,
    caller: &Caller,
) -> Result<RunProject, RequestError> {
    let base = base_name(&folder.path);
    for number in 1..=NAMES_TRIED {
        if let Some(known) = find_run_project(services, folder).await? {
            return Ok(known);
        }
        let name = match number {
            1 => format!("local/{base}"),
            _ => format!("local/{base}-{number}"),
        };
        let Ok(name) = name.parse::<NamespacedName>() else {
            continue;
        };
        let new = NewProject {
            name: name.clone(),
            description: None,
            automation_profile: None,
            locations: vec![folder.location.clone()],
            invariants: Vec::new(),
        };
        match services.projects().create(new, &caller.who).await {
            Ok(created) => {
                return Ok(RunProject {
                    name,
                    resources: created.resources,
                    is_new: true,
                });
            }
            // The name is taken. Another process may have just created it for the same folder,
            // so look again.
            Err(ProjectError::Store(StoreError::Taken { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let what = format!("no free project name for {}", display_path(&folder.path));
    Err(RequestError::usage(what).kind(FailureKind::NoName).hint(
        NextStep::fill_in::<ProjectCreate>(&[
            ("name", "NAME"),
            ("path", &display_path(&folder.path)),
        ]),
    ))
}

async fn find_run_project(
    services: &Services,
    folder: &RunFolder,
) -> Result<Option<RunProject>, RequestError> {
    let projects = services.projects().list().await?;
    let matches_folder =
        |resources: &[Resource]| matches!(resources, [one] if one.path == folder.location.path);
    let found = projects
        .into_iter()
        .find(|it| matches_folder(&it.resources));
    Ok(found.map(|view| RunProject {
        name: view.project.name,
        resources: view.resources,
        is_new: false,
    }))
}

/// Returns the folder's name with only characters that a name may have.
fn base_name(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let mut base: String = name
        .chars()
        .map(|c| match c {
            'a'..='z' | '0'..='9' | '-' | '_' => c,
            'A'..='Z' => c.to_ascii_lowercase(),
            _ => '-',
        })
        .take(60)
        .collect();
    base = base.trim_matches('-').to_owned();
    if base.starts_with(|c: char| c.is_ascii_alphabetic()) {
        base
    } else {
        format!("folder-{base}").trim_end_matches('-').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_folder_has_a_name() {
        for (folder, name) in [
            ("/srv/shop", "shop"),
            ("/srv/My Shop", "my-shop"),
            ("/srv/2024", "folder-2024"),
            ("/srv/héllo", "h-llo"),
            ("/srv/___", "folder-___"),
            ("/", "folder"),
        ] {
            assert_eq!(base_name(Path::new(folder)), name);
            let whole = format!("local/{name}");
            assert!(whole.parse::<NamespacedName>().is_ok(), "{whole}");
        }
    }
}
