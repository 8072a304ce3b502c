//! The policy of a command: what it may access. The owner passes it to the supervisor.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::AbsolutePath;
use cleveragents_domain::process::{Confinement, Network};
use serde::{Deserialize, Serialize};

use crate::account::SandboxAccount;
use crate::files::path_from_bytes;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Policy {
    pub(super) enforced_by: Enforcement,
    pub(super) network: Network,
    /// The working directory.
    pub(super) tree: AbsolutePath,
    pub(super) rules: AccessRules,
    /// The user to run as; `None` for the user who started us.
    pub(super) account: Option<SandboxAccount>,
}

/// The mechanism that enforces a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Enforcement {
    Bubblewrap(Bubblewrap),
    Landlock,
    Nothing,
}

/// The bubblewrap program and its features on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bubblewrap {
    pub(super) program: AbsolutePath,
    pub(super) user_namespaces: UserNamespaces,
    pub(super) own_folders: OwnFolders,
}

/// Whether the size of in-memory folders can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OwnFolders {
    Bounded,
    /// Bubblewrap before 0.7: the kernel allows each folder half of the machine's memory.
    Unbounded,
}

/// Which user namespace a command runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UserNamespaces {
    /// The machine's namespace, because root started us: the command has a user of its own in it.
    Shared,
    /// A new namespace in which no further one can be created.
    Forbidden,
    /// A new namespace; this bubblewrap or kernel cannot forbid further ones.
    Possible,
}

impl Enforcement {
    pub(super) fn level(&self) -> Confinement {
        match self {
            Self::Bubblewrap(_) => Confinement::Namespaces,
            Self::Landlock => Confinement::Landlock,
            Self::Nothing => Confinement::None,
        }
    }
}

/// The access to a path and everything below it, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PathAccess {
    Hidden,
    /// An empty private folder if the level supports it, otherwise hidden.
    Private,
    Readable,
    Writable,
}

/// Paths and their access. The longest matching path decides. A path without a rule is hidden.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccessRules {
    paths: BTreeMap<AbsolutePath, PathAccess>,
    /// Links on the way to these paths, and their targets.
    links: BTreeMap<AbsolutePath, AbsolutePath>,
}

impl AccessRules {
    /// Adds a rule for the canonical form of `path`. A path that does not exist needs no rule.
    pub(super) fn add(&mut self, path: &Path, access: PathAccess) {
        let Ok(real) = path.canonicalize() else {
            return;
        };
        if let Some(absolute) = to_absolute_path(&real) {
            self.paths.insert(absolute, access);
            // A canonical path contains no links.
            if real != path {
                self.add_links_to(path);
            }
        }
    }

    /// Hides a path, even if it does not exist yet.
    pub(super) fn hide(&mut self, path: &Path) {
        self.add(path, PathAccess::Hidden);
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return;
        };
        // Hides the link itself as well as its target.
        let real = folder.canonicalize().map(|folder| folder.join(name));
        if let Some(real) = real.ok().and_then(|real| to_absolute_path(&real)) {
            self.paths.insert(real, PathAccess::Hidden);
        }
    }

    fn add_links_to(&mut self, path: &Path) {
        let mut real = PathBuf::from("/");
        for part in path.components() {
            real.push(part);
            if !real.is_symlink() {
                continue;
            }
            let Ok(target) = real.canonicalize() else {
                return;
            };
            if let Some((link, target)) = to_absolute_path(&real).zip(to_absolute_path(&target)) {
                self.links.insert(link, target);
            }
            real = target;
        }
    }

    /// Iterates parents before their content.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, PathAccess)> {
        self.paths
            .iter()
            .map(|(path, access)| (path_from_bytes(path.as_bytes()), *access))
    }

    /// Links on the way to the paths, with their targets.
    pub(super) fn links(&self) -> impl Iterator<Item = (&Path, &Path)> {
        self.links.iter().map(|(link, target)| {
            (
                path_from_bytes(link.as_bytes()),
                path_from_bytes(target.as_bytes()),
            )
        })
    }

    pub(super) fn access_to(&self, path: &Path) -> PathAccess {
        let fitting = self.iter().filter(|(rule, _)| path.starts_with(rule));
        fitting
            .last()
            .map_or(PathAccess::Hidden, |(_, access)| access)
    }

    /// Returns the rule for exactly this path.
    pub(super) fn exact_rule(&self, path: &Path) -> Option<PathAccess> {
        let found = to_absolute_path(path)?;
        self.paths.get(&found).copied()
    }

    /// Returns whether something below `path` has less access than `access`.
    pub(super) fn is_lowered_below(&self, path: &Path, access: PathAccess) -> bool {
        self.iter()
            .any(|(rule, its)| its < access && rule != path && rule.starts_with(path))
    }
}

/// Normalises the spelling of a path.
pub(super) fn to_absolute_path(path: &Path) -> Option<AbsolutePath> {
    AbsolutePath::from_bytes(path.as_os_str().as_bytes()).ok()
}

impl Policy {
    pub(super) fn tree(&self) -> &Path {
        path_from_bytes(self.tree.as_bytes())
    }
}

impl Bubblewrap {
    pub(super) fn program(&self) -> PathBuf {
        path_from_bytes(self.program.as_bytes()).to_owned()
    }
}

/// Finds a program on the search path, or relative to the tree if the name contains a folder.
pub(super) fn find_program(
    name: &OsString,
    tree: &Path,
    search_path: Option<&OsString>,
) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.as_bytes().contains(&b'/') {
        return Some(tree.join(name)).filter(is_program);
    }
    std::env::split_paths(search_path?)
        .map(|folder| tree.join(folder).join(name))
        .find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rule_that_fits_decides() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("data/tree")).unwrap();
        std::fs::create_dir_all(root.join("data-2")).unwrap();
        let mut rules = AccessRules::default();
        rules.add(&root, PathAccess::Readable);
        rules.add(&root.join("data"), PathAccess::Hidden);
        rules.add(&root.join("data/tree"), PathAccess::Writable);
        rules.add(&root.join("absent"), PathAccess::Writable);
        rules.hide(&root.join("later"));
        for (path, access) in [
            ("data/tree/a", PathAccess::Writable),
            ("data/other", PathAccess::Hidden),
            ("data-2", PathAccess::Readable),
            ("absent", PathAccess::Readable),
            ("later", PathAccess::Hidden),
        ] {
            assert_eq!(rules.access_to(&root.join(path)), access, "{path}");
        }
        assert_eq!(rules.access_to(Path::new("/elsewhere")), PathAccess::Hidden);
        assert!(rules.is_lowered_below(&root, PathAccess::Readable));
        assert!(!rules.is_lowered_below(&root.join("data"), PathAccess::Readable));
        let text = serde_json::to_string(&rules).unwrap();
        assert_eq!(serde_json::from_str::<AccessRules>(&text).unwrap(), rules);
    }

    #[test]
    fn links_on_the_way_are_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/inner")).unwrap();
        std::os::unix::fs::symlink("real", root.join("one")).unwrap();
        std::os::unix::fs::symlink("inner", root.join("real/two")).unwrap();
        let mut rules = AccessRules::default();
        rules.add(&root.join("one/two"), PathAccess::Readable);
        let links: Vec<_> = rules.links().collect();
        let (one, two) = (root.join("one"), root.join("real/two"));
        let (real, inner) = (root.join("real"), root.join("real/inner"));
        assert_eq!(links, [(&*one, &*real), (&*two, &*inner)]);
        assert_eq!(rules.exact_rule(&inner), Some(PathAccess::Readable));
    }
}
