//! Restores a backup into an empty database, or replaces the existing contents, all or nothing.
//!
//! A restore holds the schema exclusively: no other process has the database open meanwhile. It is
//! one transaction, so a crash leaves either the old state or the new one. Claims and locks are
//! restored without owners; their epochs are kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cleveragents_domain::event::payloads::BackupRestored;
use cleveragents_domain::{NewEvent, StreamId};
use cleveragents_ports::blobs::{INLINE_MAXIMUM, Staging};
use cleveragents_ports::journal_verification::verify_stream;
use cleveragents_ports::{BlobHash, Journal, Result, StoreError};
use serde::Serialize;

use super::ProgressCallback;
use super::archive::{BackupManifest, BackupReader};
use super::backup;
use super::tables::{REFERENCES, TABLES};
use crate::blob_files::BlobFiles;
use crate::database::StoreOptions;
use crate::dialect::SqlDialect;
use crate::postgres::{self, Address};
use crate::session::{StoreSession, backfill_rows, insert_blob_row, put_chunks};
use crate::sql_executor::SqlExecutor;
use crate::sqlite;
use crate::value::params;

#[derive(Debug, Clone)]
pub struct RestoreTarget {
    pub options: StoreOptions,
    /// `None` means SQLite in the data directory.
    pub url: Option<String>,
    pub altered: AlteredBackupPolicy,
}

/// Treatment of a backup whose journal does not verify, because it was altered before the
/// backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlteredBackupPolicy {
    Refuse,
    Accept,
}

/// Treatment of existing contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExistingDataPolicy {
    Refuse,
    /// Write them to this new backup, then replace them. The exclusive lock prevents changes in
    /// between.
    Replace {
        saved_to: PathBuf,
    },
}

#[derive(Debug, Clone, Serialize)]
pub struct RestoreReport {
    pub manifest: BackupManifest,
    pub place: String,
    /// The backup of the previous contents.
    pub saved_to: Option<PathBuf>,
    /// The new name of a database file that could not be read.
    pub set_aside: Option<PathBuf>,
}

/// An exclusively held database of either engine.
trait ExclusiveConnection: SqlExecutor {
    fn batch(&mut self, sql: &str) -> Result<()>;

    fn as_executor(&mut self) -> &mut dyn SqlExecutor;
}

impl ExclusiveConnection for sqlite::SqliteConnection {
    fn batch(&mut self, sql: &str) -> Result<()> {
        sqlite::SqliteConnection::batch(self, sql)
    }

    fn as_executor(&mut self) -> &mut dyn SqlExecutor {
        self
    }
}

impl ExclusiveConnection for postgres::PostgresConnection {
    fn batch(&mut self, sql: &str) -> Result<()> {
        postgres::PostgresConnection::batch(self, sql)
    }

    fn as_executor(&mut self) -> &mut dyn SqlExecutor {
        self
    }
}

/// Reads the whole backup at `path` and returns its manifest. Fails if the backup is damaged.
pub fn inspect_backup(path: &Path) -> Result<BackupManifest> {
    BackupReader::open(path).map(|reader| reader.manifest)
}

/// Restores the backup at `path`. Blocks; must not be called on a thread of the async runtime.
pub fn restore(
    target: &RestoreTarget,
    path: &Path,
    existing: &ExistingDataPolicy,
    progress: &ProgressCallback,
) -> Result<RestoreReport> {
    // The whole backup is read and checked before the database is locked, so a damaged one costs
    // other processes nothing.
    let reader = BackupReader::open(path)?;
    let directory = &target.options.directory;
    let mut set_aside = None;
    let (place, saved_to) = match &target.url {
        None => {
            let sqlite::ExclusiveDatabase {
                connection: mut alone,
                set_aside: moved,
                _lock,
            } = sqlite::open_exclusive(
                directory,
                &target.options.presence,
                &target.options.clock,
                existing,
            )?;
            set_aside = moved;
            let files = BlobFiles::new(directory.path());
            let loader = Loader {
                target,
                files: Some(&files),
                progress,
            };
            let saved_to = loader.load(&mut alone, &reader, existing)?;
            (directory.database().display().to_string(), saved_to)
        }
        Some(url) => {
            let address = Address::parse(url, &target.options.command)?;
            let mut alone = postgres::open_exclusive(&address)?;
            let loader = Loader {
                target,
                files: None,
                progress,
            };
            let saved_to = loader.load(&mut alone, &reader, existing)?;
            (address.location(), saved_to)
        }
    };
    Ok(RestoreReport {
        manifest: reader.manifest,
        place,
        saved_to,
        set_aside,
    })
}

struct Loader<'a> {
    target: &'a RestoreTarget,
    files: Option<&'a BlobFiles>,
    progress: &'a ProgressCallback,
}

impl Loader<'_> {
    fn load(
        &self,
        connection: &mut dyn ExclusiveConnection,
        reader: &BackupReader,
        existing: &ExistingDataPolicy,
    ) -> Result<Option<PathBuf>> {
        connection.batch("BEGIN")?;
        let dialect = connection.dialect();
        let mut session = StoreSession::new(connection.as_executor(), self.files);
        let loaded = self.replace_contents(&mut session, reader, existing, dialect);
        match loaded {
            Ok(saved_to) => connection.batch("COMMIT").map(|()| saved_to),
            Err(error) => {
                // The first error is the one to report.
                let _ = connection.batch("ROLLBACK");
                Err(error)
            }
        }
    }

    fn replace_contents(
        &self,
        session: &mut StoreSession<'_>,
        reader: &BackupReader,
        existing: &ExistingDataPolicy,
        dialect: SqlDialect,
    ) -> Result<Option<PathBuf>> {
        let contents = describe_contents(session)?;
        let saved_to = match existing {
            _ if contents.is_empty() => None,
            ExistingDataPolicy::Refuse => return Err(StoreError::NotEmpty { contents }),
            ExistingDataPolicy::Replace { saved_to } => {
                backup::write_backup(session, saved_to, self.progress)?;
                Some(saved_to.clone())
            }
        };
        // Rows go in the reverse order of insertion, dependants first.
        for table in crate::schema::TABLES.iter().rev() {
            session.execute(&format!("DELETE FROM {table}"), &[])?;
        }
        let mut rows: BTreeMap<&str, u64> = BTreeMap::new();
        reader.for_each_member(&mut |name, content| {
            let mut parts = name.split('/');
            match (parts.next(), parts.next()) {
                (Some("tables"), Some(table)) => {
                    let (table, added) = insert_rows(session, reader, table, content)?;
                    let count = rows.entry(table).or_default();
                    *count += added;
                    (self.progress)(table, *count);
                    Ok(())
                }
                (Some("blobs"), Some(hash)) if BlobHash::of(content).as_str() == hash => {
                    self.insert_blob(session, content)
                }
                (Some("blobs"), Some(hash)) => Err(reader.damaged_error(format!(
                    "the content of blob {hash} does not match its hash"
                ))),
                _ => Err(StoreError::internal(format!(
                    "`{name}` does not belong to a backup"
                ))),
            }
        })?;
        self.verify(session, reader)?;
        self.finish_restore(session, reader, dialect)?;
        Ok(saved_to)
    }

    /// Verifies the hash chains before anything is replaced.
    fn verify(&self, session: &mut StoreSession<'_>, reader: &BackupReader) -> Result<()> {
        if self.target.altered == AlteredBackupPolicy::Accept {
            return Ok(());
        }
        for stream in session.streams()? {
            if let Err(fault) = verify_stream(session, stream)? {
                return Err(reader.altered_error(&fault));
            }
        }
        Ok(())
    }

    /// Clears all owners, moves sequences past the restored rows, and records the restore.
    fn finish_restore(
        &self,
        session: &mut StoreSession<'_>,
        reader: &BackupReader,
        dialect: SqlDialect,
    ) -> Result<()> {
        // The holders belong to the time of the backup. The epochs stay, so no lease from then
        // passes a fence (law 5).
        session.execute("UPDATE runs SET owner = NULL", &[])?;
        session.execute("UPDATE locks SET owner = NULL, holds = 0", &[])?;
        if let Some(sql) = dialect.advance_event_sequence() {
            session.query(sql, &[])?;
        }
        // After the sequence was moved: it may append events.
        backfill_rows(session, reader.manifest.schema)?;
        let record = BackupRestored {
            created_at: reader.manifest.created_at,
            written_by: reader.manifest.written_by.clone(),
            contents: reader.manifest.contents.clone(),
        };
        let event = NewEvent::of(&self.target.options.command, &record);
        let event = event.map_err(StoreError::internal)?;
        session.append(StreamId::System, &[event])?;
        Ok(())
    }

    fn insert_blob(&self, session: &mut StoreSession<'_>, content: &[u8]) -> Result<()> {
        let hash = BlobHash::of(content);
        let staging = match self.files {
            _ if content.len() <= INLINE_MAXIMUM => Staging::Inline(content.into()),
            Some(files) => {
                // The file is durable before its row can be; if the transaction is rolled back, the
                // file is garbage for a collection.
                files.stage(&hash, content, &*self.target.options.clock)?;
                Staging::File
            }
            None => {
                put_chunks(session, &hash, content)?;
                Staging::Chunks
            }
        };
        insert_blob_row(session, &hash, content.len() as u64, &staging)
    }
}

fn insert_rows(
    session: &mut StoreSession<'_>,
    reader: &BackupReader,
    name: &str,
    content: &[u8],
) -> Result<(&'static str, u64)> {
    let table = TABLES
        .iter()
        .chain([&REFERENCES])
        .find(|table| table.name == name)
        .ok_or_else(|| StoreError::internal(format!("the backup has an unknown table {name}")))?;
    let text = std::str::from_utf8(content).map_err(StoreError::internal)?;
    let mut rows = 0;
    for line in text.lines() {
        let row = table.parse_row(line)?;
        // A reference to a blob that could not be saved would point nowhere.
        let lost = &reader.manifest.unreadable_blobs;
        if table.name == REFERENCES.name && lost.contains(&row.text(0)?) {
            continue;
        }
        table.insert(session, &row)?;
        rows += 1;
    }
    Ok((table.name, rows))
}

/// Row counts of the user-visible tables.
fn describe_contents(session: &mut StoreSession<'_>) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (table, what) in [
        ("events", "events"),
        ("plans", "plans"),
        ("actions", "actions"),
        ("projects", "projects"),
        ("blobs", "blobs"),
    ] {
        let rows = session.query(&format!("SELECT count(*) FROM {table}"), params![])?;
        let count = rows.first().map_or(Ok(0), |row| row.integer(0))?;
        if count > 0 {
            found.push(format!("{count} {what}"));
        }
    }
    Ok(found)
}
