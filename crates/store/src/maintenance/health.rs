//! The health of a database: sizes for `info`, findings for `diagnostics`.

use cleveragents_ports::Result;
use cleveragents_ports::maintenance::{Engine, Statistics};
use serde::Serialize;

use crate::database::Database;
use crate::queue::TransactionMode;
use crate::session::StoreSession;

/// A problem of the database that its user should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum HealthFinding {
    /// SQLite found its file damaged.
    Damaged { detail: String },
    /// The server may lose acknowledged commits when its machine fails.
    NotDurable { detail: String },
}

impl Database {
    pub async fn statistics(&self) -> Result<Statistics> {
        let engine = self.engine;
        self.transact(TransactionMode::Read, move |session| {
            statistics(session, engine)
        })
        .await
    }

    /// Checks the structure of the database. On SQLite this reads the whole file.
    pub async fn check(&self) -> Result<Vec<HealthFinding>> {
        let engine = self.engine;
        self.transact(TransactionMode::Read, move |session| match engine {
            Engine::Postgres => check_server_settings(session),
            Engine::Sqlite | Engine::Memory => check_structure(session),
        })
        .await
    }
}

fn statistics(session: &mut StoreSession<'_>, engine: Engine) -> Result<Statistics> {
    let mut number = |sql: &str| -> Result<i64> {
        let rows = session.query(sql, &[])?;
        rows.first().map_or(Ok(0), |row| row.integer(0))
    };
    Ok(Statistics {
        streams: number("SELECT count(*) FROM streams")?,
        events: number("SELECT count(*) FROM events")?,
        actions: number("SELECT count(*) FROM actions")?,
        plans: number("SELECT count(*) FROM plans")?,
        operations: number("SELECT count(*) FROM operations")?,
        blobs: number("SELECT count(*) FROM blobs")?,
        blob_bytes: number("SELECT coalesce(CAST(sum(size) AS BIGINT), 0) FROM blobs")?,
        database_bytes: number(match engine {
            Engine::Postgres => "SELECT pg_database_size(current_database())",
            _ => "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
        })?,
    })
}

fn check_structure(session: &mut StoreSession<'_>) -> Result<Vec<HealthFinding>> {
    // `quick_check` skips the comparison of indexes with their tables, which takes much longer.
    let rows = session.query("PRAGMA quick_check", &[])?;
    let mut findings = Vec::new();
    for row in &rows {
        let detail = row.text(0)?;
        if detail != "ok" {
            findings.push(HealthFinding::Damaged { detail });
        }
    }
    Ok(findings)
}

fn check_server_settings(session: &mut StoreSession<'_>) -> Result<Vec<HealthFinding>> {
    let rows = session.query(
        "SELECT name, setting FROM pg_settings \
         WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name",
        &[],
    )?;
    let finding = |row: &crate::value::SqlRow| {
        let detail = format!("the server runs with {} = {}", row.text(0)?, row.text(1)?);
        Ok(HealthFinding::NotDurable { detail })
    };
    rows.iter().map(finding).collect()
}
