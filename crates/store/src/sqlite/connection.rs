//! A SQLite connection with our settings. No other module opens one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cleveragents_ports::{Clock, Result, StoreError};
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ErrorCode, OpenFlags, ToSql};

use crate::dialect::SqlDialect;
use crate::sql_executor::SqlExecutor;
use crate::value::{Param, SqlRow, SqlValue};

/// Writers wait for each other on `writer.lock`; this timeout covers the rare moments in which
/// SQLite itself locks all clients out (recovery after a crash), and foreign programs.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Large enough for all our statements, so none is parsed twice.
const STATEMENT_CACHE_SIZE: usize = 512;

pub(crate) struct SqliteConnection {
    inner: rusqlite::Connection,
    path: PathBuf,
}

impl SqliteConnection {
    /// Opens an existing database file for writing. Each commit is synced to disk.
    pub(crate) fn writer(path: &Path, clock: &Arc<dyn Clock>) -> Result<Self> {
        // Each connection belongs to one thread, so SQLite needs no mutex of its own.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Self::open(path, flags, clock)
    }

    /// Opens an existing database file read-only.
    pub(crate) fn reader(path: &Path, clock: &Arc<dyn Clock>) -> Result<Self> {
        let connection = Self::writer(path, clock)?;
        connection.batch("PRAGMA query_only = ON")?;
        Ok(connection)
    }

    pub(crate) fn in_memory(clock: &Arc<dyn Clock>) -> Result<Self> {
        Self::open(Path::new(":memory:"), OpenFlags::default(), clock)
    }

    fn open(path: &Path, flags: OpenFlags, clock: &Arc<dyn Clock>) -> Result<Self> {
        let failed = |e: rusqlite::Error| map_sqlite_error(path, &e);
        let inner = rusqlite::Connection::open_with_flags(path, flags).map_err(failed)?;
        inner.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        inner.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
        // Without this setting, every savepoint would create and delete a temporary file.
        inner
            .execute_batch(
                "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
                 PRAGMA wal_autocheckpoint = 4000; PRAGMA temp_store = MEMORY",
            )
            .map_err(failed)?;
        let clock = Arc::clone(clock);
        inner
            .create_scalar_function("now_micros", 0, FunctionFlags::SQLITE_UTF8, move |_| {
                Ok(clock.now().as_micros())
            })
            .map_err(failed)?;
        Ok(Self {
            inner,
            path: path.to_owned(),
        })
    }

    /// Runs statements without parameters.
    pub(crate) fn batch(&self, sql: &str) -> Result<()> {
        self.inner
            .execute_batch(sql)
            .map_err(|e| map_sqlite_error(&self.path, &e))
    }

    /// Runs a statement without parameters, parsed once per connection.
    pub(crate) fn execute_cached(&self, sql: &'static str) -> Result<()> {
        self.inner
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map(|_| ())
            .map_err(|e| map_sqlite_error(&self.path, &e))
    }

    /// Runs `work` with writing forbidden. In memory, readers and the writer share a connection.
    pub(crate) fn read_only<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Result<T> {
        self.execute_cached("PRAGMA query_only = ON")?;
        let result = work(self);
        self.execute_cached("PRAGMA query_only = OFF")?;
        Ok(result)
    }

    /// Returns false once SQLite itself has rolled the transaction back, as it does on a full disk.
    pub(crate) fn in_transaction(&self) -> bool {
        !self.inner.is_autocommit()
    }

    pub(crate) fn has_table(&mut self, name: &str) -> Result<bool> {
        let rows = self.query(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name = ?1",
            &[Param::from(name)],
        )?;
        Ok(!rows.is_empty())
    }
}

impl SqlExecutor for SqliteConnection {
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        let sql = SqlDialect::Sqlite.translate_statement(sql);
        self.inner
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.execute(rusqlite::params_from_iter(params)))
            .map(|changed| changed as u64)
            .map_err(|e| map_sqlite_error(&self.path, &e))
    }

    fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<SqlRow>> {
        let sql = SqlDialect::Sqlite.translate_statement(sql);
        self.rows(&sql, params)
            .map_err(|e| map_sqlite_error(&self.path, &e))
    }

    fn dialect(&self) -> SqlDialect {
        SqlDialect::Sqlite
    }
}

impl SqliteConnection {
    fn rows(&self, sql: &str, params: &[Param<'_>]) -> rusqlite::Result<Vec<SqlRow>> {
        let mut statement = self.inner.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut found = statement.query(rusqlite::params_from_iter(params))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let values: rusqlite::Result<Vec<SqlValue>> = (0..columns)
                .map(|column| row.get_ref(column).map(value_from_sqlite))
                .collect();
            rows.push(SqlRow(values?));
        }
        Ok(rows)
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(integer) => ValueRef::Integer(*integer),
            Self::Real(real) => ValueRef::Real(*real),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn value_from_sqlite(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(integer) => SqlValue::Integer(integer),
        ValueRef::Real(real) => SqlValue::Real(real),
        ValueRef::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqlValue::Bytes(bytes.to_owned()),
    }
}

fn map_sqlite_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    let (path, reason) = (path.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        // A full disk gets its own error: its remedy is `gc`, not a retry.
        Some(ErrorCode::DiskFull) => StoreError::Full { path, reason },
        // A damaged length field makes SQLite request more memory than is available.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::OutOfMemory) => {
            StoreError::Corrupt { path, reason }
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreError::NotWritable { path, reason }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::InUse {
            holders: vec![format!("a foreign program has {} locked", path.display())],
        },
        // The operation id makes a retry safe, whatever reached the disk (law 12).
        Some(ErrorCode::SystemIoFailure) => StoreError::Unavailable { reason },
        _ => StoreError::Internal { reason },
    }
}
