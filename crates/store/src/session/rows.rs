//! Shared operations on rows: versions, unique names, ids found by prefix or suffix, and positions
//! without gaps.

use cleveragents_domain::StreamId;
use cleveragents_domain::id::{IdFragment, PlanId};
use cleveragents_ports::{Entity, Result, StoreError, UniqueKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreSession;
use super::journal::lock_stream;
use crate::value::{SqlRow, params};

/// The maximum number of candidates listed for an ambiguous id.
const MAX_CANDIDATES: i64 = 20;

/// Sorts after every letter and digit.
const RANGE_END: char = '~';

/// Describes the row of an update, for the error if no row was updated.
pub(super) struct VersionCheck {
    pub(super) entity: Entity,
    pub(super) id: String,
    pub(super) version: i64,
    /// Selects the newest version by id.
    pub(super) sql: &'static str,
}

/// The shown characters of an id, as in the indexes of the tables whose ids users type.
const SHOWN_ID: &str = "substr(id, 19)";

/// A table whose ids users type.
pub(super) struct IdLookup {
    pub(super) entity: Entity,
    pub(super) table: &'static str,
    /// The columns to read, the id first.
    pub(super) columns: &'static str,
}

impl StoreSession<'_> {
    /// Fails if no row was inserted because the name is taken. `holder` selects the row that has
    /// the name `?1`.
    pub(super) fn check_inserted(
        &mut self,
        inserted: u64,
        key: UniqueKey,
        name: &str,
        holder: &str,
    ) -> Result<()> {
        if inserted == 1 {
            return Ok(());
        }
        let holder = self.find(holder, params![name])?;
        let holder = match holder {
            Some(row) => row.text(0)?,
            None => "another row with the same id".to_owned(),
        };
        Err(StoreError::Taken {
            key,
            name: name.to_owned(),
            holder,
        })
    }

    /// Returns the next version. If no row was updated, fails with a conflict or a missing row; it
    /// never overwrites.
    pub(super) fn check_updated(&mut self, updated: u64, check: VersionCheck) -> Result<i64> {
        if updated == 1 {
            return Ok(check.version + 1);
        }
        let row = self.find(check.sql, params![&check.id])?;
        check.conflict(row.as_ref())
    }

    /// Locks the row of `check` if its version is still the newest. `check.sql` takes the lock.
    pub(super) fn lock_version(&mut self, check: VersionCheck) -> Result<()> {
        let row = self.find(check.sql, params![&check.id])?;
        match row {
            Some(row) if row.integer(0)? == check.version => Ok(()),
            row => check.conflict(row.as_ref()).map(drop),
        }
    }

    /// Returns the rows whose id or shown characters begin or end with `fragment`, at most as many
    /// as are worth listing.
    pub(super) fn rows_by_fragment(
        &mut self,
        lookup: &IdLookup,
        fragment: &IdFragment,
    ) -> Result<Vec<SqlRow>> {
        // Ranges over the id and the reversed id use indexes; LIKE with a leading wildcard could
        // not.
        let sql = format!(
            "SELECT {} FROM {} WHERE (id >= ?1 AND id < ?2) OR (tail >= ?3 AND tail < ?4) \
             OR ({SHOWN_ID} >= ?1 AND {SHOWN_ID} < ?2) ORDER BY id LIMIT {MAX_CANDIDATES}",
            lookup.columns, lookup.table
        );
        let (head, tail) = (fragment.as_str(), reverse_id(fragment.as_str()));
        self.query(
            &sql,
            params![
                head,
                format!("{head}{RANGE_END}"),
                &tail,
                format!("{tail}{RANGE_END}")
            ],
        )
    }

    /// Returns the only row that matches `fragment`. Fails with the candidates if there are
    /// several.
    pub(super) fn row_by_fragment(
        &mut self,
        lookup: &IdLookup,
        fragment: &IdFragment,
    ) -> Result<SqlRow> {
        let mut rows = self.rows_by_fragment(lookup, fragment)?;
        if rows.len() > 1 {
            let candidates: Result<Vec<String>> = rows.iter().map(|row| row.text(0)).collect();
            return Err(ambiguous_error(fragment, candidates?));
        }
        rows.pop()
            .ok_or_else(|| not_found_error(lookup.entity, fragment.as_str()))
    }

    /// Prevents the deletion of the plan until the transaction ends, without blocking transactions
    /// that change it.
    pub(super) fn lock_plan(&mut self, plan: PlanId) -> Result<()> {
        let held = self.find(
            "SELECT id FROM plans WHERE id = ?1 FOR KEY SHARE",
            params![plan.to_string()],
        )?;
        match held {
            Some(_) => Ok(()),
            None => Err(not_found_error(Entity::Plan, plan)),
        }
    }

    /// Locks the plan and its stream, so that only this transaction assigns the next numbers (law
    /// 3), in the order of the plan's journal.
    pub(super) fn lock_plan_stream(&mut self, plan: PlanId) -> Result<()> {
        self.lock_plan(plan)?;
        lock_stream(self, &StreamId::Plan(plan).to_string())?;
        Ok(())
    }
}

impl VersionCheck {
    /// Explains why the current row could not be changed.
    fn conflict(self, found: Option<&SqlRow>) -> Result<i64> {
        let Some(row) = found else {
            return Err(not_found_error(self.entity, self.id));
        };
        Err(StoreError::Conflict {
            entity: self.entity,
            id: self.id,
            expected: self.version,
            found: row.integer(0)?,
        })
    }
}

pub(super) fn reverse_id(id: &str) -> String {
    id.chars().rev().collect()
}

/// Maps a text of any length to one short enough for an index.
pub(super) fn hash_text(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

pub(super) fn ambiguous_error(fragment: &IdFragment, candidates: Vec<String>) -> StoreError {
    StoreError::Ambiguous {
        fragment: fragment.as_str().to_owned(),
        candidates,
    }
}

pub(super) fn not_found_error(entity: Entity, id: impl ToString) -> StoreError {
    StoreError::NotFound {
        entity,
        id: id.to_string(),
    }
}

pub(super) fn to_json_body(entity: &impl Serialize) -> Result<String> {
    serde_json::to_string(entity).map_err(StoreError::internal)
}

/// Decodes the entity whose JSON body is in `column`.
pub(super) fn decode_entity<T: DeserializeOwned>(row: &SqlRow, column: usize) -> Result<T> {
    serde_json::from_str(&row.text(column)?).map_err(StoreError::internal)
}

/// Decodes a count, which the database stores as a signed integer.
pub(super) fn decode_count(row: &SqlRow, column: usize) -> Result<u64> {
    u64::try_from(row.integer(column)?).map_err(StoreError::internal)
}

/// Decodes a count that fits into 32 bits.
pub(super) fn decode_small_count(row: &SqlRow, column: usize) -> Result<u32> {
    u32::try_from(row.integer(column)?).map_err(StoreError::internal)
}

pub(super) fn decode_optional_count(row: &SqlRow, column: usize) -> Result<Option<u32>> {
    let count = row.optional_integer(column)?;
    let count = count.map(u32::try_from).transpose();
    count.map_err(StoreError::internal)
}

pub(super) fn decode_optional_entity<T: DeserializeOwned>(
    row: &SqlRow,
    column: usize,
) -> Result<Option<T>> {
    let text = row.optional_text(column)?;
    let entity = text.map(|text| serde_json::from_str(&text)).transpose();
    entity.map_err(StoreError::internal)
}

/// Renders constants of this program as a SQL list, so that the planner can use a partial index
/// over them.
pub(super) fn quoted_list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.map(|word| format!("'{word}'")).collect();
    words.join(", ")
}
