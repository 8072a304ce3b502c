//! The id of a git object, and how it is computed from the object's bytes.

use std::fmt;

use cleveragents_ports::sandbox::{ObjectFormat, SandboxError, SandboxResult};
use sha2::Digest as _;

/// The id of an object. It knows its length, so an id of one format is never written where the
/// other is expected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectId {
    length: u8,
    bytes: [u8; 32],
}

impl ObjectId {
    /// Creates an id from its bytes. Returns `None` unless the length fits one of the formats.
    pub(crate) fn from_bytes(found: &[u8]) -> Option<Self> {
        let length = match found.len() {
            20 => 20,
            32 => 32,
            _ => return None,
        };
        let mut bytes = [0; 32];
        bytes[..found.len()].copy_from_slice(found);
        Some(Self { length, bytes })
    }

    /// Parses the hexadecimal form that git prints.
    pub(crate) fn parse(text: &str) -> SandboxResult<Self> {
        let malformed = || SandboxError::Malformed {
            what: format!("`{text}` is not the id of a git object"),
        };
        let digits = text.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() > 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(malformed());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| malformed())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| malformed())?;
        }
        let is_even = digits.len().is_multiple_of(2);
        let found = is_even.then(|| Self::from_bytes(&bytes[..digits.len() / 2]));
        found.flatten().ok_or_else(malformed)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Blob,
    Tree,
    Commit,
}

impl ObjectKind {
    /// Returns the header that precedes the content of an object of this size.
    pub(crate) fn header(self, size: u64) -> Vec<u8> {
        let name = match self {
            Self::Blob => "blob",
            Self::Tree => "tree",
            Self::Commit => "commit",
        };
        format!("{name} {size}\0").into_bytes()
    }
}

/// Hashes header and content of one object.
pub(crate) enum ObjectHasher {
    Sha1(Box<sha1_checked::Sha1>),
    Sha256(Box<sha2::Sha256>),
}

impl ObjectHasher {
    pub(crate) fn new(format: ObjectFormat) -> Self {
        match format {
            ObjectFormat::Sha1 => Self::Sha1(Box::default()),
            ObjectFormat::Sha256 => Self::Sha256(Box::default()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(hasher) => sha1_checked::Digest::update(hasher.as_mut(), bytes),
            Self::Sha256(hasher) => sha2::Digest::update(hasher.as_mut(), bytes),
        }
    }

    /// Returns the id. As in git, fails for content crafted to collide with another object: with it
    /// an agent could show one file and have another one stored.
    pub(crate) fn finish(self) -> SandboxResult<ObjectId> {
        let id = match self {
            Self::Sha1(hasher) => {
                let found = hasher.try_finalize();
                if found.has_collision() {
                    return Err(SandboxError::Malformed {
                        what: "a file was made to share its hash with another".to_owned(),
                    });
                }
                ObjectId::from_bytes(found.hash())
            }
            Self::Sha256(hasher) => ObjectId::from_bytes(&hasher.finalize()),
        };
        id.ok_or_else(|| SandboxError::Malformed {
            what: "a hash has another length than its format".to_owned(),
        })
    }
}

/// Returns the id of an object with these bytes.
pub(crate) fn hash_object(
    format: ObjectFormat,
    kind: ObjectKind,
    content: &[u8],
) -> SandboxResult<ObjectId> {
    let mut hasher = ObjectHasher::new(format);
    hasher.update(&kind.header(content.len() as u64));
    hasher.update(content);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_match_git() {
        for (format, kind, content, id) in [
            (
                ObjectFormat::Sha1,
                ObjectKind::Tree,
                &b""[..],
                "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            ),
            (
                ObjectFormat::Sha1,
                ObjectKind::Blob,
                b"a\n",
                "78981922613b2afb6025042ff6bd878ac1994e85",
            ),
            (
                ObjectFormat::Sha256,
                ObjectKind::Tree,
                b"",
                "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
            ),
        ] {
            let found = hash_object(format, kind, content).unwrap();
            assert_eq!(found.to_string(), id);
            assert_eq!(ObjectId::parse(id), Ok(found));
        }
    }

    #[test]
    fn an_invalid_id_is_refused() {
        for text in [
            "",
            "ab",
            "zz",
            &"a".repeat(39),
            &"g".repeat(40),
            &"a".repeat(66),
            "é",
            &"+a".repeat(20),
        ] {
            assert!(ObjectId::parse(text).is_err(), "{text}");
        }
    }
}
