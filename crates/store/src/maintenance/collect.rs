//! Garbage collection: old operation results, unreferenced blobs, remains of dead processes.
//! Anything touched within the grace period is kept.

use std::collections::HashSet;

use cleveragents_domain::Timestamp;
use cleveragents_domain::id::OwnerId;
use cleveragents_ports::maintenance::{CollectionReport, Retention};
use cleveragents_ports::{LockRecords, Result, Runs, Transaction};

use crate::database::Database;
use crate::queue::TransactionMode;
use crate::session::StoreSession;
use crate::value::params;

const OLD_OPERATIONS: &str = "operations WHERE at < ?1";
const UNREFERENCED_BLOBS: &str = "blobs WHERE touched_at < ?1 AND NOT EXISTS \
     (SELECT 1 FROM blob_references r WHERE r.hash = blobs.hash)";
const STRAY_CHUNKS: &str = "blob_chunks WHERE touched_at < ?1 AND NOT EXISTS \
     (SELECT 1 FROM blobs b WHERE b.hash = blob_chunks.hash)";

/// The maximum number of operation results deleted in one transaction.
const OPERATIONS_PER_BATCH: u64 = 5000;
/// The maximum number of blobs, and of chunks of large blobs, deleted in one transaction.
const BLOBS_PER_BATCH: u64 = 250;

const EXISTING_BLOB: &str = "SELECT hash FROM blobs WHERE hash = ?1 AND ?2 IS NOT NULL";
/// Selects the blob `?1` if a collection would keep it.
const RETAINED_BLOB: &str = "SELECT hash FROM blobs WHERE hash = ?1 AND (touched_at >= ?2 OR EXISTS \
     (SELECT 1 FROM blob_references r WHERE r.hash = blobs.hash))";

impl Database {
    /// Reports what [`Database::collect`] would delete.
    pub async fn preview_collection(&self, retention: Retention) -> Result<CollectionReport> {
        let (mut found, cutoff) = self
            .transact(TransactionMode::Read, move |session| {
                count_collectable(session, retention)
            })
            .await?;
        let (files, _) = self.find_stray_files(cutoff, RETAINED_BLOB).await?;
        found.stray_files = files.len() as u64;
        found.dead_processes = self.sweep_presence(false).await?;
        Ok(found)
    }

    /// Deletes what is no longer needed. Safe beside writers: anything they touch or reference
    /// meanwhile is kept, and they can write between the batches.
    pub async fn collect(&self, retention: Retention) -> Result<CollectionReport> {
        let mut taken = CollectionReport::default();
        let cutoff = loop {
            let part = self
                .transact(TransactionMode::Write, move |session| {
                    collect_batch(session, retention)
                })
                .await?;
            taken.operations += part.operations;
            taken.blobs += part.blobs;
            taken.blob_bytes += part.blob_bytes;
            if part.is_last {
                break part.cutoff;
            }
        };
        // Files are listed after the rows are deleted, so one collection also removes the files of
        // its own blobs.
        let (files, store) = self.find_stray_files(cutoff, EXISTING_BLOB).await?;
        taken.stray_files = match store {
            Some(store) => store.remove(&files, cutoff)?,
            None => 0,
        };
        taken.dead_processes = self.sweep_presence(true).await?;
        Ok(taken)
    }

    /// Files in the blob folder that are older than the grace period and whose blob is not in
    /// `needed`.
    async fn find_stray_files(
        &self,
        cutoff: Timestamp,
        needed: &'static str,
    ) -> Result<(
        Vec<crate::blob_files::StoredFile>,
        Option<crate::blob_files::BlobFiles>,
    )> {
        let Some(store) = self.files.clone() else {
            return Ok((Vec::new(), None));
        };
        let candidates = store.older_than(cutoff)?;
        let strays = self
            .transact(TransactionMode::Read, move |session| {
                let mut strays = Vec::new();
                for file in &candidates {
                    let named = match &file.hash {
                        Some(hash) => session.find(needed, params![hash.as_str(), cutoff])?,
                        None => None,
                    };
                    if named.is_none() {
                        strays.push(file.clone());
                    }
                }
                Ok(strays)
            })
            .await?;
        Ok((strays, Some(store)))
    }

    /// Sweeps lock files of dead processes, except those that still hold a run or lock, because
    /// their death must stay provable.
    async fn sweep_presence(&self, remove: bool) -> Result<u64> {
        let Some(presence) = self.presence.clone() else {
            return Ok(0);
        };
        let owners = self
            .transact(TransactionMode::Read, |session| {
                let runs = session.runs()?.into_iter().map(|run| run.owner);
                let locks = session.locks()?.into_iter().map(|lock| lock.owner);
                Ok(runs.chain(locks).collect::<HashSet<OwnerId>>())
            })
            .await?;
        presence.sweep(&owners, remove)
    }
}

fn count_collectable(
    session: &mut StoreSession<'_>,
    retention: Retention,
) -> Result<(CollectionReport, Timestamp)> {
    let now = session.now()?;
    let cutoff = now.before(retention.blobs);
    let mut number = |sql: &str, before: Timestamp| -> Result<u64> {
        let rows = session.query(sql, params![before])?;
        let count = rows.first().map_or(Ok(0), |row| row.integer(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    };
    let counted = CollectionReport {
        operations: number(
            &format!("SELECT count(*) FROM {OLD_OPERATIONS}"),
            now.before(retention.operations),
        )?,
        blobs: number(
            &format!("SELECT count(*) FROM {UNREFERENCED_BLOBS}"),
            cutoff,
        )?,
        blob_bytes: number(
            &format!("SELECT coalesce(CAST(sum(size) AS BIGINT), 0) FROM {UNREFERENCED_BLOBS}"),
            cutoff,
        )?,
        ..CollectionReport::default()
    };
    Ok((counted, cutoff))
}

/// The rows that one transaction of a collection deleted.
#[derive(Debug, Clone, Copy)]
struct CollectionBatch {
    operations: u64,
    blobs: u64,
    blob_bytes: u64,
    is_last: bool,
    /// Rows touched before this are old.
    cutoff: Timestamp,
}

/// Deletes one batch, small enough that other writers do not wait for long and that the rollback
/// data fits into memory. PostgreSQL rechecks only the row itself if it is touched meanwhile, so
/// each statement tests the age outside its subselect, too.
fn collect_batch(session: &mut StoreSession<'_>, retention: Retention) -> Result<CollectionBatch> {
    let now = session.now()?;
    let cutoff = now.before(retention.blobs);
    let operations = session.execute(
        &format!(
            "DELETE FROM operations WHERE id IN \
             (SELECT id FROM {OLD_OPERATIONS} LIMIT {OPERATIONS_PER_BATCH})"
        ),
        params![now.before(retention.operations)],
    )?;
    // The rows are summed before they are deleted; the order is fixed so that both statements
    // select the same ones.
    let some = format!(
        "SELECT hash, size FROM {UNREFERENCED_BLOBS} ORDER BY hash LIMIT {BLOBS_PER_BATCH}"
    );
    let rows = session.query(
        &format!("SELECT coalesce(CAST(sum(size) AS BIGINT), 0) FROM ({some}) AS part"),
        params![cutoff],
    )?;
    let bytes = rows.first().map_or(Ok(0), |row| row.integer(0))?;
    let blobs = session.execute(
        &format!(
            "DELETE FROM blobs WHERE touched_at < ?1 AND hash IN (SELECT hash FROM ({some}) AS part)"
        ),
        params![cutoff],
    )?;
    let chunks = session.execute(
        &format!(
            "DELETE FROM blob_chunks WHERE touched_at < ?1 AND (hash, number) IN \
             (SELECT hash, number FROM {STRAY_CHUNKS} LIMIT {BLOBS_PER_BATCH})"
        ),
        params![cutoff],
    )?;
    Ok(CollectionBatch {
        operations,
        blobs,
        blob_bytes: u64::try_from(bytes).unwrap_or(0),
        // A full batch may have left rows behind, so another one follows.
        is_last: operations < OPERATIONS_PER_BATCH
            && blobs < BLOBS_PER_BATCH
            && chunks < BLOBS_PER_BATCH,
        cutoff,
    })
}
