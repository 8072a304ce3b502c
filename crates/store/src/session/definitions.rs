//! Shared operations on named definitions; each kind has its own table of the same shape.

use cleveragents_domain::{NamespacedName, Timestamp};
use cleveragents_ports::{Entity, Result, StoreError, UniqueKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreSession;
use super::rows::{decode_entity, not_found_error, to_json_body};
use crate::value::{SqlRow, params};

pub(super) struct DefinitionTable {
    pub(super) table: &'static str,
    pub(super) entity: Entity,
}

pub(super) struct NewDefinition<'a, T> {
    pub(super) name: &'a NamespacedName,
    pub(super) kind: &'a str,
    pub(super) definition: &'a T,
    pub(super) hash: &'a str,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) version: i64,
}

pub(super) struct StoredDefinition<T> {
    pub(super) definition: T,
    pub(super) hash: String,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) version: i64,
}

const COLUMNS: &str = "definition, hash, created_at, updated_at, version";

impl DefinitionTable {
    pub(super) fn insert<T: Serialize>(
        &self,
        session: &mut StoreSession<'_>,
        row: &NewDefinition<'_, T>,
    ) -> Result<()> {
        let name = row.name.to_string();
        // One statement decides; a concurrent insert waits for the earlier transaction to end (law
        // 3).
        let sql = format!(
            "INSERT INTO {} (name, kind, definition, hash, created_at, updated_at, version) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1) ON CONFLICT (name) DO NOTHING",
            self.table
        );
        let inserted = session.execute(
            &sql,
            params![
                &name,
                row.kind,
                to_json_body(row.definition)?,
                row.hash,
                row.created_at,
                row.updated_at,
            ],
        )?;
        if inserted == 1 {
            return Ok(());
        }
        // The loser gets a description of the winner (law 3), if that row still exists.
        let sql = format!("SELECT created_at FROM {} WHERE name = ?1", self.table);
        let holder = match session.find(&sql, params![&name])? {
            Some(row) => format!("one of {}", row.time(0)?),
            None => "one that was removed just now".to_owned(),
        };
        Err(StoreError::Taken {
            key: UniqueKey::Name(self.entity),
            name,
            holder,
        })
    }

    pub(super) fn replace<T: Serialize>(
        &self,
        session: &mut StoreSession<'_>,
        row: &NewDefinition<'_, T>,
    ) -> Result<i64> {
        let sql = format!(
            "UPDATE {} SET kind = ?3, definition = ?4, hash = ?5, updated_at = ?6, \
             version = version + 1 WHERE name = ?1 AND version = ?2",
            self.table
        );
        let updated = session.execute(
            &sql,
            params![
                row.name.to_string(),
                row.version,
                row.kind,
                to_json_body(row.definition)?,
                row.hash,
                row.updated_at,
            ],
        )?;
        if updated == 1 {
            return Ok(row.version + 1);
        }
        Err(self.stale_error(session, row.name, row.version)?)
    }

    pub(super) fn find<T: DeserializeOwned>(
        &self,
        session: &mut StoreSession<'_>,
        name: &NamespacedName,
    ) -> Result<StoredDefinition<T>> {
        let sql = format!("SELECT {COLUMNS} FROM {} WHERE name = ?1", self.table);
        let row = session.find(&sql, params![name.to_string()])?;
        row.map(|row| definition_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error(self.entity, name)))
    }

    pub(super) fn all<T: DeserializeOwned>(
        &self,
        session: &mut StoreSession<'_>,
    ) -> Result<Vec<StoredDefinition<T>>> {
        let sql = format!("SELECT {COLUMNS}, name FROM {}", self.table);
        let mut rows = session.query(&sql, &[])?;
        let mut named = Vec::with_capacity(rows.len());
        for row in rows.drain(..) {
            named.push((row.text(5)?, row));
        }
        // Not sorted by the database, whose collation depends on its locale.
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        named
            .iter()
            .map(|(_, row)| definition_from_row(row))
            .collect()
    }

    /// Locks the row if `version` is still the newest. From here on no other transaction can
    /// reference it.
    pub(super) fn lock(
        &self,
        session: &mut StoreSession<'_>,
        name: &NamespacedName,
        version: i64,
    ) -> Result<()> {
        let sql = format!(
            "SELECT version FROM {} WHERE name = ?1 FOR UPDATE",
            self.table
        );
        match session.find(&sql, params![name.to_string()])? {
            Some(row) if row.integer(0)? == version => Ok(()),
            _ => Err(self.stale_error(session, name, version)?),
        }
    }

    pub(super) fn delete(
        &self,
        session: &mut StoreSession<'_>,
        name: &NamespacedName,
    ) -> Result<()> {
        let sql = format!("DELETE FROM {} WHERE name = ?1", self.table);
        session.execute(&sql, params![name.to_string()])?;
        Ok(())
    }

    /// Explains why a row with `version` could not be changed.
    fn stale_error(
        &self,
        session: &mut StoreSession<'_>,
        name: &NamespacedName,
        version: i64,
    ) -> Result<StoreError> {
        let sql = format!("SELECT version FROM {} WHERE name = ?1", self.table);
        Ok(match session.find(&sql, params![name.to_string()])? {
            None => not_found_error(self.entity, name),
            Some(row) => StoreError::Conflict {
                entity: self.entity,
                id: name.to_string(),
                expected: version,
                found: row.integer(0)?,
            },
        })
    }
}

fn definition_from_row<T: DeserializeOwned>(row: &SqlRow) -> Result<StoredDefinition<T>> {
    Ok(StoredDefinition {
        definition: decode_entity(row, 0)?,
        hash: row.text(1)?,
        created_at: row.time(2)?,
        updated_at: row.time(3)?,
        version: row.integer(4)?,
    })
}
