//! The folder of a task, as a project.

use std::path::{Path, PathBuf};

use cleveragents_domain::{NamespacedName, Resource};
use cleveragents_engine::projects::{LocatedResource, NewProject, ProjectError};
use cleveragents_ports::StoreError;

use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, display_path};
use crate::resource_directory::{self, DirectoryKind};

/// How many names are tried for the new project if the folder's name is taken.
const NAMES_TRIED: u32 = 1000;

#[derive(Debug)]
pub(super) struct TargetFolder {
    pub(super) folder: PathBuf,
    location: LocatedResource,
}

/// The project for the folder.
#[derive(Debug)]
pub(super) struct TargetProject {
    pub(super) name: NamespacedName,
    pub(super) resources: Vec<Resource>,
    pub(super) is_new: bool,
}

impl TargetFolder {
    pub(super) fn display_path(&self) -> String {
        display_path(&self.folder)
    }
}

/// Returns the folder, or the repository that contains it.
pub(super) fn open_folder(
    path: &Path,
    context: &CommandContext<'_>,
) -> Result<TargetFolder, CommandFailure> {
    let data_directory = &context.settings()?.locations.data_directory;
    let mut directory = resource_directory::inspect(path, data_directory)?;
    if let DirectoryKind::InsideRepository { root } = &directory.kind {
        directory = resource_directory::inspect(&root.clone(), data_directory)?;
    }
    Ok(TargetFolder {
        location: directory.to_location()?,
        folder: directory.path,
    })
}

/// Returns the project that has exactly this folder; creates it if there is none.
pub(super) fn find_or_create_project(
    target: &TargetFolder,
    app: &AppContext<'_>,
) -> Result<TargetProject, CommandFailure> {
    let base = base_name(&target.folder);
    for number in 1..=NAMES_TRIED {
        if let Some(known) = find_project(target, app)? {
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
            locations: vec![target.location.clone()],
            invariants: Vec::new(),
        };
        match app.block_on(app.projects().create(new, app.actor())) {
            Ok(created) => {
                return Ok(TargetProject {
                    name,
                    resources: created.resources,
                    is_new: true,
                });
            }
            // The name is taken. Another process may have just created it for the same folder, so
            // look again.
            Err(ProjectError::Store(StoreError::Taken { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(CommandFailure::usage(format!(
        "no free project name for {}",
        target.display_path()
    ))
    .kind("no_name")
    .hint("agents project create NAME --path DIR"))
}

fn find_project(
    target: &TargetFolder,
    app: &AppContext<'_>,
) -> Result<Option<TargetProject>, CommandFailure> {
    let projects = app.block_on(app.projects().list())?;
    let matches_folder =
        |resources: &[Resource]| matches!(resources, [one] if one.path == target.location.path);
    let found = projects
        .into_iter()
        .find(|it| matches_folder(&it.resources));
    Ok(found.map(|view| TargetProject {
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
