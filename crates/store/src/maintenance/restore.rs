//! Restoring a backup: into an empty database, or instead of what is there, all or nothing.
//!
//! A restore has the schema to itself: no other process has the database open meanwhile. It is
//! one transaction, so a crash leaves either the old state or the new one. Claims and locks come
//! back without owners, their epochs kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cleveragents_domain::{EventKind, NewEvent, StreamId};
use cleveragents_engine::journal::verify::walk;
use cleveragents_engine::ports::blobs::{INLINE_MAXIMUM, Staging};
use cleveragents_engine::ports::{BlobHash, Journal, Result, StoreError};
use serde::Serialize;
use serde_json::json;

use super::Progress;
use super::archive::{Manifest, Reader};
use super::backup;
use super::tables::{REFERENCES, TABLES};
use crate::blob_files::BlobFiles;
use crate::database::Options;
use crate::dialect::Dialect;
use crate::postgres::{self, Address};
use crate::session::Session;
use crate::sqlite;
use crate::tx::Tx;
use crate::value::params;

/// Where to restore to.
#[derive(Debug, Clone)]
pub struct Target {
    pub options: Options,
    /// `None` for SQLite in the data directory.
    pub url: Option<String>,
    pub altered: Altered,
}

/// What to do with a backup whose journal does not verify: it was altered before it was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Altered {
    Refuse,
    Accept,
}

/// What to do with contents that are there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existing {
    Refuse,
    /// Write them to this new backup, then replace them. Nobody can add to them in between.
    Replace {
        saved_to: PathBuf,
    },
}

/// A backup that was restored.
#[derive(Debug, Clone, Serialize)]
pub struct Restored {
    pub manifest: Manifest,
    pub place: String,
    /// The backup of what was there before.
    pub saved_to: Option<PathBuf>,
    /// The database file that could not be read, under its new name.
    pub set_aside: Option<PathBuf>,
}

/// A database to oneself, of either engine.
trait Alone: Tx {
    fn batch(&mut self, sql: &str) -> Result<()>;

    fn as_tx(&mut self) -> &mut dyn Tx;
}

impl Alone for sqlite::Connection {
    fn batch(&mut self, sql: &str) -> Result<()> {
        sqlite::Connection::batch(self, sql)
    }

    fn as_tx(&mut self) -> &mut dyn Tx {
        self
    }
}

impl Alone for postgres::Connection {
    fn batch(&mut self, sql: &str) -> Result<()> {
        postgres::Connection::batch(self, sql)
    }

    fn as_tx(&mut self) -> &mut dyn Tx {
        self
    }
}

/// Reads the backup at `path` through and says what is in it; a damaged one is refused.
pub fn inspect(path: &Path) -> Result<Manifest> {
    Reader::open(path).map(|reader| reader.manifest)
}

/// Restores the backup at `path`. Blocks; must not be called on a thread of the async runtime.
pub fn restore(
    target: &Target,
    path: &Path,
    existing: &Existing,
    progress: &Progress,
) -> Result<Restored> {
    let reader = Reader::open(path)?;
    let directory = &target.options.directory;
    let mut set_aside = None;
    let (place, saved_to) = match &target.url {
        None => {
            let sqlite::Alone {
                connection: mut alone,
                set_aside: moved,
                _lock,
            } = sqlite::open_alone(
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
            let mut alone = postgres::open_alone(&address)?;
            let loader = Loader {
                target,
                files: None,
                progress,
            };
            let saved_to = loader.load(&mut alone, &reader, existing)?;
            (address.place(), saved_to)
        }
    };
    Ok(Restored {
        manifest: reader.manifest,
        place,
        saved_to,
        set_aside,
    })
}

struct Loader<'a> {
    target: &'a Target,
    files: Option<&'a BlobFiles>,
    progress: &'a Progress,
}

impl Loader<'_> {
    fn load(
        &self,
        alone: &mut dyn Alone,
        reader: &Reader,
        existing: &Existing,
    ) -> Result<Option<PathBuf>> {
        alone.batch("BEGIN")?;
        let dialect = alone.dialect();
        let mut session = Session::new(alone.as_tx(), self.files);
        let loaded = self.replace_contents(&mut session, reader, existing, dialect);
        match loaded {
            Ok(saved_to) => alone.batch("COMMIT").map(|()| saved_to),
            Err(error) => {
                // The error that matters is the first one.
                let _ = alone.batch("ROLLBACK");
                Err(error)
            }
        }
    }

    fn replace_contents(
        &self,
        session: &mut Session<'_>,
        reader: &Reader,
        existing: &Existing,
        dialect: Dialect,
    ) -> Result<Option<PathBuf>> {
        let contents = contents(session)?;
        let saved_to = match existing {
            _ if contents.is_empty() => None,
            Existing::Refuse => return Err(StoreError::NotEmpty { contents }),
            Existing::Replace { saved_to } => {
                backup::write(session, saved_to, self.progress)?;
                Some(saved_to.clone())
            }
        };
        for table in crate::schema::TABLES.iter().rev() {
            session.execute(&format!("DELETE FROM {table}"), &[])?;
        }
        let mut rows: BTreeMap<&str, u64> = BTreeMap::new();
        reader.each(&mut |name, content| {
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
                (Some("blobs"), Some(hash)) => Err(reader.damaged(format!(
                    "blob {hash} has another content than its name says"
                ))),
                _ => Err(StoreError::internal(format!(
                    "`{name}` is not part of a backup"
                ))),
            }
        })?;
        self.verify(session, reader)?;
        self.settle(session, reader, dialect)?;
        Ok(saved_to)
    }

    /// A chain that does not hold is found before anything is replaced.
    fn verify(&self, session: &mut Session<'_>, reader: &Reader) -> Result<()> {
        if self.target.altered == Altered::Accept {
            return Ok(());
        }
        for stream in session.streams()? {
            if let Err(fault) = walk(session, stream)? {
                return Err(reader.altered(&fault));
            }
        }
        Ok(())
    }

    /// Nobody owns anything any more; numbers go on where they were; the restore is on record.
    fn settle(&self, session: &mut Session<'_>, reader: &Reader, dialect: Dialect) -> Result<()> {
        session.carry_over(reader.manifest.schema)?;
        session.execute("UPDATE runs SET owner = NULL", &[])?;
        session.execute("UPDATE locks SET owner = NULL, holds = 0", &[])?;
        if let Some(sql) = dialect.go_on_counting() {
            session.query(sql, &[])?;
        }
        let record = json!({
            "created_at": reader.manifest.created_at,
            "written_by": reader.manifest.written_by,
            "contents": reader.manifest.contents,
        });
        let event = NewEvent::new(
            EventKind::BackupRestored,
            &self.target.options.command,
            &record,
        )
        .map_err(StoreError::internal)?;
        session.append(StreamId::System, &[event])?;
        Ok(())
    }

    fn insert_blob(&self, session: &mut Session<'_>, content: &[u8]) -> Result<()> {
        let hash = BlobHash::of(content);
        let staging = match self.files {
            _ if content.len() <= INLINE_MAXIMUM => Staging::Inline(content.into()),
            Some(files) => {
                files.stage(&hash, content, &*self.target.options.clock)?;
                Staging::File
            }
            None => {
                session.put_chunks(&hash, content)?;
                Staging::Chunks
            }
        };
        session.insert_blob_row(&hash, content.len() as u64, &staging)
    }
}

fn insert_rows(
    session: &mut Session<'_>,
    reader: &Reader,
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
        let row = table.row(line)?;
        // A reference to a blob that could not be saved leads nowhere.
        let lost = &reader.manifest.unreadable_blobs;
        if table.name == REFERENCES.name && lost.contains(&row.text(0)?) {
            continue;
        }
        table.insert(session, &row)?;
        rows += 1;
    }
    Ok((table.name, rows))
}

/// How many rows of what people care about are there.
fn contents(session: &mut Session<'_>) -> Result<Vec<String>> {
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
