//! Numbered, forward-only migrations. Creating and migrating happen under the exclusive schema
//! lock, which each engine implements differently; this module provides the scripts.

use cleveragents_ports::{Result, StoreError};

use crate::dialect::SqlDialect;
use crate::session::{StoreSession, backfill_rows};
use crate::sql_executor::SqlExecutor;
use crate::value::params;

pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// The schema from which on a plan whose changes were undone has the state `unapplied`.
pub(crate) const UNAPPLIED_PLANS: i64 = 11;

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "foundation",
        sql: include_str!("../migrations/0001_foundation.sql"),
    },
    Migration {
        version: 2,
        name: "lifecycle",
        sql: include_str!("../migrations/0002_lifecycle.sql"),
    },
    Migration {
        version: 3,
        name: "given actions",
        sql: include_str!("../migrations/0003_given_actions.sql"),
    },
    Migration {
        version: 4,
        name: "plans by project and state",
        sql: include_str!("../migrations/0004_plans_by_project_and_state.sql"),
    },
    Migration {
        version: 5,
        name: "execution",
        sql: include_str!("../migrations/0005_execution.sql"),
    },
    Migration {
        version: 6,
        name: "actors and validations",
        sql: include_str!("../migrations/0006_actors_and_validations.sql"),
    },
    Migration {
        version: 7,
        name: "model calls",
        sql: include_str!("../migrations/0007_model_calls.sql"),
    },
    Migration {
        version: 8,
        name: "repository file consents",
        sql: include_str!("../migrations/0008_repository_file_consents.sql"),
    },
    Migration {
        version: 9,
        name: "shown ids",
        sql: include_str!("../migrations/0009_shown_ids.sql"),
    },
    Migration {
        version: 10,
        name: "model usage",
        sql: include_str!("../migrations/0010_model_usage.sql"),
    },
    Migration {
        version: UNAPPLIED_PLANS,
        name: "unapplied plans",
        sql: include_str!("../migrations/0011_unapplied_plans.sql"),
    },
];

/// The schema version that this program writes.
pub const NEWEST_VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// The tables of the schema, in an order in which rows can be inserted.
pub(crate) const TABLES: &[&str] = &[
    "operations",
    "streams",
    "events",
    "actions",
    "given_action_uses",
    "plans",
    "plan_projects",
    "projects",
    "resources",
    "project_resources",
    "decisions",
    "decision_influences",
    "corrections",
    "invariants",
    "automation_profiles",
    "repository_file_consents",
    "actors",
    "validations",
    "validation_attachments",
    "errors",
    "outcomes",
    "plan_messages",
    "sandboxes",
    "changesets",
    "change_entries",
    "tool_calls",
    "model_calls",
    "checkpoints",
    "strategies",
    "validation_runs",
    "applies",
    "nodes",
    "runs",
    "locks",
    "blobs",
    "blob_chunks",
    "blob_references",
];

pub(crate) const CREATE_VERSIONS: &str = "CREATE TABLE IF NOT EXISTS schema_versions (\
    version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, \
    written_by TEXT NOT NULL, applied_at BIGINT NOT NULL)";

const APP_VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaState {
    Current,
    /// Empty or older: `from` is the newest version applied.
    Behind {
        from: i64,
    },
}

/// Inspects the schema in a transaction; `exists` says whether the table `schema_versions` exists.
pub(crate) fn inspect_schema(
    tx: &mut dyn SqlExecutor,
    location: &str,
    exists: bool,
) -> Result<SchemaState> {
    if !exists {
        return Ok(SchemaState::Behind { from: 0 });
    }
    let rows = tx.query(
        "SELECT version, written_by FROM schema_versions ORDER BY version DESC LIMIT 1",
        &[],
    )?;
    let Some(row) = rows.first() else {
        return Ok(SchemaState::Behind { from: 0 });
    };
    let found = row.integer(0)?;
    match found.cmp(&NEWEST_VERSION) {
        std::cmp::Ordering::Equal => Ok(SchemaState::Current),
        std::cmp::Ordering::Less => Ok(SchemaState::Behind { from: found }),
        std::cmp::Ordering::Greater => Err(StoreError::Newer {
            place: location.to_owned(),
            found,
            known: NEWEST_VERSION,
            written_by: row.text(1)?,
        }),
    }
}

/// The script that migrates a schema from `from` to the newest version.
pub(crate) fn migration_script(dialect: SqlDialect, from: i64) -> String {
    let mut script = String::new();
    if from == 0 {
        script.push_str(dialect.prelude());
    }
    for migration in MIGRATIONS.iter().filter(|m| m.version > from) {
        script.push_str(&dialect.translate_migration(migration.sql));
        // The index belongs to tables of the first migration; later migrations of an existing
        // database must not create it again.
        if migration.version == 1 {
            script.push_str(dialect.postlude());
        }
    }
    script
}

/// Migrates data that SQL alone cannot migrate and records the migrations that [`migration_script`]
/// ran, in the same transaction.
pub(crate) fn record_migrations(tx: &mut dyn SqlExecutor, from: i64) -> Result<()> {
    backfill_rows(&mut StoreSession::new(tx, None), from)?;
    for migration in MIGRATIONS.iter().filter(|m| m.version > from) {
        tx.execute(
            "INSERT INTO schema_versions (version, name, written_by, applied_at) \
             VALUES (?1, ?2, ?3, now_micros())",
            params![migration.version, migration.name, APP_VERSION],
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_gaps() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version, i64::try_from(index).unwrap() + 1);
        }
    }
}
