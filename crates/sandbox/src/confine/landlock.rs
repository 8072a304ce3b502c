//! Confinement by Landlock: rights that a process gives up for itself and all it starts.
//!
//! It is a level of its own, and the last thing that is done inside bubblewrap where the kernel has
//! both. What Landlock cannot do is listed in `docs/guide/confinement.md`.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cleveragents_domain::process::Network;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use super::grants::{Grant, grants};
use super::policy::{Access, Enforcement, Policy, Rules};

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

/// Terminals, where they are the command's own.
const OWN_TERMINALS: &str = "/dev/pts";

/// Whether the kernel can do what is needed at all.
pub(super) fn works() -> bool {
    ruleset(Sockets::Denied).and_then(Ruleset::create).is_ok()
}

/// Whether TCP is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sockets {
    Denied,
    Allowed,
}

/// The rights that `policy` leaves. They bind nobody before [`RulesetCreated::restrict_self`].
pub(super) fn prepare(policy: &Policy) -> Result<RulesetCreated, RulesetError> {
    let (given, sockets) = match (&policy.enforced_by, policy.network) {
        // It has a network of its own, in which it may talk to itself.
        (Enforcement::Bubblewrap(_), _) => (inside_bubblewrap(&policy.rules), Sockets::Allowed),
        (_, Network::Allow) => (on_the_machine(&policy.rules), Sockets::Allowed),
        (_, Network::Deny) => (on_the_machine(&policy.rules), Sockets::Denied),
    };
    let mut created = ruleset(sockets)?.create()?;
    for (path, access) in given {
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
    Ok(created)
}

fn ruleset(sockets: Sockets) -> Result<Ruleset, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?;
    match sockets {
        Sockets::Denied => ruleset.handle_access(AccessNet::from_all(WANTED)),
        Sockets::Allowed => Ok(ruleset),
    }
}

/// The path itself, never what a link leads to: that has a name of its own.
fn handle(path: &Path) -> Option<(OwnedFd, FileType)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = open(path, flags, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(fstat(&handle).ok()?.st_mode);
    Some((handle, kind))
}

type Rights = BitFlags<AccessFs>;

fn readable() -> Rights {
    AccessFs::from_read(WANTED)
}

/// Devices are nobody's to make.
fn writable() -> Rights {
    AccessFs::from_all(WANTED) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

/// Where the machine itself is seen, everything is given by name.
fn on_the_machine(rules: &Rules) -> Vec<(PathBuf, Rights)> {
    let mut given = devices();
    given.push(("/proc".into(), readable()));
    for (path, grant) in grants(rules) {
        match grant {
            Grant::Read => given.push((path, readable())),
            Grant::Write => given.push((path, writable())),
            Grant::Private | Grant::Link(_) => {}
        }
    }
    given
}

/// Where only what is given is there, what matters is what may be written.
fn inside_bubblewrap(rules: &Rules) -> Vec<(PathBuf, Rights)> {
    let mut given = devices();
    given.push(("/".into(), readable()));
    given.push((OWN_TERMINALS.into(), writable()));
    let may_write = rules
        .iter()
        .filter(|(_, access)| matches!(access, Access::Private | Access::Writable));
    given.extend(may_write.map(|(path, _)| (path.to_owned(), writable())));
    given
}

fn devices() -> Vec<(PathBuf, Rights)> {
    let writable = DEVICES.map(|path| (PathBuf::from(path), writable()));
    let readable = READABLE_DEVICES.map(|path| (PathBuf::from(path), readable()));
    writable.into_iter().chain(readable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_the_root_nor_the_devices_are_given_whole() {
        let mut rules = Rules::default();
        rules.add(Path::new("/usr"), Access::Readable);
        let given = on_the_machine(&rules);
        assert!(
            given
                .iter()
                .all(|(path, _)| path != Path::new("/") && path != Path::new("/dev"))
        );
        assert!(given.iter().any(|(path, _)| path == Path::new("/usr")));
        let inside = inside_bubblewrap(&rules);
        let root = inside.iter().find(|(path, _)| path == Path::new("/"));
        assert!(!root.unwrap().1.contains(AccessFs::WriteFile));
    }
}
