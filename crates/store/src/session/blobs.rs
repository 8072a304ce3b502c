//! Store operations on blobs: small ones in their row, large ones in files (SQLite) or chunk rows.

use std::fs::File;

use cleveragents_ports::blobs::Staging;
use cleveragents_ports::{BlobHash, Blobs, Result, StagedBlob, StoreError};

use super::StoreSession;
use crate::blob_files::BlobFiles;
use crate::value::{Param, params};

/// The size of a chunk row.
const CHUNK_SIZE: usize = 256 * 1024;

impl Blobs for StoreSession<'_> {
    fn put_blob(&mut self, blob: &StagedBlob, holder: &str) -> Result<()> {
        insert_blob_row(self, &blob.hash, blob.size, &blob.staging)?;
        self.execute(
            "INSERT INTO blob_references (hash, holder) VALUES (?1, ?2) \
             ON CONFLICT (hash, holder) DO NOTHING",
            params![blob.hash.as_str(), holder],
        )?;
        Ok(())
    }

    fn blob(&mut self, hash: &BlobHash) -> Result<Option<Vec<u8>>> {
        let row = self.find(
            "SELECT place, content FROM blobs WHERE hash = ?1",
            params![hash.as_str()],
        )?;
        let Some(row) = row else {
            return Ok(None);
        };
        let content = match row.text(0)?.as_str() {
            "row" => row.bytes(1)?,
            "chunks" => read_chunks(self, hash)?,
            _ => read_blob_file(self, hash)?,
        };
        // Verified at every read, because plans trust a blob by its hash and stored content can be
        // altered.
        if BlobHash::of(&content) != *hash {
            return Err(StoreError::Corrupt {
                path: format!("blob {hash}").into(),
                reason: "its content was altered".to_owned(),
            });
        }
        Ok(Some(content))
    }

    fn release_blobs(&mut self, holder: &str) -> Result<u64> {
        self.execute(
            "DELETE FROM blob_references WHERE holder = ?1",
            params![holder],
        )
    }
}

/// Inserts the row that locates a blob. Touching an existing row prevents a concurrent collection
/// from deleting it.
pub(crate) fn insert_blob_row(
    session: &mut StoreSession<'_>,
    hash: &BlobHash,
    size: u64,
    staging: &Staging,
) -> Result<()> {
    let (place, content) = match staging {
        Staging::Inline(bytes) => ("row", Param::Bytes(bytes)),
        Staging::File => ("file", Param::Null),
        Staging::Chunks => ("chunks", Param::Null),
    };
    let size = i64::try_from(size).map_err(StoreError::internal)?;
    // Equal hashes mean equal content, so the existing row keeps its place and content.
    session.execute(
        "INSERT INTO blobs (hash, size, place, content, touched_at) \
         VALUES (?1, ?2, ?3, ?4, now_micros()) \
         ON CONFLICT (hash) DO UPDATE SET touched_at = excluded.touched_at",
        &[
            Param::from(hash.as_str()),
            Param::from(size),
            Param::from(place),
            content,
        ],
    )?;
    Ok(())
}

/// Stages a large blob as rows; references to it are added later.
pub(crate) fn put_chunks(
    session: &mut StoreSession<'_>,
    hash: &BlobHash,
    bytes: &[u8],
) -> Result<()> {
    for (number, chunk) in (0_i64..).zip(bytes.chunks(CHUNK_SIZE)) {
        // An existing chunk is written again, so that a damaged one is repaired.
        session.execute(
            "INSERT INTO blob_chunks (hash, number, content, touched_at) \
             VALUES (?1, ?2, ?3, now_micros()) \
             ON CONFLICT (hash, number) DO UPDATE \
             SET touched_at = excluded.touched_at, content = excluded.content",
            params![hash.as_str(), number, chunk],
        )?;
    }
    Ok(())
}

fn read_chunks(session: &mut StoreSession<'_>, hash: &BlobHash) -> Result<Vec<u8>> {
    let rows = session.query(
        "SELECT content FROM blob_chunks WHERE hash = ?1 ORDER BY number",
        params![hash.as_str()],
    )?;
    let mut content = Vec::new();
    for row in &rows {
        content.extend(row.bytes(0)?);
    }
    Ok(content)
}

/// Prevents the removal of large blobs' files until the returned guard is dropped.
pub(crate) fn lock_blob_files(session: &StoreSession<'_>) -> Result<Option<File>> {
    session.files.map(BlobFiles::lock_shared).transpose()
}

fn read_blob_file(session: &mut StoreSession<'_>, hash: &BlobHash) -> Result<Vec<u8>> {
    match session.files {
        Some(files) => files.read(hash),
        None => Err(StoreError::internal(format!(
            "blob {hash} is recorded as a file, but this store has no files"
        ))),
    }
}
