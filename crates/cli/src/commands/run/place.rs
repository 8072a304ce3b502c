//! The folder a task is about, as a project.

use std::path::{Path, PathBuf};

use cleveragents_domain::{NamespacedName, Resource};
use cleveragents_engine::StoreError;
use cleveragents_engine::projects::{Found, NewProject, ProjectError};

use crate::commands::Context;
use crate::failure::{Failure, shown_path};
use crate::places::{self, Kind};
use crate::wiring::Wired;

/// How many names are tried for a folder whose own name is taken.
const NAMES_TRIED: u32 = 1000;

/// A folder that can be worked on.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    found: Found,
}

/// The project that stands for it.
#[derive(Debug)]
pub(super) struct Project {
    pub(super) name: NamespacedName,
    pub(super) resources: Vec<Resource>,
    pub(super) is_new: bool,
}

impl Place {
    pub(super) fn shown(&self) -> String {
        shown_path(&self.folder)
    }
}

/// The folder, or the repository around it.
pub(super) fn look(path: &Path, context: &Context<'_>) -> Result<Place, Failure> {
    let data_directory = &context.settings()?.locations.data_directory;
    let mut place = places::look(path, data_directory)?;
    if let Kind::InsideRepository { root } = &place.kind {
        place = places::look(&root.clone(), data_directory)?;
    }
    Ok(Place {
        found: place.found()?,
        folder: place.path,
    })
}

/// The project that has this folder and nothing else, made if there is none.
pub(super) fn project(place: &Place, wired: &Wired<'_>) -> Result<Project, Failure> {
    let base = base_name(&place.folder);
    for number in 1..=NAMES_TRIED {
        if let Some(known) = known(place, wired)? {
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
            places: vec![place.found.clone()],
            invariants: Vec::new(),
        };
        match wired.wait(wired.projects().create(new, wired.actor())) {
            Ok(created) => {
                return Ok(Project {
                    name,
                    resources: created.resources,
                    is_new: true,
                });
            }
            // Somebody has the name, perhaps for this very folder.
            Err(ProjectError::Store(StoreError::Taken { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(
        Failure::usage(format!("no name is left for {}", place.shown()))
            .kind("no_name")
            .hint("agents project create NAME --path DIR"),
    )
}

fn known(place: &Place, wired: &Wired<'_>) -> Result<Option<Project>, Failure> {
    let projects = wired.wait(wired.projects().list())?;
    let stands_for =
        |resources: &[Resource]| matches!(resources, [one] if one.path == place.found.path);
    let found = projects.into_iter().find(|it| stands_for(&it.resources));
    Ok(found.map(|view| Project {
        name: view.project.name,
        resources: view.resources,
        is_new: false,
    }))
}

/// The folder's name in the letters a name may have.
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
    match base.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => base,
        false => format!("folder-{base}").trim_end_matches('-').to_owned(),
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
