//! Store operations on strategies. A strategy is approved by its hash, once.

use cleveragents_domain::Timestamp;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_engine::ports::{Result, StoreError, Strategies};

use super::StoreSession;
use super::rows::{decode_entity, not_found_error, to_json_body};
use crate::value::{SqlRow, params};

const COLUMNS: &str = "body, number, approved_by, approved_at";

impl Strategies for StoreSession<'_> {
    fn insert_strategy(&mut self, strategy: &StrategyRecord) -> Result<i64> {
        self.lock_plan_stream(strategy.plan_id)?;
        let row = self.find(
            "INSERT INTO strategies (plan_id, number, hash, body, approved_by, approved_at) \
             VALUES (?1, \
             (SELECT coalesce(max(number), 0) + 1 FROM strategies WHERE plan_id = ?1), \
             ?2, ?3, ?4, ?5) RETURNING number",
            params![
                strategy.plan_id.to_string(),
                &strategy.hash,
                to_json_body(strategy)?,
                strategy.approved_by.as_deref(),
                strategy.approved_at,
            ],
        )?;
        row.ok_or_else(|| StoreError::internal("a stored strategy vanished"))?
            .integer(0)
    }

    fn newest_strategy(&mut self, plan: PlanId) -> Result<Option<StrategyRecord>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM strategies WHERE plan_id = ?1 ORDER BY number DESC LIMIT 1"
        );
        let row = self.find(&sql, params![plan.to_string()])?;
        row.map(|row| strategy_from_row(&row)).transpose()
    }

    fn approve_strategy(&mut self, strategy: &StrategyRecord) -> Result<()> {
        let approved = self.execute(
            "UPDATE strategies SET approved_by = coalesce(approved_by, ?4), \
             approved_at = coalesce(approved_at, ?5) \
             WHERE plan_id = ?1 AND number = ?2 AND hash = ?3",
            params![
                strategy.plan_id.to_string(),
                strategy.number,
                &strategy.hash,
                strategy.approved_by.as_deref(),
                strategy.approved_at,
            ],
        )?;
        if approved == 1 {
            return Ok(());
        }
        let found = self.find(
            "SELECT hash FROM strategies WHERE plan_id = ?1 AND number = ?2",
            params![strategy.plan_id.to_string(), strategy.number],
        )?;
        Err(match found {
            None => not_found_error("strategy of this plan", strategy.number),
            Some(row) => StoreError::Refused {
                what: "strategy",
                id: strategy.number.to_string(),
                reason: format!(
                    "has the hash {}, not {} as the one that was approved",
                    row.text(0)?,
                    strategy.hash
                ),
            },
        })
    }
}

fn strategy_from_row(row: &SqlRow) -> Result<StrategyRecord> {
    let mut strategy: StrategyRecord = decode_entity(row, 0)?;
    strategy.number = row.integer(1)?;
    strategy.approved_by = row.optional_text(2)?;
    strategy.approved_at = row.optional_integer(3)?.map(Timestamp::from_micros);
    Ok(strategy)
}
