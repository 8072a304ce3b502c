//! Filters whose files plans may change, although no filter is ever run.
//!
//! In a sandbox such files have the form that git stores, and what a plan writes there is stored as
//! it is. The user's file is overwritten only if it has that form too: a file that went through its
//! filter has other bytes than the commit and is never replaced.

use std::collections::BTreeSet;

/// Git LFS, whose stored form is known.
const LFS: &str = "lfs";

/// Pointers are not longer than this, as in Git LFS itself.
pub(crate) const MAX_POINTER_SIZE: u64 = 1024;

/// The first line of a Git LFS pointer.
const POINTER_VERSION: &str = "version https://git-lfs.github.com/spec/v1";

/// The names of filters whose files plans may change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AllowedFilters(BTreeSet<String>);

/// The permitted content of a path with a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StorableContent {
    /// Only the previous content.
    Nothing,
    /// Only a Git LFS pointer: no client of it expects anything else to be stored.
    Pointer,
    Anything,
}

impl AllowedFilters {
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    pub(crate) fn storable_content(&self, filter: &str) -> StorableContent {
        if !self.0.contains(filter) {
            StorableContent::Nothing
        } else if filter == LFS {
            StorableContent::Pointer
        } else {
            StorableContent::Anything
        }
    }
}

/// Returns whether bytes are what Git LFS stores for a file. An empty file is stored as it is.
pub(crate) fn is_pointer(bytes: &[u8]) -> bool {
    if bytes.is_empty() {
        return true;
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let value = |key: &str| {
        let mut values = text.lines().filter_map(|line| line.strip_prefix(key));
        values.next().map(str::to_owned)
    };
    let is_hash = |hash: &str| hash.len() == 64 && hash.bytes().all(|it| it.is_ascii_hexdigit());
    bytes.len() as u64 <= MAX_POINTER_SIZE
        && text.lines().next() == Some(POINTER_VERSION)
        && value("oid sha256:").is_some_and(|hash| is_hash(&hash))
        && value("size ").is_some_and(|size| size.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_distinguished_from_contents() {
        let hash = "ab".repeat(32);
        let pointer = |oid: &str, size: &str| {
            format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n")
        };
        assert!(is_pointer(b""));
        assert!(is_pointer(pointer(&hash, "12").as_bytes()));
        let long = pointer(&hash, "12") + &"x".repeat(1024);
        for other in [
            "\n".to_owned(),
            "version https://git-lfs.github.com/spec/v1\n".to_owned(),
            pointer(&hash[1..], "12"),
            pointer(&"zz".repeat(32), "12"),
            pointer(&hash, "-1"),
            pointer(&hash, ""),
            format!("\n{}", pointer(&hash, "12")),
            long,
        ] {
            assert!(!is_pointer(other.as_bytes()), "{other}");
        }
        assert!(!is_pointer(b"\x89PNG\xff\xfe"));
    }

    #[test]
    fn only_named_filters_are_allowed() {
        let allowed = AllowedFilters::new(["lfs".to_owned(), "tidy".to_owned()]);
        assert_eq!(allowed.storable_content("lfs"), StorableContent::Pointer);
        assert_eq!(allowed.storable_content("tidy"), StorableContent::Anything);
        assert_eq!(allowed.storable_content("LFS"), StorableContent::Nothing);
        assert_eq!(allowed.storable_content("set"), StorableContent::Nothing);
        assert_eq!(
            AllowedFilters::default().storable_content("lfs"),
            StorableContent::Nothing
        );
    }
}
