//! What a command may touch, as the owner tells the supervisor.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::AbsolutePath;
use cleveragents_domain::process::{Confinement, Network};
use serde::{Deserialize, Serialize};

use crate::account::SandboxAccount;
use crate::files::path_from_bytes;

/// How a command is confined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Policy {
    pub(super) enforced_by: Enforcement,
    pub(super) network: Network,
    /// The working directory.
    pub(super) tree: AbsolutePath,
    pub(super) rules: AccessRules,
    /// The user to run as; none if it is the one who started us.
    pub(super) account: Option<SandboxAccount>,
}

/// What keeps a command to its policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Enforcement {
    Bubblewrap(Bubblewrap),
    Landlock,
    Nothing,
}

/// The bubblewrap program and what it can do here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bubblewrap {
    pub(super) program: AbsolutePath,
    pub(super) user_namespaces: UserNamespaces,
    pub(super) own_folders: OwnFolders,
}

/// Whether the folders of a command that lie in memory can be bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OwnFolders {
    Bounded,
    /// This bubblewrap is older than 0.7; the kernel gives each half of the machine's memory.
    Unbounded,
}

/// Which user namespace a command runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UserNamespaces {
    /// That of the machine, because root started us: the command has a user of its own there.
    Shared,
    /// A new one, in which no further one can be made.
    Forbidden,
    /// A new one; this bubblewrap or this kernel cannot forbid further ones.
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

/// What may be done with a path and all beneath it, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PathAccess {
    Hidden,
    /// An empty folder of the command's own where the level can give one, else hidden.
    Private,
    Readable,
    Writable,
}

/// Paths and what may be done with them; the longest path that fits decides. What no rule is about
/// is hidden.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccessRules {
    paths: BTreeMap<AbsolutePath, PathAccess>,
    /// Links on the way to these paths, and what they lead to.
    links: BTreeMap<AbsolutePath, AbsolutePath>,
}

impl AccessRules {
    /// Adds a rule about `path` by its real name. A path that is not there needs none.
    pub(super) fn add(&mut self, path: &Path, access: PathAccess) {
        let Ok(real) = path.canonicalize() else {
            return;
        };
        if let Some(absolute) = to_absolute_path(&real) {
            self.paths.insert(absolute, access);
            // A real name has no links in it.
            if real != path {
                self.add_links_to(path);
            }
        }
    }

    /// Hides a path, even if nothing is there yet.
    pub(super) fn hide(&mut self, path: &Path) {
        self.add(path, PathAccess::Hidden);
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return;
        };
        // A link is hidden as well as what it leads to.
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

    /// Parents come before what is in them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, PathAccess)> {
        self.paths
            .iter()
            .map(|(path, access)| (path_from_bytes(path.as_bytes()), *access))
    }

    /// Links on the way to the paths, with what they lead to.
    pub(super) fn links(&self) -> impl Iterator<Item = (&Path, &Path)> {
        self.links.iter().map(|(link, target)| {
            (
                path_from_bytes(link.as_bytes()),
                path_from_bytes(target.as_bytes()),
            )
        })
    }

    /// What may be done with `path`.
    pub(super) fn access_to(&self, path: &Path) -> PathAccess {
        let fitting = self.iter().filter(|(rule, _)| path.starts_with(rule));
        fitting
            .last()
            .map_or(PathAccess::Hidden, |(_, access)| access)
    }

    /// The rule about this very path.
    pub(super) fn exact_rule(&self, path: &Path) -> Option<PathAccess> {
        let found = to_absolute_path(path)?;
        self.paths.get(&found).copied()
    }

    /// Whether something beneath `path` may be touched less than `access`.
    pub(super) fn is_lowered_below(&self, path: &Path, access: PathAccess) -> bool {
        self.iter()
            .any(|(rule, its)| its < access && rule != path && rule.starts_with(path))
    }
}

/// A path in its one spelling.
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

/// Where a program of that name would be found: on the search path, or from the tree if the name
/// has a folder in it.
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
