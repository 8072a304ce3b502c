//! Store operations on model calls: numbered when they start, ended once. Their reservation counts
//! as spent from the start.

use cleveragents_domain::Timestamp;
use cleveragents_domain::id::{CheckpointId, ModelCallId, PlanId};
use cleveragents_domain::model::Usage;
use cleveragents_domain::model_call::{
    ConversationKey, ModelCallEnd, ModelCallRecord, ModelCallState, ModelTotals, NewModelCall,
};
use cleveragents_ports::{Entity, ModelCalls, Result, StoreError, UniqueKey};

use super::StoreSession;
use super::rows::{decode_entity, decode_optional_entity, not_found_error, to_json_body};
use crate::value::{Param, SqlRow, params};

const COLUMNS: &str = "body, number, ordinal, state, ended, started_at, finished_at, undone_by";

const MODEL_TOTALS: &str = "SELECT is_estimate, is_priced, \
     CAST(sum(input_tokens) AS BIGINT), CAST(sum(output_tokens) AS BIGINT), \
     CAST(sum(cached_tokens) AS BIGINT), CAST(sum(tokens) AS BIGINT), sum(usd) \
     FROM model_calls WHERE plan_id = ?1 GROUP BY is_estimate, is_priced";

/// A call has two versions: started and ended.
const STARTED_VERSION: i64 = 1;
const ENDED_VERSION: i64 = 2;

impl ModelCalls for StoreSession<'_> {
    fn begin_model_call(&mut self, call: &NewModelCall) -> Result<ModelCallRecord> {
        self.lock_plan_stream(call.plan_id)?;
        let sql = format!(
            "INSERT INTO model_calls (id, plan_id, number, actor, ordinal, conversation, \
             after_call, state, body, tokens, usd, is_priced, started_at) VALUES (?1, ?2, \
             (SELECT coalesce(max(number), 0) + 1 FROM model_calls WHERE plan_id = ?2), ?3, \
             (SELECT coalesce(max(ordinal) + 1, 0) FROM model_calls \
              WHERE plan_id = ?2 AND actor = ?3), \
             ?4, ?5, ?6, ?7, ?8, ?9, ?10, now_micros()) ON CONFLICT (id) DO NOTHING RETURNING {COLUMNS}"
        );
        let row = self.find(
            &sql,
            &[
                Param::from(call.id.to_string()),
                Param::from(call.plan_id.to_string()),
                Param::from(call.actor.to_string()),
                Param::from(call.conversation.to_string()),
                Param::from(call.after_call),
                Param::from(ModelCallState::Asked.as_str()),
                Param::from(to_json_body(call)?),
                Param::from(token_count(call.reserved.tokens)?),
                Param::Real(call.reserved.usd.unwrap_or(0.0)),
                Param::from(i64::from(call.reserved.usd.is_some())),
            ],
        )?;
        match row {
            Some(row) => model_call_from_row(&row),
            None => Err(StoreError::Taken {
                key: UniqueKey::Id(Entity::ModelCall),
                name: call.id.to_string(),
                holder: "another call".to_owned(),
            }),
        }
    }

    fn end_model_call(&mut self, id: ModelCallId, end: &ModelCallEnd) -> Result<ModelCallRecord> {
        let sql = format!(
            "UPDATE model_calls SET state = ?2, ended = ?3, tokens = ?4, usd = ?5, \
             input_tokens = ?6, output_tokens = ?7, cached_tokens = ?8, is_estimate = ?9, \
             finished_at = now_micros() WHERE id = ?1 AND state = ?10 RETURNING {COLUMNS}"
        );
        let row = self.find(
            &sql,
            &[
                Param::from(id.to_string()),
                Param::from(end.state.as_str()),
                Param::from(to_json_body(end)?),
                Param::from(token_count(end.spent.tokens)?),
                Param::Real(end.spent.usd.unwrap_or(0.0)),
                Param::from(token_count(end.usage.input_tokens)?),
                Param::from(token_count(end.usage.output_tokens)?),
                Param::from(token_count(end.usage.cached_tokens)?),
                Param::from(i64::from(end.is_estimate)),
                Param::from(ModelCallState::Asked.as_str()),
            ],
        )?;
        if let Some(row) = row {
            return model_call_from_row(&row);
        }
        let known = self.find(
            "SELECT number FROM model_calls WHERE id = ?1",
            params![id.to_string()],
        )?;
        Err(match known {
            None => not_found_error(Entity::ModelCall, id),
            Some(_) => StoreError::Conflict {
                entity: Entity::ModelCall,
                id: id.to_string(),
                expected: STARTED_VERSION,
                found: ENDED_VERSION,
            },
        })
    }

    fn model_calls_after(
        &mut self,
        plan: PlanId,
        number: i64,
        limit: u32,
    ) -> Result<Vec<ModelCallRecord>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM model_calls WHERE plan_id = ?1 AND number > ?2 \
             ORDER BY number LIMIT ?3"
        );
        let rows = self.query(&sql, params![plan.to_string(), number, i64::from(limit)])?;
        rows.iter().map(model_call_from_row).collect()
    }

    fn newest_model_call(
        &mut self,
        plan: PlanId,
        conversation: &ConversationKey,
    ) -> Result<Option<ModelCallRecord>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM model_calls WHERE plan_id = ?1 AND conversation = ?2 \
             AND undone_by IS NULL ORDER BY number DESC LIMIT 1"
        );
        let row = self.find(&sql, params![plan.to_string(), conversation.to_string()])?;
        row.map(|row| model_call_from_row(&row)).transpose()
    }

    fn unfinished_model_calls(&mut self, plan: PlanId) -> Result<Vec<ModelCallRecord>> {
        // The state is a literal in the text, so that the planner can use the partial index of
        // unfinished calls.
        let sql = format!(
            "SELECT {COLUMNS} FROM model_calls WHERE plan_id = ?1 AND state = '{}' ORDER BY number",
            ModelCallState::Asked
        );
        let rows = self.query(&sql, params![plan.to_string()])?;
        rows.iter().map(model_call_from_row).collect()
    }

    fn model_totals(&mut self, plan: PlanId) -> Result<ModelTotals> {
        let mut totals = ModelTotals::default();
        for row in self.query(MODEL_TOTALS, params![plan.to_string()])? {
            add_totals(&mut totals, &row)?;
        }
        Ok(totals)
    }

    fn undo_model_calls(
        &mut self,
        plan: PlanId,
        call_number: i64,
        by: CheckpointId,
    ) -> Result<u64> {
        self.lock_plan_stream(plan)?;
        self.execute(
            "UPDATE model_calls SET undone_by = ?3 \
             WHERE plan_id = ?1 AND after_call >= ?2 AND undone_by IS NULL",
            params![plan.to_string(), call_number, by.to_string()],
        )
    }
}

fn token_count(tokens: u64) -> Result<i64> {
    i64::try_from(tokens).map_err(StoreError::internal)
}

/// Adds a row of [`MODEL_TOTALS`].
fn add_totals(totals: &mut ModelTotals, row: &SqlRow) -> Result<()> {
    let count = |column| u64::try_from(row.integer(column)?).map_err(StoreError::internal);
    let (is_estimate, is_priced) = (row.integer(0)? == 1, row.integer(1)? == 1);
    let (tokens, usd) = (count(5)?, row.real(6)?);
    // A failed attempt without usage costs nothing at any price.
    let is_unpriced = !is_priced && tokens > 0;
    if is_estimate {
        totals.estimated_tokens += tokens;
        totals.estimated_usd += usd;
        totals.has_unpriced_estimate |= is_unpriced;
    } else {
        totals.reported.input_tokens += count(2)?;
        totals.reported.output_tokens += count(3)?;
        totals.reported.cached_tokens += count(4)?;
        totals.reported_usd += usd;
        totals.has_unpriced_usage |= is_unpriced;
    }
    Ok(())
}

fn model_call_from_row(row: &SqlRow) -> Result<ModelCallRecord> {
    let call: NewModelCall = decode_entity(row, 0)?;
    let ended: Option<ModelCallEnd> = decode_optional_entity(row, 4)?;
    // A call that has not ended counts as its reservation.
    let end = ended.unwrap_or_else(|| ModelCallEnd {
        state: ModelCallState::Asked,
        answer: None,
        usage: Usage::default(),
        spent: call.reserved,
        is_estimate: true,
        error: None,
    });
    Ok(ModelCallRecord {
        call,
        number: row.integer(1)?,
        ordinal: u64::try_from(row.integer(2)?).map_err(StoreError::internal)?,
        state: row.parsed(3)?,
        answer: end.answer,
        usage: end.usage,
        spent: end.spent,
        is_estimate: end.is_estimate,
        error: end.error,
        started_at: row.time(5)?,
        finished_at: row.optional_integer(6)?.map(Timestamp::from_micros),
        undone_by: row.optional_parsed(7)?,
    })
}
