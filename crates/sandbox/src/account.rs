//! The user account that commands run as when this program runs as root.
//!
//! Root without capabilities still owns the machine's files, including `/proc/sys`. So each sandbox
//! has a user of its own that owns only its tree and its scratch folder. The number is a hash of
//! the sandbox's name, so nothing is registered. Two sandboxes rarely share a number, except in a
//! container with few users; then only folder modes and the rules of the level separate them. See
//! `docs/decisions/0015-commands-have-a-user-of-their-own.md`.

use std::fs;
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid};
use serde::{Deserialize, Serialize};

/// A range that people, services, directories and containers do not use.
const FIRST_UID: u32 = 2_010_000_000;
const UID_COUNT: u32 = 1 << 20;

/// The same for a container that has 65536 users: the range between dynamic users and `nobody`.
const FIRST_UID_SMALL: u32 = 65_520;
const UID_COUNT_SMALL: u32 = 14;

/// A user id and the group id of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxAccount(u32);

impl SandboxAccount {
    /// Returns the account of the sandbox in this folder. Returns `None` if this process is not
    /// root, or if only one user exists: such a root is an ordinary user outside its namespace.
    pub(crate) fn for_sandbox(folder: &Path) -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let users = UidMap::read("/proc/self/uid_map");
        let groups = UidMap::read("/proc/self/gid_map");
        let numbers = [(FIRST_UID, UID_COUNT), (FIRST_UID_SMALL, UID_COUNT_SMALL)];
        let usable = |(first, count): &(u32, u32)| {
            // Both maps must have the number: the process changes its user and its group.
            users.contains(*first, *count) && groups.contains(*first, *count)
        };
        let (first, count) = numbers.into_iter().find(usable)?;
        Some(Self(first + hash_sandbox_name(folder) % count))
    }

    /// Returns whether sandboxes have users of their own on this machine.
    pub(crate) fn is_supported() -> bool {
        Self::for_sandbox(Path::new("sandbox")).is_some()
    }

    /// Returns whether a user id can only belong to a sandbox.
    pub(crate) fn is_sandbox_uid(number: u32) -> bool {
        let numbers = [(FIRST_UID, UID_COUNT), (FIRST_UID_SMALL, UID_COUNT_SMALL)];
        numbers
            .iter()
            .any(|(first, count)| (*first..first + count).contains(&number))
    }

    pub(crate) fn uid(self) -> Uid {
        Uid::from_raw(self.0)
    }

    pub(crate) fn gid(self) -> Gid {
        Gid::from_raw(self.0)
    }
}

/// Hashes only the last path component, so moving the data directory does not change the result.
fn hash_sandbox_name(folder: &Path) -> u32 {
    let name = folder.file_name().unwrap_or_default();
    let hash = blake3::hash(name.as_encoded_bytes());
    let [a, b, c, d, ..] = *hash.as_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The user ids that exist in this user namespace, as (first, count).
struct UidMap(Vec<(u32, u32)>);

impl UidMap {
    fn read(path: &str) -> Self {
        Self::parse(&fs::read_to_string(path).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let range = |line: &str| {
            let mut fields = line.split_whitespace();
            let first = fields.next()?.parse().ok()?;
            let count = fields.nth(1)?.parse().ok()?;
            Some((first, count))
        };
        Self(text.lines().filter_map(range).collect())
    }

    fn contains(&self, first: u32, count: u32) -> bool {
        let last = first.saturating_add(count);
        self.0
            .iter()
            .any(|(start, length)| *start <= first && last <= start.saturating_add(*length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_exists_and_is_never_root() {
        let all = UidMap::parse("         0          0 4294967295\n");
        let container = UidMap::parse("0 100000 65536\n");
        let alone = UidMap::parse("0 1000 1\n");
        for (mapped, large, small) in [
            (all, true, true),
            (container, false, true),
            (alone, false, false),
        ] {
            assert_eq!(mapped.contains(FIRST_UID, UID_COUNT), large);
            assert_eq!(mapped.contains(FIRST_UID_SMALL, UID_COUNT_SMALL), small);
        }
        let account = SandboxAccount::for_sandbox(Path::new("/a/one"));
        assert_eq!(account, SandboxAccount::for_sandbox(Path::new("/b/one")));
        assert!(account.is_none_or(|it| it.0 >= FIRST_UID_SMALL));
        assert!(account.is_none() || account != SandboxAccount::for_sandbox(Path::new("/a/two")));
    }
}
