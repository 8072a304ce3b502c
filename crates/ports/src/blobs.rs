//! Blobs: byte strings identified by their hash, kept as long as they are referenced.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Result, StoreError};

/// Blobs up to this size, in bytes, are stored in the database row itself.
pub const INLINE_MAXIMUM: usize = 64 * 1024;

/// The BLAKE3 hash of a blob's content, as 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobHash(String);

impl BlobHash {
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).to_hex().to_string())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BlobHash {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self> {
        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if text.len() == 64 && text.chars().all(hex) {
            Ok(Self(text.to_owned()))
        } else {
            Err(StoreError::internal(format!("`{text}` is not a blob hash")))
        }
    }
}

/// The location of a staged blob's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Staging {
    /// Small: written by the transaction.
    Inline(Arc<[u8]>),
    /// Large: already durable in a file beside the database.
    File,
    /// Large: already durable as rows.
    Chunks,
}

/// A blob that a transaction may now reference. Unreferenced ones are collected after the grace
/// period.
#[derive(Debug, Clone)]
pub struct StagedBlob {
    pub hash: BlobHash,
    pub size: u64,
    pub staging: Staging,
}

pub trait Blobs {
    /// References a staged blob for `holder`. Idempotent.
    fn put_blob(&mut self, blob: &StagedBlob, holder: &str) -> Result<()>;

    /// Returns the content, or `None` if there is no such blob.
    fn blob(&mut self, hash: &BlobHash) -> Result<Option<Vec<u8>>>;

    /// Drops all references of a holder. Unreferenced blobs are collected later.
    fn release_blobs(&mut self, holder: &str) -> Result<u64>;
}
