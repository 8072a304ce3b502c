//! The paths of the parts of a sandbox, and the marker that identifies its owner.

use std::path::{Path, PathBuf};

use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::{AbsolutePath, BaseSource, ResourceType};
use cleveragents_ports::sandbox::{ObjectFormat, SandboxError, SandboxResult, TreeId, Warning};
use serde::{Deserialize, Serialize};

use crate::files::{io_error, is_not_found, read_if_exists, replace};

const MARKER_VERSION: u32 = 1;

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

    /// A tree under construction.
    pub(crate) fn next_tree(&self) -> PathBuf {
        self.folder.join("tree.next")
    }

    /// The previous tree, moved aside.
    pub(crate) fn old_tree(&self) -> PathBuf {
        self.folder.join("tree.old")
    }

    pub(crate) fn entries(&self) -> PathBuf {
        self.folder.join("entries")
    }

    /// Touched to read the time of the file system; file times are compared only with that.
    pub(crate) fn clock(&self) -> PathBuf {
        self.folder.join("clock")
    }

    /// The home and the temporary files of commands.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.folder.join("scratch")
    }

    /// Folder in which a pack for the user's repository is built.
    pub(crate) fn publishing(&self) -> PathBuf {
        self.folder.join("publishing")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.folder.join("lock")
    }

    pub(crate) fn marker(&self) -> PathBuf {
        self.folder.join("marker.json")
    }

    /// Everything except marker and lock, in the order of removal.
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

/// Identifies the sandbox in a folder and whether its creation was completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    version: u32,
    pub(crate) id: SandboxId,
    pub(crate) plan: PlanId,
    pub(crate) resource: AbsolutePath,
    pub(crate) resource_type: ResourceType,
    pub(crate) base: BaseSource,
    /// Needed only during creation.
    #[serde(skip)]
    pub(crate) trusted_includes: Vec<String>,
    /// `None` until the sandbox is complete.
    pub(crate) made: Option<SandboxProperties>,
}

/// Properties that are fixed when a sandbox is created.
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

/// Whether git may store other bytes than the tree contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ContentConversion {
    Never,
    Possible,
}

impl Marker {
    pub(crate) fn new(new: &cleveragents_ports::sandbox::NewSandbox) -> Self {
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

    /// Reads the marker of sandbox `id`. Returns `None` if the folder does not exist or is unused.
    /// Fails if the folder belongs to something else.
    pub(crate) fn read(root: &Path, id: SandboxId) -> SandboxResult<Option<Self>> {
        let layout = Layout::new(root, id);
        let foreign = |reason: &str| SandboxError::Foreign {
            path: layout.folder.clone(),
            reason: reason.to_owned(),
        };
        match std::fs::symlink_metadata(&layout.folder) {
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(io_error(&layout.folder)(error)),
            Ok(found) if !found.is_dir() => return Err(foreign("it is not a sandbox folder")),
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
            return if is_unused(&layout) {
                Ok(None)
            } else {
                Err(foreign("it has no sandbox marker"))
            };
        };
        let marker: Self = serde_json::from_slice(&bytes)
            .map_err(|error| foreign(&format!("its marker cannot be read: {error}")))?;
        if marker.version != MARKER_VERSION {
            return Err(foreign("its marker was written by another version"));
        }
        if marker.id == id {
            Ok(Some(marker))
        } else {
            Err(foreign("its marker names another sandbox"))
        }
    }
}

/// Returns whether a folder contains only what is created before its marker.
fn is_unused(layout: &Layout) -> bool {
    let next = layout.marker().with_extension("next");
    let ours = [layout.lock(), next];
    std::fs::read_dir(&layout.folder)
        .is_ok_and(|entries| entries.flatten().all(|entry| ours.contains(&entry.path())))
}
