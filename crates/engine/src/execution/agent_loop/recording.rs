//! Records each model call before it starts and after it ends.

use std::sync::Arc;

use cleveragents_domain::event::payloads::{
    AskedModel, BudgetExceeded, MessageTaken, ModelAnswered, ModelAsked, ModelFailed,
    ModelInterrupted,
};
use cleveragents_domain::id::{ModelCallId, PlanId};
use cleveragents_domain::model::{ModelAnswer, Usage};
use cleveragents_domain::model_call::{
    ModelCallEnd, ModelCallRecord, ModelCallState, ModelSpend, NewModelCall,
};
use cleveragents_domain::{Budget, ErrorCategory, MessageKind, NewEvent, PlanMessage, StreamId};
use serde::{Deserialize, Serialize};

use super::AgentTurn;
use super::budget::{Reservation, budget, committed, exceeded, warning};
use super::charge::{Charge, Pricing};
use super::conversation::StagedRequest;
use super::model_call::max_answer_tokens;
use crate::error_history::{NewErrorRecord, record_error};
use crate::execution::error::{ExecutionError, Result};
use crate::journal::new_event;
use crate::retry::RetryDecision;
use cleveragents_ports::models::ModelError;
use cleveragents_ports::{Ids, StoreError, Transaction};

/// Outcome of recording the start of an attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ModelCallAdmission {
    Go(Box<ModelCallRecord>),
    Budget(String),
}

/// Reason for an attempt that did not start.
#[derive(Debug)]
pub(super) enum ModelCallStartError {
    Store(StoreError),
    /// There are new user messages that must be in the request.
    NewMessages(Vec<PlanMessage>),
}

impl From<StoreError> for ModelCallStartError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl AgentTurn<'_> {
    /// Records the start of the attempt with its reservation and the full request.
    pub(super) async fn begin(
        &self,
        staged: &StagedRequest,
        included: &[PlanMessage],
    ) -> std::result::Result<ModelCallAdmission, ModelCallStartError> {
        let model = &*self.model;
        let reservation = Reservation::new(
            model,
            self.conversation.tokens(),
            max_answer_tokens(&self.conversation, model),
            self.run.services.policy.reserved_answer_tokens,
        );
        let start = ModelCallStart {
            reservation,
            call: NewModelCall {
                id: ModelCallId::new(self.run.services.ids.next()),
                plan_id: self.run.id(),
                conversation: self.conversation.key,
                turn: self.conversation.turn + 1,
                actor: self.actor.clone(),
                model: self.model.facts().choice.clone(),
                request: staged.manifest.to_string(),
                reserved: reservation.spend(),
                // Set in the transaction, which knows what was spent and the number of calls.
                maximum: ModelSpend::default(),
                answer_limit: None,
                after_call: 0,
            },
            staged: staged.clone(),
            included_messages: included.iter().map(|it| it.sequence).collect(),
            budget: budget(&self.run.plan),
            ids: Arc::clone(&self.run.services.ids),
            owner: self.run.owner_name(),
            step: self.conversation.key.step,
        };
        self.run
            .lease
            .write(self.run.operation("model.request"), move |tx| {
                start.write(tx)
            })
            .await
    }

    pub(super) async fn record_answer(
        &self,
        record: &ModelCallRecord,
        answer: &ModelAnswer,
    ) -> Result<()> {
        let mut stored = serde_json::to_value(answer).map_err(StoreError::internal)?;
        self.run.services.secrets.mask_json(&mut stored);
        let bytes = serde_json::to_vec(&stored).map_err(StoreError::internal)?;
        // Staged before the transaction: hashing a large answer must not hold its locks (law 7).
        let blob = self.run.services.store.stage_blob(bytes).await?;
        let end = ModelCallEnd {
            answer: Some(blob.hash.to_string()),
            ..call_end(
                ModelCallState::Answered,
                Pricing::new(self).answer_charge(answer),
            )
        };
        let mask = |tool: &str| self.run.services.secrets.mask(tool).into_owned();
        let calls: Vec<String> = answer.tool_calls.iter().map(|it| mask(&it.tool)).collect();
        let (id, finish) = (record.call.id, answer.finish);
        let owner = self.run.owner_name();
        let plan = self.run.id();
        self.run
            .lease
            .write(self.run.operation("model.answer"), move |tx| {
                tx.put_blob(&blob, &plan.to_string())?;
                let ended = tx.end_model_call(id, &end)?;
                let payload = ModelAnswered {
                    model_call_id: id,
                    number: Some(ended.number),
                    turn: Some(ended.call.turn),
                    answer: blob.hash.to_string(),
                    finish,
                    tool_calls: Some(calls.clone()),
                    usage: end.usage,
                    usd: end.spent.usd,
                    duration_ms: elapsed_ms(&ended),
                };
                tx.append(StreamId::Plan(plan), &[new_event(&owner, &payload)?])?;
                Ok::<_, ExecutionError>(())
            })
            .await
    }

    pub(super) async fn record_failure(
        &self,
        record: &ModelCallRecord,
        error: &ModelError,
        charge: Charge,
        retry: &RetryDecision,
    ) -> Result<()> {
        let category = error.kind.category();
        let end = ModelCallEnd {
            error: Some(error.message.clone()),
            ..call_end(ModelCallState::Failed, charge)
        };
        let retry_in = match retry {
            RetryDecision::After(delay) => u64::try_from(delay.as_millis()).ok(),
            _ => None,
        };
        let new_error = NewErrorRecord {
            category,
            message: format!("{}: {error}", record.call.model),
            step: (record.call.conversation.step > 0).then_some(record.call.conversation.step),
            cause_chain: Vec::new(),
        };
        let ids = Arc::clone(&self.run.services.ids);
        let owner = self.run.owner_name();
        let (id, plan) = (record.call.id, self.run.id());
        self.run
            .lease
            .write(self.run.operation("model.fail"), move |tx| {
                tx.plan_for_update(plan)?;
                let ended = tx.end_model_call(id, &end)?;
                record_error(tx, &*ids, plan, &new_error, &owner)?;
                let payload = ModelFailed {
                    model_call_id: id,
                    number: Some(ended.number),
                    turn: Some(ended.call.turn),
                    category: new_error.category,
                    error: end.error.clone().unwrap_or_default(),
                    spent: Some(end.spent),
                    retry_in_ms: Some(retry_in),
                };
                tx.append(StreamId::Plan(plan), &[new_event(&owner, &payload)?])?;
                Ok::<_, ExecutionError>(())
            })
            .await
    }

    /// Records that the owner stopped while it waited for an answer.
    pub(super) async fn record_interruption(
        &self,
        record: &ModelCallRecord,
        why: String,
        charge: Charge,
    ) -> Result<()> {
        let (record, owner) = (record.clone(), self.run.owner_name());
        self.run
            .lease
            .write(self.run.operation("model.interrupt"), move |tx| {
                interrupt_model_call(tx, &record, &why, &owner, charge)
            })
            .await
    }

    /// Records an error of the work.
    pub(super) async fn record_error(&self, category: ErrorCategory, message: &str) -> Result<()> {
        let step = self.conversation.key.step;
        let new_error = NewErrorRecord {
            step: (step > 0).then_some(step),
            ..NewErrorRecord::new(category, message)
        };
        self.run.record_error(new_error).await
    }
}

struct ModelCallStart {
    reservation: Reservation,
    call: NewModelCall,
    staged: StagedRequest,
    /// Sequence numbers of the user messages contained in the request.
    included_messages: Vec<i64>,
    budget: Budget,
    ids: Arc<dyn Ids>,
    owner: String,
    step: u32,
}

impl ModelCallStart {
    fn write(
        &self,
        tx: &mut dyn Transaction,
    ) -> std::result::Result<ModelCallAdmission, ModelCallStartError> {
        let plan = self.call.plan_id;
        // The plan's lock serialises reservations, so that two calls cannot exceed the budget
        // together.
        tx.plan_for_update(plan)?;
        let spent = committed(&tx.model_totals(plan)?, &tx.unfinished_model_calls(plan)?);
        if let Some(reason) = exceeded(&self.budget, spent, self.call.reserved) {
            self.record_budget_exceeded(tx, &reason, spent)?;
            return Ok(ModelCallAdmission::Budget(reason));
        }
        // Consumed in the transaction that records the request: a crash loses no message and
        // delivers none twice.
        let messages = tx.take_messages(plan, &[MessageKind::Prompt])?;
        let sequences: Vec<i64> = messages.iter().map(|it| it.sequence).collect();
        if sequences != self.included_messages {
            // The error rolls the transaction back: the messages stay pending until a recorded
            // request contains them.
            return Err(ModelCallStartError::NewMessages(messages));
        }
        for blob in self.staged.blobs.iter() {
            tx.put_blob(blob, &plan.to_string())?;
        }
        let mut call = self.call.clone();
        call.answer_limit = self.reservation.answer_limit(&self.budget, spent);
        call.maximum = self.reservation.maximum(call.answer_limit);
        call.after_call =
            i64::try_from(tx.count_tool_calls(plan, None)?).map_err(StoreError::internal)?;
        let record = tx.begin_model_call(&call)?;
        let mut events: Vec<NewEvent> = Vec::new();
        if !messages.is_empty() {
            let taken = MessageTaken {
                messages: messages.iter().map(|it| it.id).collect(),
            };
            events.push(new_event(&self.owner, &taken)?);
        }
        if let Some(payload) = warning(&self.budget, spent, call.reserved) {
            events.push(new_event(&self.owner, &payload)?);
        }
        let payload = ModelAsked {
            model_call_id: call.id,
            number: Some(record.number),
            actor: call.actor.clone(),
            model: AskedModel::Text(call.model.to_string()),
            conversation: Some(call.conversation.to_string()),
            turn: Some(call.turn),
            attempt: None,
            request: call.request.clone(),
            reserved: Some(call.reserved),
        };
        events.push(new_event(&self.owner, &payload)?);
        tx.append(StreamId::Plan(plan), &events)?;
        Ok(ModelCallAdmission::Go(Box::new(record)))
    }

    fn record_budget_exceeded(
        &self,
        tx: &mut dyn Transaction,
        reason: &str,
        spent: ModelSpend,
    ) -> std::result::Result<(), StoreError> {
        let plan = self.call.plan_id;
        let new_error = NewErrorRecord {
            category: ErrorCategory::Budget,
            message: reason.to_owned(),
            step: (self.step > 0).then_some(self.step),
            cause_chain: Vec::new(),
        };
        record_error(tx, &*self.ids, plan, &new_error, &self.owner)?;
        let payload = BudgetExceeded {
            limit: self.budget,
            used: spent,
            wanted: self.call.reserved,
            model: self.call.model.to_string(),
        };
        tx.append(StreamId::Plan(plan), &[new_event(&self.owner, &payload)?])?;
        Ok(())
    }
}

/// Ends a call of a dead owner. How much of the answer it received is unknown, so the price of the
/// longest answer counts as spent. Calls of older versions have only a reservation.
pub(in crate::execution) fn abandon_model_call(
    tx: &mut dyn Transaction,
    record: &ModelCallRecord,
    why: &str,
    owner: &str,
) -> Result<()> {
    let charge = Charge {
        usage: Usage::default(),
        spent: record.call.maximum.larger(record.call.reserved),
        is_estimate: true,
    };
    interrupt_model_call(tx, record, why, owner, charge)
}

/// Ends a call whose answer will not be read.
fn interrupt_model_call(
    tx: &mut dyn Transaction,
    record: &ModelCallRecord,
    why: &str,
    owner: &str,
    charge: Charge,
) -> Result<()> {
    let end = ModelCallEnd {
        error: Some(why.to_owned()),
        ..call_end(ModelCallState::Interrupted, charge)
    };
    let ended = tx.end_model_call(record.call.id, &end)?;
    let payload = ModelInterrupted {
        model_call_id: record.call.id,
        number: ended.number,
        spent: ended.spent,
    };
    let plan: PlanId = record.call.plan_id;
    tx.append(StreamId::Plan(plan), &[new_event(owner, &payload)?])?;
    Ok(())
}

fn call_end(state: ModelCallState, charge: Charge) -> ModelCallEnd {
    ModelCallEnd {
        state,
        answer: None,
        usage: charge.usage,
        spent: charge.spent,
        is_estimate: charge.is_estimate,
        error: None,
    }
}

fn elapsed_ms(record: &ModelCallRecord) -> Option<i64> {
    let end = record.finished_at?.as_micros();
    Some(end.saturating_sub(record.started_at.as_micros()) / 1000)
}
