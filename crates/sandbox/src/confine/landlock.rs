//! Confinement by Landlock: rights that a process gives up for itself and all it starts.
//!
//! Rights only add up along a path, so what is hidden is whatever was not given: around a hidden
//! path, the folders beside it are given one by one. What Landlock cannot do is listed in
//! `docs/guide/confinement.md`.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cleveragents_domain::process::Network;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use super::policy::{Access, Policy, Rules};

/// Without these rights there is no level to speak of: before them, files could be emptied
/// anywhere.
const NEEDED: ABI = ABI::V3;

/// All that we know how to ask for; a kernel that knows less gives less.
const WANTED: ABI = ABI::V9;

/// Devices anybody may use.
const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/shm",
];

const READABLE_DEVICES: [&str; 2] = ["/dev/random", "/dev/urandom"];

/// Whether the kernel can do what is needed at all.
pub(super) fn works() -> bool {
    ruleset(Network::Deny).and_then(Ruleset::create).is_ok()
}

/// Confines the calling thread, for good, and whatever it starts.
pub(super) fn confine(policy: &Policy) -> Result<(), RulesetError> {
    let mut created = ruleset(policy.network)?.create()?;
    for (path, access) in grants(&policy.rules) {
        let Some((handle, kind)) = handle(&path) else {
            continue;
        };
        let rights = match kind {
            FileType::Symlink => continue,
            FileType::Directory => access,
            _ => access & AccessFs::from_file(WANTED),
        };
        created = created.add_rule(PathBeneath::new(handle, rights))?;
    }
    created.restrict_self().map(drop)
}

fn ruleset(network: Network) -> Result<Ruleset, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?;
    match network {
        Network::Deny => ruleset.handle_access(AccessNet::from_all(WANTED)),
        Network::Allow => Ok(ruleset),
    }
}

/// The path itself, never what a link leads to: that has a name of its own.
fn handle(path: &Path) -> Option<(OwnedFd, FileType)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = open(path, flags, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(fstat(&handle).ok()?.st_mode);
    Some((handle, kind))
}

fn rights(access: Access) -> BitFlags<AccessFs> {
    let readable = AccessFs::from_read(WANTED);
    match access {
        Access::Hidden | Access::Private => BitFlags::EMPTY,
        Access::Readable => readable,
        // Devices are nobody's to make.
        Access::Writable => {
            AccessFs::from_all(WANTED) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
        }
    }
}

/// What is given to whom.
fn grants(rules: &Rules) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let mut rules = rules.clone();
    rules.add(Path::new("/dev"), Access::Hidden);
    for path in DEVICES {
        rules.add(Path::new(path), Access::Writable);
    }
    for path in READABLE_DEVICES {
        rules.add(Path::new(path), Access::Readable);
    }
    let mut grants = Vec::new();
    if rules.exactly(Path::new("/")).is_none() {
        give(&rules, Path::new("/"), Access::Readable, &mut grants);
    }
    for (path, access) in rules.iter() {
        if access >= Access::Readable {
            give(&rules, path, access, &mut grants);
        }
    }
    grants
}

/// Gives a path whole, or piece by piece if something beneath it may be touched less.
fn give(
    rules: &Rules,
    path: &Path,
    access: Access,
    grants: &mut Vec<(PathBuf, BitFlags<AccessFs>)>,
) {
    if !rules.lowered_beneath(path, access) {
        grants.push((path.to_owned(), rights(access)));
        return;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries.map(|entry| entry.path()) {
        // What has a rule of its own is given by that.
        if rules.exactly(&entry).is_none() && !entry.is_symlink() {
            give(rules, &entry, access, grants);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn around_a_hidden_folder_its_neighbours_are_given_one_by_one() {
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
        let mut rules = Rules::default();
        rules.add(&root, Access::Readable);
        rules.add(&root.join("home/.ssh"), Access::Hidden);
        rules.add(&root.join("home/data"), Access::Hidden);
        rules.add(&root.join("home/data/tree"), Access::Writable);
        let mut given: Vec<(PathBuf, bool)> = grants(&rules)
            .into_iter()
            .filter(|(path, _)| path.starts_with(&root))
            .map(|(path, rights)| (path, rights.contains(AccessFs::WriteFile)))
            .collect();
        given.sort();
        let expected = [
            (root.join("home/code"), false),
            (root.join("home/data/tree"), true),
        ];
        assert_eq!(given, expected);
    }

    #[test]
    fn the_root_is_never_given_whole_while_devices_are_closed() {
        let given = grants(&Rules::default());
        assert!(
            given
                .iter()
                .all(|(path, _)| path != Path::new("/") && path != Path::new("/dev"))
        );
        assert!(given.iter().any(|(path, _)| path == Path::new("/usr")));
    }
}
