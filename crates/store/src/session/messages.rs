//! Store operations on messages to a plan's owner.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{MessageKind, PlanMessage};
use cleveragents_engine::ports::{Messages, Result, StoreError};

use super::StoreSession;
use super::rows::{decode_count, decode_entity, to_json_body};
use crate::value::{SqlRow, params};

impl Messages for StoreSession<'_> {
    fn send_message(&mut self, message: &PlanMessage) -> Result<i64> {
        self.lock_plan_stream(message.plan_id)?;
        let id = message.id.to_string();
        let row = self.find(
            "INSERT INTO plan_messages (id, plan_id, sequence, kind, body, taken_at) \
             VALUES (?1, ?2, \
             (SELECT coalesce(max(sequence), 0) + 1 FROM plan_messages WHERE plan_id = ?2), \
             ?3, ?4, NULL) ON CONFLICT (id) DO NOTHING RETURNING sequence",
            params![
                &id,
                message.plan_id.to_string(),
                message.kind.as_str(),
                to_json_body(message)?,
            ],
        )?;
        match row {
            Some(row) => row.integer(0),
            None => Err(StoreError::Taken {
                what: "the message id",
                name: id,
                holder: "another message".to_owned(),
            }),
        }
    }

    fn take_messages(&mut self, plan: PlanId, kinds: &[MessageKind]) -> Result<Vec<PlanMessage>> {
        let plan = plan.to_string();
        let pending = pending_condition(kinds);
        // Transactions lock the messages in sequence order, so they cannot deadlock; the second one
        // finds them taken.
        let sql = format!("SELECT id FROM plan_messages {pending} ORDER BY sequence FOR UPDATE");
        self.query(&sql, params![&plan])?;
        let sql = format!(
            "UPDATE plan_messages SET taken_at = now_micros() {pending} \
             RETURNING body, sequence, taken_at"
        );
        let rows = self.query(&sql, params![&plan])?;
        let mut messages: Vec<PlanMessage> =
            rows.iter().map(message_from_row).collect::<Result<_>>()?;
        messages.sort_by_key(|message| message.sequence);
        Ok(messages)
    }

    fn pending_messages(&mut self, plan: PlanId, kinds: &[MessageKind]) -> Result<u64> {
        let sql = format!(
            "SELECT count(*) FROM plan_messages {}",
            pending_condition(kinds)
        );
        let row = self.find(&sql, params![plan.to_string()])?;
        row.map_or(Ok(0), |row| decode_count(&row, 0))
    }
}

/// The SQL condition for a plan's untaken messages of these kinds. The kinds are constants of this
/// program, so they can be part of the text.
fn pending_condition(kinds: &[MessageKind]) -> String {
    let words: Vec<String> = kinds.iter().map(|kind| format!("'{kind}'")).collect();
    let words = match words.is_empty() {
        true => "NULL".to_owned(),
        false => words.join(", "),
    };
    format!("WHERE plan_id = ?1 AND taken_at IS NULL AND kind IN ({words})")
}

fn message_from_row(row: &SqlRow) -> Result<PlanMessage> {
    let mut message: PlanMessage = decode_entity(row, 0)?;
    message.sequence = row.integer(1)?;
    message.taken_at = Some(row.time(2)?);
    Ok(message)
}
