//! Where the parts of a sandbox are, and the marker that says whose it is.

use std::path::{Path, PathBuf};

use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::{AbsolutePath, BaseSource, ResourceType};
use cleveragents_engine::ports::sandbox::{
    ObjectFormat, SandboxError, SandboxResult, TreeId, Warning,
};
use serde::{Deserialize, Serialize};

use crate::files::{io_error, is_not_found, read_if_exists, replace};

const MARKER_VERSION: u32 = 1;

/// The folder of one sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) folder: PathBuf,
}

impl Layout {
    pub(crate) fn new(root: &Path, id: SandboxId) -> Self {
        Self {
            folder: root.join(id.to_string()),
        }
    }

    pub(crate) fn git(&self) -> PathBuf {
        self.folder.join("git")
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// A tree that is being made.
    pub(crate) fn next_tree(&self) -> PathBuf {
        self.folder.join("tree.next")
    }

    /// A tree set aside.
    pub(crate) fn old_tree(&self) -> PathBuf {
        self.folder.join("tree.old")
    }

    pub(crate) fn entries(&self) -> PathBuf {
        self.folder.join("entries")
    }

    /// Touched to learn the time of the file system, by which alone files are compared.
    pub(crate) fn clock(&self) -> PathBuf {
        self.folder.join("clock")
    }

    /// The home and the temporary files of commands.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.folder.join("scratch")
    }

    /// Where a pack for the user's repository is made.
    pub(crate) fn publishing(&self) -> PathBuf {
        self.folder.join("publishing")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.folder.join("lock")
    }

    pub(crate) fn marker(&self) -> PathBuf {
        self.folder.join("marker.json")
    }

    /// Everything but marker and lock, in the order in which it is removed.
    pub(crate) fn contents(&self) -> [PathBuf; 9] {
        [
            self.next_tree(),
            self.old_tree(),
            self.tree(),
            self.git(),
            self.scratch(),
            self.publishing(),
            self.entries(),
            self.entries().with_extension("next"),
            self.clock(),
        ]
    }
}

/// Whose sandbox a folder is and how far it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    version: u32,
    pub(crate) id: SandboxId,
    pub(crate) plan: PlanId,
    pub(crate) resource: AbsolutePath,
    pub(crate) resource_type: ResourceType,
    pub(crate) base: BaseSource,
    /// Needed only while it is made.
    #[serde(skip)]
    pub(crate) trusted_includes: Vec<String>,
    /// Absent until the sandbox is completely made.
    pub(crate) made: Option<SandboxProperties>,
}

/// What is fixed when a sandbox is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxProperties {
    pub(crate) tree: TreeId,
    pub(crate) base_commit: Option<String>,
    pub(crate) object_format: ObjectFormat,
    pub(crate) shaping: Vec<(String, String)>,
    pub(crate) attributes: String,
    pub(crate) conversion: ContentConversion,
    pub(crate) warnings: Vec<Warning>,
}

/// Whether git may store other bytes than the tree holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ContentConversion {
    Never,
    Possible,
}

impl Marker {
    pub(crate) fn new(new: &cleveragents_engine::ports::sandbox::NewSandbox) -> Self {
        Self {
            version: MARKER_VERSION,
            id: new.id,
            plan: new.plan,
            resource: new.resource.clone(),
            resource_type: new.resource_type,
            base: new.base,
            trusted_includes: new.trusted_includes.clone(),
            made: None,
        }
    }

    pub(crate) fn write(&self, layout: &Layout) -> SandboxResult<()> {
        let path = layout.marker();
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| SandboxError::Io {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        replace(&path, &bytes)
    }

    /// The marker in the folder of sandbox `id`. No folder, or one in which nothing was done yet,
    /// has none; a folder of somebody else's is an error.
    pub(crate) fn read(root: &Path, id: SandboxId) -> SandboxResult<Option<Self>> {
        let layout = Layout::new(root, id);
        let foreign = |reason: &str| SandboxError::Foreign {
            path: layout.folder.clone(),
            reason: reason.to_owned(),
        };
        match std::fs::symlink_metadata(&layout.folder) {
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(io_error(&layout.folder)(error)),
            Ok(found) if !found.is_dir() => return Err(foreign("it is not a folder of ours")),
            Ok(_) => {}
        }
        let resolved = layout
            .folder
            .canonicalize()
            .map_err(io_error(&layout.folder))?;
        let root = root.canonicalize().map_err(io_error(root))?;
        if resolved.parent() != Some(root.as_path()) {
            return Err(foreign("it lies outside the folder of sandboxes"));
        }
        let Some(bytes) = read_if_exists(&layout.marker())? else {
            return match is_unused(&layout) {
                true => Ok(None),
                false => Err(foreign("it has no marker of ours")),
            };
        };
        let marker: Self = serde_json::from_slice(&bytes)
            .map_err(|error| foreign(&format!("its marker cannot be read: {error}")))?;
        if marker.version != MARKER_VERSION {
            return Err(foreign("its marker was written by another version"));
        }
        match marker.id == id {
            true => Ok(Some(marker)),
            false => Err(foreign("its marker names another sandbox")),
        }
    }
}

/// Whether a folder holds nothing but what is made before its marker.
fn is_unused(layout: &Layout) -> bool {
    let next = layout.marker().with_extension("next");
    let ours = [layout.lock(), next];
    std::fs::read_dir(&layout.folder)
        .is_ok_and(|entries| entries.flatten().all(|entry| ours.contains(&entry.path())))
}
