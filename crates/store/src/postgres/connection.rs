//! A PostgreSQL connection with our settings.

use std::collections::HashMap;

use cleveragents_ports::{Result, StoreError};
use postgres::error::SqlState;
use postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use postgres::{Client, NoTls, Statement};

use super::address::{Address, Encryption};
use super::tls;
use crate::dialect::SqlDialect;
use crate::sql_executor::SqlExecutor;
use crate::value::{Param, SqlRow, SqlValue};

/// The oldest supported server, in the format of `server_version_num`.
const MIN_SERVER_VERSION: i32 = 150_000;

pub(crate) struct PostgresConnection {
    client: Client,
    statements: HashMap<String, Statement>,
    location: String,
}

impl PostgresConnection {
    pub(crate) fn open(address: &Address) -> Result<Self> {
        let location = address.location();
        let connected = match address.encryption {
            Encryption::Disable => address.config.connect(NoTls),
            _ => address.config.connect(tls::connector(address)?),
        };
        let client = connected.map_err(|e| map_postgres_error(&location, &e))?;
        let mut connection = Self {
            client,
            statements: HashMap::new(),
            location,
        };
        connection.refuse_old_server()?;
        // An acknowledged commit must be on the server's disk, whatever the server's default. A
        // process that hangs must not hold its row locks forever.
        connection.batch(
            "SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '60s'; \
             SET client_min_messages = warning",
        )?;
        Ok(connection)
    }

    fn refuse_old_server(&mut self) -> Result<()> {
        let rows = self.query(
            "SELECT current_setting('server_version_num')::int8, current_setting('server_version')",
            &[],
        )?;
        let row = rows
            .first()
            .ok_or_else(|| StoreError::internal("the server has no version"))?;
        if row.integer(0)? < i64::from(MIN_SERVER_VERSION) {
            return Err(StoreError::Address {
                reason: format!(
                    "PostgreSQL 15 or newer is needed, {} is {}",
                    self.location,
                    row.text(1)?
                ),
            });
        }
        Ok(())
    }

    /// Runs statements without parameters.
    pub(crate) fn batch(&mut self, sql: &str) -> Result<()> {
        let result = self.client.batch_execute(sql);
        result.map_err(|e| map_postgres_error(&self.location, &e))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(crate) fn location(&self) -> &str {
        &self.location
    }

    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    fn statement(&mut self, sql: &str) -> std::result::Result<Statement, postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self
            .client
            .prepare(&SqlDialect::Postgres.translate_statement(sql))?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn rows(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
    ) -> std::result::Result<Vec<postgres::Row>, postgres::Error> {
        let statement = self.statement(sql)?;
        self.client.query(&statement, &as_sql_params(params))
    }
}

impl SqlExecutor for PostgresConnection {
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        let changed = self
            .statement(sql)
            .and_then(|statement| self.client.execute(&statement, &as_sql_params(params)));
        changed.map_err(|e| map_postgres_error(&self.location, &e))
    }

    fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<SqlRow>> {
        let rows = self
            .rows(sql, params)
            .map_err(|e| map_postgres_error(&self.location, &e))?;
        rows.iter().map(row_from_postgres).collect()
    }

    fn dialect(&self) -> SqlDialect {
        SqlDialect::Postgres
    }
}

fn as_sql_params<'a>(params: &'a [Param<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params
        .iter()
        .map(|param| param as &(dyn ToSql + Sync))
        .collect()
}

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(integer) => integer.to_sql_checked(kind, out),
            Self::Real(real) => real.to_sql_checked(kind, out),
            Self::Text(text) => text.as_ref().to_sql_checked(kind, out),
            Self::Bytes(bytes) => bytes.to_sql_checked(kind, out),
        }
    }

    // Each value checks the column type itself.
    fn accepts(_kind: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn row_from_postgres(row: &postgres::Row) -> Result<SqlRow> {
    let values: std::result::Result<Vec<SqlValue>, postgres::Error> =
        (0..row.len()).map(|column| row.try_get(column)).collect();
    values.map(SqlRow).map_err(StoreError::internal)
}

impl<'a> FromSql<'a> for SqlValue {
    fn from_sql(
        kind: &Type,
        raw: &'a [u8],
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 => Self::Integer(i64::from_sql(kind, raw)?),
            Type::INT4 => Self::Integer(i64::from(i32::from_sql(kind, raw)?)),
            Type::BOOL => Self::Integer(i64::from(bool::from_sql(kind, raw)?)),
            Type::FLOAT8 => Self::Real(f64::from_sql(kind, raw)?),
            Type::BYTEA => Self::Bytes(raw.to_owned()),
            _ => Self::Text(String::from_sql(kind, raw)?),
        })
    }

    fn from_sql_null(
        _kind: &Type,
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(kind: &Type) -> bool {
        matches!(
            *kind,
            Type::INT8 | Type::INT4 | Type::BOOL | Type::FLOAT8 | Type::BYTEA
        ) || <String as FromSql>::accepts(kind)
    }
}

/// Maps a PostgreSQL error to a store error. `Unavailable` is worth a retry.
pub(super) fn map_postgres_error(location: &str, error: &postgres::Error) -> StoreError {
    let reason = match std::error::Error::source(error) {
        Some(source) => format!("{location}: {error}: {source}"),
        None => format!("{location}: {error}"),
    };
    let Some(code) = error.code() else {
        return if error.is_closed() || is_connection_error(error) {
            StoreError::Unavailable { reason }
        } else {
            StoreError::Internal { reason }
        };
    };
    match code.code() {
        // Serialization failure and deadlock: the server rolled the transaction back, and a retry
        // can succeed.
        "40001" | "40P01" => StoreError::Unavailable { reason },
        // Our `lock_timeout` ended the wait for a lock.
        "55P03" => StoreError::InUse {
            holders: vec![reason],
        },
        // The server is shutting down, starting up, out of connections, or terminated our session.
        "57P01" | "57P02" | "57P03" | "53300" | "25P03" => StoreError::Unavailable { reason },
        "53100" => StoreError::Full {
            path: location.into(),
            reason,
        },
        "25006" | "42501" => StoreError::NotWritable {
            path: location.into(),
            reason,
        },
        "3D000" | "3F000" | "28000" | "28P01" => StoreError::Address { reason },
        class if class.starts_with("08") => StoreError::Unavailable { reason },
        _ if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            StoreError::Corrupt {
                path: location.into(),
                reason,
            }
        }
        _ => StoreError::Internal { reason },
    }
}

/// Refused, reset or unresolved: the error chain contains an I/O error.
fn is_connection_error(error: &postgres::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<std::io::Error>() {
            return true;
        }
        source = inner.source();
    }
    let text = error.to_string();
    text.contains("error connecting") || text.contains("timed out") || text.contains("timeout")
}
