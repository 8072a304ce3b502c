//! Converts access rules to a list of granted paths, which both confinement levels enforce.
//!
//! Every path that is not granted is hidden. The neighbours of a hidden path are granted one by
//! one, as they exist now. So a file that later gets a hidden name, or replaces a hidden file,
//! stays hidden.

use std::fs;
use std::path::{Path, PathBuf};

use super::policy::{AccessRules, PathAccess};

/// The access that a command gets to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Grant {
    Read,
    Write,
    /// An empty private folder, if the level supports one.
    Private,
    /// A symbolic link with this target.
    Link(PathBuf),
}

/// Returns all grants, parents before their content.
pub(super) fn grants(rules: &AccessRules) -> Vec<(PathBuf, Grant)> {
    let mut grants = Vec::new();
    for (path, access) in rules.iter() {
        let around = path.parent().map(|around| rules.access_to(around));
        if around == Some(access) && !has_hidden_neighbours(rules, path, access) {
            continue;
        }
        match access {
            PathAccess::Hidden => {}
            PathAccess::Private => grants.push((path.to_owned(), Grant::Private)),
            PathAccess::Readable | PathAccess::Writable => {
                add_grants(rules, path, access, &mut grants)
            }
        }
    }
    for (link, target) in rules.links() {
        let is_given = grants.iter().any(|(path, grant)| {
            matches!(grant, Grant::Read | Grant::Write) && link.starts_with(path)
        });
        let is_known = grants.iter().any(|(path, _)| path == link);
        if !is_given && !is_known {
            grants.push((link.to_owned(), Grant::Link(target.to_owned())));
        }
    }
    grants.sort_by(|one, other| one.0.cmp(&other.0));
    grants
}

/// Returns whether a parent of `path` is granted piece by piece. That skips paths with a rule of
/// their own, so `path` needs its own grant. The search ends at the next parent with a rule, because
/// that parent is granted separately.
fn has_hidden_neighbours(rules: &AccessRules, path: &Path, access: PathAccess) -> bool {
    for around in path.ancestors().skip(1) {
        if rules.is_lowered_below(around, access) {
            return true;
        }
        if rules.exact_rule(around).is_some() {
            return false;
        }
    }
    false
}

/// Grants a path as a whole, or piece by piece if something below it has less access.
fn add_grants(
    rules: &AccessRules,
    path: &Path,
    access: PathAccess,
    grants: &mut Vec<(PathBuf, Grant)>,
) {
    if !rules.is_lowered_below(path, access) {
        let grant = match access {
            PathAccess::Writable => Grant::Write,
            _ => Grant::Read,
        };
        grants.push((path.to_owned(), grant));
        return;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries.map(|entry| entry.path()) {
        if rules.exact_rule(&entry).is_some() {
            continue;
        }
        match fs::read_link(&entry) {
            Ok(target) => grants.push((entry, Grant::Link(target))),
            Err(_) => add_grants(rules, &entry, access, grants),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_a_hidden_folder_are_granted_individually() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in [
            "home/.ssh",
            "home/code/deep",
            "home/data/tree",
            "home/data/x",
        ] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(".ssh", root.join("home/link")).unwrap();
        let mut rules = AccessRules::default();
        rules.add(&root, PathAccess::Readable);
        rules.add(&root.join("home/.ssh"), PathAccess::Hidden);
        rules.add(&root.join("home/data"), PathAccess::Hidden);
        rules.add(&root.join("home/data/tree"), PathAccess::Writable);
        let expected = [
            (root.join("home/code"), Grant::Read),
            (root.join("home/data/tree"), Grant::Write),
            (root.join("home/link"), Grant::Link(".ssh".into())),
        ];
        assert_eq!(grants(&rules), expected);
    }

    #[test]
    fn nothing_is_granted_without_a_rule() {
        assert_eq!(grants(&AccessRules::default()), []);
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
        let mut rules = AccessRules::default();
        rules.add(&root.join("usr"), PathAccess::Readable);
        rules.add(&root.join("bin"), PathAccess::Readable);
        let expected = [
            (root.join("bin"), Grant::Link(root.join("usr/bin"))),
            (root.join("usr"), Grant::Read),
        ];
        assert_eq!(grants(&rules), expected);
    }

    #[test]
    fn no_path_is_granted_twice() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["data", "usr/bin", "opt/a/bin", "opt/b/bin", "opt/b/secret"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let mut rules = AccessRules::default();
        rules.hide(&root.join("data"));
        for name in ["usr", "usr/bin", "opt", "opt/a/bin", "opt/b/bin"] {
            rules.add(&root.join(name), PathAccess::Readable);
        }
        rules.hide(&root.join("opt/b/secret"));
        let given: Vec<PathBuf> = grants(&rules).into_iter().map(|it| it.0).collect();
        // A rule below a folder that is granted piece by piece may add a duplicate, but never lose
        // a grant.
        let expected = ["opt/a", "opt/a/bin", "opt/b/bin", "usr"];
        assert_eq!(given, expected.map(|name| root.join(name)));
    }
}
