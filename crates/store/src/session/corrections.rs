//! Store operations on corrections.

use cleveragents_domain::Correction;
use cleveragents_domain::id::{IdFragment, PlanId};
use cleveragents_engine::ports::{Corrections, Result};

use super::StoreSession;
use super::rows::{IdLookup, VersionCheck, decode_entity, reverse_id, to_json_body};
use crate::value::{SqlRow, params};

const COLUMNS: &str = "id, body, version";

impl Corrections for StoreSession<'_> {
    fn insert_correction(&mut self, correction: &Correction) -> Result<()> {
        self.lock_plan(correction.plan_id)?;
        self.check_decision_in_plan(correction.plan_id, correction.original_decision_id)?;
        let id = correction.id.to_string();
        let inserted = self.execute(
            "INSERT INTO corrections (id, tail, plan_id, state, body, version, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6) ON CONFLICT (id) DO NOTHING",
            params![
                &id,
                reverse_id(&id),
                correction.plan_id.to_string(),
                correction.state.as_str(),
                to_json_body(correction)?,
                correction.created_at,
            ],
        )?;
        self.check_inserted(
            inserted,
            "the correction id",
            &id,
            "SELECT plan_id FROM corrections WHERE id = ?1",
        )
    }

    fn find_correction(&mut self, fragment: &IdFragment) -> Result<Correction> {
        let lookup = IdLookup {
            what: "correction",
            table: "corrections",
            columns: COLUMNS,
        };
        correction_from_row(&self.row_by_fragment(&lookup, fragment)?)
    }

    fn update_correction(&mut self, correction: &Correction) -> Result<i64> {
        let updated = self.execute(
            "UPDATE corrections SET state = ?3, body = ?4, version = version + 1 \
             WHERE id = ?1 AND version = ?2",
            params![
                correction.id.to_string(),
                correction.version,
                correction.state.as_str(),
                to_json_body(correction)?,
            ],
        )?;
        let check = VersionCheck {
            what: "correction",
            id: correction.id.to_string(),
            version: correction.version,
            sql: "SELECT version FROM corrections WHERE id = ?1",
        };
        self.check_updated(updated, check)
    }

    fn corrections_of(&mut self, plan: PlanId) -> Result<Vec<Correction>> {
        let sql =
            format!("SELECT {COLUMNS} FROM corrections WHERE plan_id = ?1 ORDER BY created_at, id");
        let rows = self.query(&sql, params![plan.to_string()])?;
        rows.iter().map(correction_from_row).collect()
    }
}

fn correction_from_row(row: &SqlRow) -> Result<Correction> {
    let mut correction: Correction = decode_entity(row, 1)?;
    correction.version = row.integer(2)?;
    Ok(correction)
}
