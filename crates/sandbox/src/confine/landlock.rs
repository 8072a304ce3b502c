//! Confinement by Landlock: a process drops rights for itself and its children.
//!
//! It is a level of its own, and also the last step inside bubblewrap if the kernel supports both.
//! `docs/guide/confinement.md` lists what Landlock cannot do.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cleveragents_domain::process::Network;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use super::grants::{Grant, grants};
use super::policy::{AccessRules, Enforcement, PathAccess, Policy};

/// The minimum for this level: older versions cannot prevent a command from truncating any file.
const MIN_ABI: ABI = ABI::V3;

/// The newest version we use; an older kernel enforces what it supports.
const MAX_ABI: ABI = ABI::V9;

/// Devices that every command may use.
const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/shm",
];

const READABLE_DEVICES: [&str; 2] = ["/dev/random", "/dev/urandom"];

/// Terminals, if they belong to the command.
const OWN_TERMINALS: &str = "/dev/pts";

pub(super) fn is_supported() -> bool {
    ruleset(TcpAccess::Denied).and_then(Ruleset::create).is_ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TcpAccess {
    Denied,
    Allowed,
}

/// Builds the rights that `policy` leaves. They take effect with [`RulesetCreated::restrict_self`].
pub(super) fn prepare(policy: &Policy) -> Result<RulesetCreated, RulesetError> {
    let (given, sockets) = match (&policy.enforced_by, policy.network) {
        // It has its own network namespace and may connect to itself.
        (Enforcement::Bubblewrap(_), _) => (bubblewrap_rights(&policy.rules), TcpAccess::Allowed),
        (_, Network::Allow) => (machine_rights(&policy.rules), TcpAccess::Allowed),
        (_, Network::Deny) => (machine_rights(&policy.rules), TcpAccess::Denied),
    };
    let mut created = ruleset(sockets)?.create()?;
    for (path, access) in given {
        // A path that was removed since it was listed needs no rule.
        let Some((handle, kind)) = open_path(&path) else {
            continue;
        };
        let rights = match kind {
            FileType::Symlink => continue,
            FileType::Directory => access,
            // The kernel refuses a rule that gives a file the rights of folders.
            _ => access & AccessFs::from_file(MAX_ABI),
        };
        created = created.add_rule(PathBeneath::new(handle, rights))?;
    }
    Ok(created)
}

fn ruleset(sockets: TcpAccess) -> Result<Ruleset, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(MIN_ABI))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(MAX_ABI))?
        .scope(Scope::from_all(MAX_ABI))?;
    match sockets {
        TcpAccess::Denied => ruleset.handle_access(AccessNet::from_all(MAX_ABI)),
        TcpAccess::Allowed => Ok(ruleset),
    }
}

/// Opens the path itself and never the target of a link, which is granted under its own path.
fn open_path(path: &Path) -> Option<(OwnedFd, FileType)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = open(path, flags, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(fstat(&handle).ok()?.st_mode);
    Some((handle, kind))
}

type FileRights = BitFlags<AccessFs>;

fn read_rights() -> FileRights {
    AccessFs::from_read(MAX_ABI)
}

/// All rights except creating devices.
fn write_rights() -> FileRights {
    AccessFs::from_all(MAX_ABI) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

/// Without bubblewrap the real file system is visible, so every grant is listed.
fn machine_rights(rules: &AccessRules) -> Vec<(PathBuf, FileRights)> {
    let mut given = device_rights();
    given.push(("/proc".into(), read_rights()));
    for (path, grant) in grants(rules) {
        match grant {
            Grant::Read => given.push((path, read_rights())),
            Grant::Write => given.push((path, write_rights())),
            Grant::Private | Grant::Link(_) => {}
        }
    }
    given
}

/// Inside bubblewrap only granted paths exist, so only write access must be restricted.
fn bubblewrap_rights(rules: &AccessRules) -> Vec<(PathBuf, FileRights)> {
    let mut given = device_rights();
    given.push(("/".into(), read_rights()));
    given.push((OWN_TERMINALS.into(), write_rights()));
    let may_write = rules
        .iter()
        .filter(|(_, access)| matches!(access, PathAccess::Private | PathAccess::Writable));
    given.extend(may_write.map(|(path, _)| (path.to_owned(), write_rights())));
    given
}

fn device_rights() -> Vec<(PathBuf, FileRights)> {
    let writable = DEVICES.map(|path| (PathBuf::from(path), write_rights()));
    let readable = READABLE_DEVICES.map(|path| (PathBuf::from(path), read_rights()));
    writable.into_iter().chain(readable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_devices_are_not_fully_granted() {
        let mut rules = AccessRules::default();
        rules.add(Path::new("/usr"), PathAccess::Readable);
        let given = machine_rights(&rules);
        assert!(
            given
                .iter()
                .all(|(path, _)| path != Path::new("/") && path != Path::new("/dev"))
        );
        assert!(given.iter().any(|(path, _)| path == Path::new("/usr")));
        let inside = bubblewrap_rights(&rules);
        let root = inside.iter().find(|(path, _)| path == Path::new("/"));
        assert!(!root.unwrap().1.contains(AccessFs::WriteFile));
    }
}
