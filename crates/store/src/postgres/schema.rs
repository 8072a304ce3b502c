//! The schema lock on PostgreSQL: an advisory lock. Every open connection holds it shared;
//! creating, migrating and restoring hold it exclusively.

use std::time::{Duration, Instant};

use cleveragents_ports::{Result, StoreError};

use super::address::Address;
use super::connection::PostgresConnection;
use crate::dialect::SqlDialect;
use crate::schema::{self, SchemaState};
use crate::sql_executor::SqlExecutor;

/// Longest wait for processes that have the schema open.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Our class of advisory locks ("CLVR"); the object is the current schema.
macro_rules! lock_call {
    ($function:literal) => {
        concat!(
            "SELECT ",
            $function,
            "(1129141842, hashtext(current_schema()))::text"
        )
    };
}

/// Connects with a shared lock on a current schema, migrating it first if necessary.
pub(super) fn open_current(address: &Address) -> Result<PostgresConnection> {
    let mut connection = PostgresConnection::open(address)?;
    refuse_missing_schema(&mut connection)?;
    let started = Instant::now();
    loop {
        connection.batch("SET lock_timeout = '30s'")?;
        // The shared lock is taken before the schema is inspected: no process can migrate or
        // restore between the check and the use.
        lock_schema(&mut connection, lock_call!("pg_advisory_lock_shared"))?;
        if inspect(&mut connection)? == SchemaState::Current {
            connection.batch("SET lock_timeout = 0")?;
            return Ok(connection);
        }
        // Two processes that both kept their shared lock could never get the exclusive one.
        connection.query(lock_call!("pg_advisory_unlock_shared"), &[])?;
        // Several processes may arrive here at once. One migrates; the others check again, because
        // the finished ones keep their shared lock while they run.
        if try_lock_exclusive(&mut connection)? {
            let migrated = migrate(&mut connection);
            // Unlocked even after a failed migration: this session lives on, and its lock would
            // block every other process.
            connection.query(lock_call!("pg_advisory_unlock"), &[])?;
            migrated?;
        } else if started.elapsed() < LOCK_TIMEOUT {
            std::thread::sleep(POLL_INTERVAL);
        } else {
            return Err(StoreError::InUse {
                holders: lock_holders(&mut connection)?,
            });
        }
    }
}

/// Connects with an exclusive lock on the current schema, held until the connection closes.
pub(crate) fn open_exclusive(address: &Address) -> Result<PostgresConnection> {
    let mut connection = PostgresConnection::open(address)?;
    refuse_missing_schema(&mut connection)?;
    connection.batch("SET lock_timeout = '30s'")?;
    lock_schema(&mut connection, lock_call!("pg_advisory_lock"))?;
    migrate(&mut connection)?;
    Ok(connection)
}

fn refuse_missing_schema(connection: &mut PostgresConnection) -> Result<()> {
    let rows = connection.query("SELECT current_schema()::text", &[])?;
    match rows.first().map(|row| row.optional_text(0)) {
        Some(Ok(Some(_))) => Ok(()),
        _ => Err(StoreError::Address {
            reason: format!("{} has no schema to work in", connection.location()),
        }),
    }
}

/// Takes the exclusive lock if no other process holds the lock.
fn try_lock_exclusive(connection: &mut PostgresConnection) -> Result<bool> {
    let rows = connection.query(lock_call!("pg_try_advisory_lock"), &[])?;
    Ok(rows
        .first()
        .is_some_and(|row| matches!(row.text(0).as_deref(), Ok("true"))))
}

fn lock_schema(connection: &mut PostgresConnection, call: &str) -> Result<()> {
    match connection.query(call, &[]) {
        Ok(_) => Ok(()),
        Err(StoreError::InUse { .. }) => Err(StoreError::InUse {
            holders: lock_holders(connection)?,
        }),
        Err(error) => Err(error),
    }
}

fn lock_holders(connection: &mut PostgresConnection) -> Result<Vec<String>> {
    // `pg_locks` shows the object as unsigned, `hashtext` returns it signed.
    let rows = connection.query(
        "SELECT DISTINCT activity.application_name || coalesce(' at ' || activity.client_addr, '') \
         FROM pg_locks lock JOIN pg_stat_activity activity ON activity.pid = lock.pid \
         WHERE lock.locktype = 'advisory' AND lock.classid = 1129141842 \
         AND lock.objid::bigint = (hashtext(current_schema())::bigint & 4294967295) \
         AND lock.granted AND lock.pid <> pg_backend_pid()",
        &[],
    )?;
    rows.iter().map(|row| row.text(0)).collect()
}

fn inspect(connection: &mut PostgresConnection) -> Result<SchemaState> {
    let rows = connection.query("SELECT to_regclass('schema_versions') IS NOT NULL", &[])?;
    let exists = rows
        .first()
        .is_some_and(|row| matches!(row.integer(0), Ok(1)));
    let location = connection.location().to_owned();
    schema::inspect_schema(connection, &location, exists)
}

fn migrate(connection: &mut PostgresConnection) -> Result<()> {
    connection.batch("BEGIN")?;
    // Inspected again inside the transaction: another process may have migrated since.
    let migrated = inspect(connection).and_then(|condition| match condition {
        SchemaState::Current => Ok(()),
        SchemaState::Behind { from } => {
            connection.batch(schema::CREATE_VERSIONS)?;
            connection.batch(&schema::migration_script(SqlDialect::Postgres, from))?;
            schema::record_migrations(connection, from)
        }
    });
    match migrated {
        Ok(()) => connection.batch("COMMIT"),
        Err(error) => {
            // The first error is the one to report.
            let _ = connection.batch("ROLLBACK");
            Err(error)
        }
    }
}
