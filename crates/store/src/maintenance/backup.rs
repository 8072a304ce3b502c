//! Writes a backup: one consistent snapshot, while others continue to write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cleveragents_ports::{BlobHash, Blobs, Result, StoreError, Transaction};
use serde::Serialize;

use super::ProgressCallback;
use super::archive::{BackupManifest, BackupWriter, FORMAT, file_exists_error};
use super::tables::{REFERENCES, TABLES, Table};
use crate::database::Database;
use crate::queue::TransactionMode;
use crate::schema::NEWEST_VERSION;
use crate::session::{StoreSession, lock_blob_files};
use crate::value::params;

#[derive(Debug, Clone, Serialize)]
pub struct BackupReport {
    pub path: PathBuf,
    pub bytes: u64,
    pub contents: BTreeMap<String, u64>,
    /// Blobs omitted because their content was missing or altered.
    pub unreadable_blobs: BTreeSet<String>,
}

impl Database {
    /// Writes everything to the new file `path`. Never overwrites an existing file.
    pub async fn backup(&self, path: &Path, progress: ProgressCallback) -> Result<BackupReport> {
        // An early answer for the usual mistake; `PartialFile::persist` is the check that cannot
        // race.
        if path.exists() {
            return Err(file_exists_error(path));
        }
        let target = path.to_owned();
        let manifest = self
            .transact(TransactionMode::Read, move |session| {
                write_backup(session, &target, &progress)
            })
            .await?;
        let bytes = std::fs::metadata(path).map_or(0, |facts| facts.len());
        Ok(BackupReport {
            path: path.to_owned(),
            bytes,
            contents: manifest.contents,
            unreadable_blobs: manifest.unreadable_blobs,
        })
    }
}

/// Writes the snapshot of `session` to the new file `path`.
pub(super) fn write_backup(
    session: &mut StoreSession<'_>,
    path: &Path,
    progress: &ProgressCallback,
) -> Result<BackupManifest> {
    let at = session.now()?;
    // Held until the archive is written: a sweep could otherwise delete the file of a blob that the
    // snapshot still names.
    let _files = lock_blob_files(session)?;
    let mut writer = BackupWriter::create(path, at)?;
    let mut unreadable_blobs = BTreeSet::new();
    let contents = write_contents(session, &mut writer, &mut unreadable_blobs, progress)?;
    writer.finish(BackupManifest {
        format: FORMAT,
        written_by: env!("CARGO_PKG_VERSION").to_owned(),
        schema: NEWEST_VERSION,
        created_at: at,
        contents,
        unreadable_blobs,
        members: BTreeMap::new(),
    })
}

fn write_contents(
    session: &mut StoreSession<'_>,
    writer: &mut BackupWriter,
    unreadable: &mut BTreeSet<String>,
    progress: &ProgressCallback,
) -> Result<BTreeMap<String, u64>> {
    let mut contents = BTreeMap::new();
    for table in TABLES {
        let rows = write_table(session, writer, table, progress)?;
        contents.insert(table.name.to_owned(), rows);
    }
    contents.insert(
        "blobs".to_owned(),
        write_blobs(session, writer, unreadable, progress)?,
    );
    let rows = write_table(session, writer, &REFERENCES, progress)?;
    contents.insert(REFERENCES.name.to_owned(), rows);
    Ok(contents)
}

fn write_table(
    session: &mut StoreSession<'_>,
    writer: &mut BackupWriter,
    table: &Table,
    progress: &ProgressCallback,
) -> Result<u64> {
    let (mut rows, mut part) = (0, 0);
    let mut page = table.page(session, None)?;
    while let Some(last) = page.last() {
        let mut text = String::new();
        for row in &page {
            text.push_str(&Table::to_line(row)?);
            text.push('\n');
        }
        writer.add(
            &format!("tables/{}/{part:08}.ndjson", table.name),
            text.as_bytes(),
        )?;
        rows += page.len() as u64;
        part += 1;
        progress(table.name, rows);
        page = table.page(session, Some(last))?;
    }
    Ok(rows)
}

fn write_blobs(
    session: &mut StoreSession<'_>,
    writer: &mut BackupWriter,
    unreadable: &mut BTreeSet<String>,
    progress: &ProgressCallback,
) -> Result<u64> {
    let mut written = 0;
    let mut last = String::new();
    loop {
        let rows = session.query(
            "SELECT hash FROM blobs WHERE hash > ?1 ORDER BY hash LIMIT 100",
            params![&last],
        )?;
        let Some(end) = rows.last() else {
            return Ok(written);
        };
        last = end.text(0)?;
        for row in &rows {
            let hash: BlobHash = row.text(0)?.parse()?;
            let content = match session.blob(&hash) {
                Ok(content) => content.ok_or_else(|| StoreError::internal("a blob vanished"))?,
                // A damaged blob must not prevent the rest from being saved.
                // After a failed statement the transaction is unusable, so then the error is not
                // about the blob.
                Err(StoreError::Corrupt { .. }) if session.failure().is_none() => {
                    unreadable.insert(hash.to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            writer.add(&format!("blobs/{hash}"), &content)?;
            written += 1;
            progress("blobs", written);
        }
    }
}
