//! The schema lock: every process holds it shared while it has the database open. Creating,
//! migrating and restoring take it exclusively; they wait up to [`LOCK_TIMEOUT`], then name the
//! blocking processes.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_ports::{Clock, Result, StoreError};

use super::connection::SqliteConnection;
use crate::dialect::SqlDialect;
use crate::directory::DataDirectory;
use crate::files::{map_io_error, open_private};
use crate::maintenance::ExistingDataPolicy;
use crate::presence::ProcessPresence;
use crate::schema::{self, SchemaState};
use crate::sql_executor::SqlExecutor;

pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The schema lock, held shared.
#[derive(Debug)]
pub(crate) struct SchemaLock {
    _file: File,
}

/// The schema lock, held exclusively.
#[derive(Debug)]
pub(crate) struct ExclusiveSchemaLock {
    _file: File,
}

impl SchemaLock {
    /// Waits for a running migration or restore.
    fn shared(directory: &DataDirectory, presence: &ProcessPresence) -> Result<Self> {
        let (file, path) = lock_file(directory)?;
        let started = Instant::now();
        loop {
            match file.try_lock_shared() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => wait_or_fail(started, presence)?,
                Err(TryLockError::Error(error)) => return Err(map_io_error(&path, &error)),
            }
        }
    }

    /// Waits until no other process has the database open.
    pub(crate) fn exclusive(
        directory: &DataDirectory,
        presence: &ProcessPresence,
    ) -> Result<ExclusiveSchemaLock> {
        let started = Instant::now();
        loop {
            if let Some(alone) = Self::try_exclusive(directory)? {
                return Ok(alone);
            }
            wait_or_fail(started, presence)?;
        }
    }

    fn try_exclusive(directory: &DataDirectory) -> Result<Option<ExclusiveSchemaLock>> {
        let (file, path) = lock_file(directory)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(ExclusiveSchemaLock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(map_io_error(&path, &error)),
        }
    }
}

/// Sleeps briefly, or fails with the blocking processes after the timeout.
fn wait_or_fail(started: Instant, presence: &ProcessPresence) -> Result<()> {
    if started.elapsed() >= LOCK_TIMEOUT {
        return Err(StoreError::InUse {
            holders: describe_holders(presence)?,
        });
    }
    std::thread::sleep(POLL_INTERVAL);
    Ok(())
}

/// Opens the database under a shared lock, creating or migrating it first if necessary.
pub(super) fn open_current(
    directory: &DataDirectory,
    presence: &ProcessPresence,
    clock: &Arc<dyn Clock>,
) -> Result<(SchemaLock, SqliteConnection)> {
    let path = directory.database();
    let location = path.display().to_string();
    let started = Instant::now();
    loop {
        // The shared lock is taken before the schema is inspected: no process can migrate or
        // restore between the check and the use.
        let shared = SchemaLock::shared(directory, presence)?;
        if path.exists() {
            let mut connection = SqliteConnection::reader(&path, clock)?;
            let exists = connection.has_table("schema_versions")?;
            if schema::inspect_schema(&mut connection, &location, exists)? == SchemaState::Current {
                return Ok((shared, connection));
            }
        }
        // Two processes that both kept their shared lock could never get the exclusive one.
        drop(shared);
        // Several processes may arrive here at once. One migrates; the others check again, because
        // the finished ones keep their shared lock while they run.
        match SchemaLock::try_exclusive(directory)? {
            Some(_alone) => drop(open_migrated(directory, clock)?),
            None => wait_or_fail(started, presence)?,
        }
    }
}

/// A database held exclusively while this value lives.
pub(crate) struct ExclusiveDatabase {
    pub(crate) connection: SqliteConnection,
    /// The new name of an existing file that could not be used.
    pub(crate) set_aside: Option<PathBuf>,
    pub(crate) _lock: ExclusiveSchemaLock,
}

/// Opens the database exclusively, for a restore. A damaged database, or one of a newer program, is
/// moved aside if it may be replaced, never deleted.
pub(crate) fn open_exclusive(
    directory: &DataDirectory,
    presence: &ProcessPresence,
    clock: &Arc<dyn Clock>,
    existing: &ExistingDataPolicy,
) -> Result<ExclusiveDatabase> {
    let lock = SchemaLock::exclusive(directory, presence)?;
    let replace = matches!(existing, ExistingDataPolicy::Replace { .. });
    let opened = open_migrated(directory, clock).and_then(|connection| {
        if replace {
            check_health(connection, &directory.database())
        } else {
            Ok(connection)
        }
    });
    let mut aside = None;
    let connection = match opened {
        Err(StoreError::Corrupt { .. } | StoreError::Newer { .. }) if replace => {
            aside = Some(move_aside(directory, clock)?);
            open_migrated(directory, clock)?
        }
        opened => opened?,
    };
    Ok(ExclusiveDatabase {
        connection,
        set_aside: aside,
        _lock: lock,
    })
}

/// Damage in the middle of a file shows only when it is read, which would be in the middle of
/// replacing the contents.
fn check_health(mut connection: SqliteConnection, path: &Path) -> Result<SqliteConnection> {
    let rows = connection.query("PRAGMA quick_check(1)", &[])?;
    let reason = rows.first().map_or(Ok(String::new()), |row| row.text(0))?;
    match reason.as_str() {
        "ok" => Ok(connection),
        _ => Err(StoreError::Corrupt {
            path: path.to_owned(),
            reason,
        }),
    }
}

/// The caller must hold the schema lock exclusively.
fn open_migrated(directory: &DataDirectory, clock: &Arc<dyn Clock>) -> Result<SqliteConnection> {
    let path = directory.database();
    // Created here with mode 0600; SQLite would create it with the mode of the umask.
    drop(open_private(&path).map_err(|e| map_io_error(&path, &e))?);
    let mut connection = SqliteConnection::writer(&path, clock)?;
    connection.batch("PRAGMA journal_mode = WAL")?;
    migrate(&mut connection, &path.display().to_string())?;
    Ok(connection)
}

/// Renames the database's files; returns the new name of the database file.
fn move_aside(directory: &DataDirectory, clock: &Arc<dyn Clock>) -> Result<PathBuf> {
    let path = directory.database();
    let mark = clock.now().as_micros();
    // The database file goes last: a log left beside a new database file would be replayed into it.
    for suffix in ["-wal", "-shm", ""] {
        let from = with_suffix(&path, suffix);
        if from.exists() {
            let to = with_suffix(&path, &format!(".replaced-{mark}{suffix}"));
            std::fs::rename(&from, &to).map_err(|e| map_io_error(&from, &e))?;
        }
    }
    Ok(with_suffix(&path, &format!(".replaced-{mark}")))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Migrates the schema in one transaction. The caller must hold the database exclusively.
pub(super) fn migrate(connection: &mut SqliteConnection, location: &str) -> Result<()> {
    // IMMEDIATE takes the write lock at once; a later upgrade from a read lock could fail as busy.
    connection.batch("BEGIN IMMEDIATE")?;
    let migrated = migrate_in_transaction(connection, location);
    match migrated {
        Ok(()) => connection.batch("COMMIT"),
        Err(error) => {
            // The first error is the one to report.
            let _ = connection.batch("ROLLBACK");
            Err(error)
        }
    }
}

fn migrate_in_transaction(connection: &mut SqliteConnection, location: &str) -> Result<()> {
    let exists = connection.has_table("schema_versions")?;
    let SchemaState::Behind { from } = schema::inspect_schema(connection, location, exists)? else {
        return Ok(());
    };
    connection.batch(schema::CREATE_VERSIONS)?;
    connection.batch(&schema::migration_script(SqlDialect::Sqlite, from))?;
    schema::record_migrations(connection, from)
}

fn lock_file(directory: &DataDirectory) -> Result<(File, PathBuf)> {
    let path = directory.path().join("schema.lock");
    let file = open_private(&path).map_err(|e| map_io_error(&path, &e))?;
    Ok((file, path))
}

fn describe_holders(presence: &ProcessPresence) -> Result<Vec<String>> {
    let mut holders: Vec<String> = presence
        .other_processes()?
        .iter()
        .map(|card| format!("`{}` (pid {}) since {}", card.command, card.pid, card.since))
        .collect();
    if holders.is_empty() {
        holders.push("an unknown process".to_owned());
    }
    Ok(holders)
}
