//! What verbs on rows have in common: versions, names that one holder has, ids found by either
//! end, and places without gaps.

use cleveragents_domain::StreamId;
use cleveragents_domain::id::{IdFragment, PlanId};
use cleveragents_engine::ports::{Result, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Session;
use crate::value::{Row, params};

/// How many candidates an ambiguous id lists.
const CANDIDATES: i64 = 20;

/// Sorts behind every letter and digit.
const BEHIND: char = '~';

/// What an update was about, in case it hits nothing.
pub(super) struct Stale {
    pub(super) what: &'static str,
    pub(super) id: String,
    pub(super) version: i64,
    /// Finds the newest version by id.
    pub(super) sql: &'static str,
}

/// A table whose ids people type.
pub(super) struct Findable {
    pub(super) what: &'static str,
    pub(super) table: &'static str,
    /// What is read of the row, the id first.
    pub(super) columns: &'static str,
}

impl Session<'_> {
    /// `holder` finds who has the name `?1`.
    pub(super) fn inserted_or_taken(
        &mut self,
        inserted: u64,
        what: &'static str,
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
            what,
            name: name.to_owned(),
            holder,
        })
    }

    /// The next version; nought rows updated is a conflict or a missing row, never an overwrite.
    pub(super) fn updated_or_stale(&mut self, updated: u64, stale: Stale) -> Result<i64> {
        if updated == 1 {
            return Ok(stale.version + 1);
        }
        let row = self.find(stale.sql, params![&stale.id])?;
        stale.explain(row.as_ref())
    }

    /// Locks the row `stale` is about, if its version is still the newest. `stale.sql` locks.
    pub(super) fn lock_version(&mut self, stale: Stale) -> Result<()> {
        let row = self.find(stale.sql, params![&stale.id])?;
        match row {
            Some(row) if row.integer(0)? == stale.version => Ok(()),
            row => stale.explain(row.as_ref()).map(drop),
        }
    }

    /// The rows whose id begins or ends with `fragment`, at most as many as are worth listing.
    pub(super) fn rows_by_fragment(
        &mut self,
        findable: &Findable,
        fragment: &IdFragment,
    ) -> Result<Vec<Row>> {
        let sql = format!(
            "SELECT {} FROM {} WHERE (id >= ?1 AND id < ?2) OR (tail >= ?3 AND tail < ?4) \
             ORDER BY id LIMIT {CANDIDATES}",
            findable.columns, findable.table
        );
        let (head, tail) = (fragment.as_str(), tail_of(fragment.as_str()));
        self.query(
            &sql,
            params![
                head,
                format!("{head}{BEHIND}"),
                &tail,
                format!("{tail}{BEHIND}")
            ],
        )
    }

    /// The one row whose id begins or ends with `fragment`; several are named by their ids.
    pub(super) fn row_by_fragment(
        &mut self,
        findable: &Findable,
        fragment: &IdFragment,
    ) -> Result<Row> {
        let mut rows = self.rows_by_fragment(findable, fragment)?;
        if rows.len() > 1 {
            let candidates: Result<Vec<String>> = rows.iter().map(|row| row.text(0)).collect();
            return Err(ambiguous(fragment, candidates?));
        }
        rows.pop()
            .ok_or_else(|| not_found(findable.what, fragment.as_str()))
    }

    /// Keeps the plan from being deleted until the transaction ends, without hindering anybody
    /// who changes it.
    pub(super) fn hold_plan(&mut self, plan: PlanId) -> Result<()> {
        let held = self.find(
            "SELECT id FROM plans WHERE id = ?1 FOR KEY SHARE",
            params![plan.to_string()],
        )?;
        match held {
            Some(_) => Ok(()),
            None => Err(not_found("plan", plan)),
        }
    }

    /// Holds the plan and its stream: what is numbered next is numbered by this transaction alone
    /// (law 3), in the order of the plan's journal.
    pub(super) fn take_turn(&mut self, plan: PlanId) -> Result<()> {
        self.hold_plan(plan)?;
        self.lock_stream(&StreamId::Plan(plan).to_string())?;
        Ok(())
    }
}

impl Stale {
    /// Why the row as it is could not be changed.
    fn explain(self, found: Option<&Row>) -> Result<i64> {
        let Some(row) = found else {
            return Err(not_found(self.what, self.id));
        };
        Err(StoreError::Conflict {
            what: self.what,
            id: self.id,
            expected: self.version,
            found: row.integer(0)?,
        })
    }
}

/// An id read backwards.
pub(super) fn tail_of(id: &str) -> String {
    id.chars().rev().collect()
}

/// A text of any length, short enough for an index.
pub(super) fn hash_of(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

pub(super) fn ambiguous(fragment: &IdFragment, candidates: Vec<String>) -> StoreError {
    StoreError::Ambiguous {
        fragment: fragment.as_str().to_owned(),
        candidates,
    }
}

pub(super) fn not_found(what: &'static str, id: impl ToString) -> StoreError {
    StoreError::NotFound {
        what,
        id: id.to_string(),
    }
}

pub(super) fn body_of(entity: &impl Serialize) -> Result<String> {
    serde_json::to_string(entity).map_err(StoreError::internal)
}

/// The entity whose body stands in `column`.
pub(super) fn entity_in<T: DeserializeOwned>(row: &Row, column: usize) -> Result<T> {
    serde_json::from_str(&row.text(column)?).map_err(StoreError::internal)
}

/// A count, which the database keeps signed.
pub(super) fn count_in(row: &Row, column: usize) -> Result<u64> {
    u64::try_from(row.integer(column)?).map_err(StoreError::internal)
}

/// A count that is small by its nature.
pub(super) fn small_count(row: &Row, column: usize) -> Result<u32> {
    u32::try_from(row.integer(column)?).map_err(StoreError::internal)
}

pub(super) fn optional_count(row: &Row, column: usize) -> Result<Option<u32>> {
    let count = row.optional_integer(column)?;
    let count = count.map(u32::try_from).transpose();
    count.map_err(StoreError::internal)
}

pub(super) fn optional_entity_in<T: DeserializeOwned>(
    row: &Row,
    column: usize,
) -> Result<Option<T>> {
    let text = row.optional_text(column)?;
    let entity = text.map(|text| serde_json::from_str(&text)).transpose();
    entity.map_err(StoreError::internal)
}

/// Words of our own as a list in a statement's text, so that an index over some of them is found.
pub(super) fn quoted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.map(|word| format!("'{word}'")).collect();
    words.join(", ")
}
