//! What is on record of each time a model is asked: before, and after however it ended.

use std::sync::Arc;

use cleveragents_domain::id::{ModelCallId, PlanId};
use cleveragents_domain::model::{ModelAnswer, Usage};
use cleveragents_domain::model_call::{
    ModelCallEnd, ModelCallRecord, ModelCallState, NewModelCall, Spent,
};
use cleveragents_domain::{
    Budget, ErrorCategory, EventKind, MessageKind, NewEvent, PlanMessage, StreamId,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Talk;
use super::budget::{budget, exceeded, warning};
use super::conversation::Staged;
use crate::execution::error::{ExecutionError, Result};
use crate::journal::event;
use crate::ports::models::{ModelError, ModelErrorKind};
use crate::ports::{Ids, StoreError, Unit};
use crate::recovery::{Trouble, record_error};
use crate::retry::Again;

/// What the store said to an attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Begun {
    Go(Box<ModelCallRecord>),
    Budget(String),
}

/// Why an attempt did not begin.
#[derive(Debug)]
pub(super) enum Unbegun {
    Store(StoreError),
    /// Humans have said something that the model must hear first.
    Words(Vec<PlanMessage>),
}

impl From<StoreError> for Unbegun {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Talk<'_> {
    /// Puts the attempt on record, with what it may cost and all that is sent.
    pub(super) async fn begin(
        &self,
        staged: &Staged,
        heard: &[PlanMessage],
    ) -> std::result::Result<Begun, Unbegun> {
        let beginning = Beginning {
            call: NewModelCall {
                id: ModelCallId::new(self.executor.ids.next()),
                plan_id: self.plan.identity.plan_id,
                conversation: self.conversation.key,
                turn: self.conversation.turn + 1,
                actor: self.actor.clone(),
                model: self.model.facts().choice.clone(),
                request: staged.manifest.to_string(),
                reserved: self.reservation(),
                after_call: 0,
            },
            staged: staged.clone(),
            heard: heard.iter().map(|it| it.sequence).collect(),
            budget: budget(self.plan),
            ids: Arc::clone(&self.executor.ids),
            owner: self.run.lease().owner.to_string(),
            step: self.conversation.key.step,
        };
        self.run
            .write(self.executor.operation("model.ask"), move |unit| {
                beginning.write(unit)
            })
            .await
    }

    pub(super) async fn answered(
        &self,
        record: &ModelCallRecord,
        answer: &ModelAnswer,
    ) -> Result<()> {
        let mut stored = serde_json::to_value(answer).map_err(StoreError::internal)?;
        self.executor.secrets.hide_json(&mut stored);
        let bytes = serde_json::to_vec(&stored).map_err(StoreError::internal)?;
        let blob = self.executor.store.stage_blob(bytes).await?;
        let mut usage = answer.usage;
        if usage == Usage::default() {
            // Nobody said what it used: what it may have used counts.
            usage.input_tokens = self.conversation.tokens();
            usage.output_tokens = self.answer_tokens();
        }
        let end = ModelCallEnd {
            state: ModelCallState::Answered,
            answer: Some(blob.hash.to_string()),
            usage,
            spent: self.cost(&usage),
            error: None,
        };
        let hide = |tool: &str| self.executor.secrets.hide(tool).into_owned();
        let calls: Vec<String> = answer.tool_calls.iter().map(|it| hide(&it.tool)).collect();
        let (id, finish) = (record.call.id, answer.finish);
        let owner = self.run.lease().owner.to_string();
        let plan = self.plan.identity.plan_id;
        self.run
            .write(self.executor.operation("model.answer"), move |unit| {
                unit.put_blob(&blob, &plan.to_string())?;
                let ended = unit.end_model_call(id, &end)?;
                let told = json!({
                    "model_call_id": id,
                    "number": ended.number,
                    "turn": ended.call.turn,
                    "answer": end.answer,
                    "finish": finish,
                    "tool_calls": calls,
                    "usage": end.usage,
                    "usd": end.spent.usd,
                    "duration_ms": elapsed(&ended),
                });
                let told = event(EventKind::ModelAnswered, &owner, &told)?;
                unit.append(StreamId::Plan(plan), &[told])?;
                Ok::<_, ExecutionError>(())
            })
            .await
    }

    pub(super) async fn failed(
        &self,
        record: &ModelCallRecord,
        (error, usage): (&ModelError, Usage),
        retry: &Again,
    ) -> Result<()> {
        let category = error.kind.category();
        let end = ModelCallEnd {
            state: ModelCallState::Failed,
            answer: None,
            usage,
            spent: match may_be_billed(error.kind) {
                // What was answered before it failed may be asked money for.
                true => record.spent,
                false => self.cost(&usage),
            },
            error: Some(error.message.clone()),
        };
        let retry_in = match retry {
            Again::After(patience) => u64::try_from(patience.as_millis()).ok(),
            _ => None,
        };
        let trouble = Trouble {
            category,
            message: format!("{}: {error}", record.call.model),
            step: (record.call.conversation.step > 0).then_some(record.call.conversation.step),
            cause_chain: Vec::new(),
        };
        let ids = Arc::clone(&self.executor.ids);
        let owner = self.run.lease().owner.to_string();
        let (id, plan) = (record.call.id, self.plan.identity.plan_id);
        self.run
            .write(self.executor.operation("model.fail"), move |unit| {
                unit.plan_for_update(plan)?;
                let ended = unit.end_model_call(id, &end)?;
                record_error(unit, &*ids, plan, &trouble, &owner)?;
                let told = json!({
                    "model_call_id": id,
                    "number": ended.number,
                    "turn": ended.call.turn,
                    "category": trouble.category,
                    "error": end.error,
                    "retry_in_ms": retry_in,
                });
                let told = event(EventKind::ModelFailed, &owner, &told)?;
                unit.append(StreamId::Plan(plan), &[told])?;
                Ok::<_, ExecutionError>(())
            })
            .await
    }

    /// The owner has to stop while it waits for an answer.
    pub(super) async fn interrupted(&self, record: &ModelCallRecord, why: String) -> Result<()> {
        let (record, owner) = (record.clone(), self.run.lease().owner.to_string());
        self.run
            .write(self.executor.operation("model.interrupt"), move |unit| {
                interrupt(unit, &record, &why, &owner)
            })
            .await
    }

    /// Puts an error of the work on record.
    pub(super) async fn trouble(&self, category: ErrorCategory, message: &str) -> Result<()> {
        let step = self.conversation.key.step;
        let trouble = Trouble {
            step: (step > 0).then_some(step),
            ..Trouble::plain(category, message)
        };
        self.executor.record_trouble(self.run, trouble).await
    }
}

struct Beginning {
    call: NewModelCall,
    staged: Staged,
    /// The places of what humans said that is in the request.
    heard: Vec<i64>,
    budget: Budget,
    ids: Arc<dyn Ids>,
    owner: String,
    step: u32,
}

impl Beginning {
    fn write(&self, unit: &mut dyn Unit) -> std::result::Result<Begun, Unbegun> {
        let plan = self.call.plan_id;
        unit.plan_for_update(plan)?;
        let spent = unit.spent(plan)?;
        if let Some(reason) = exceeded(&self.budget, spent, self.call.reserved) {
            self.refuse(unit, &reason, spent)?;
            return Ok(Begun::Budget(reason));
        }
        let words = unit.take_messages(plan, &[MessageKind::Prompt])?;
        let places: Vec<i64> = words.iter().map(|it| it.sequence).collect();
        if places != self.heard {
            return Err(Unbegun::Words(words));
        }
        for blob in self.staged.blobs.iter() {
            unit.put_blob(blob, &plan.to_string())?;
        }
        let mut call = self.call.clone();
        call.after_call =
            i64::try_from(unit.count_tool_calls(plan, None)?).map_err(StoreError::internal)?;
        let record = unit.begin_model_call(&call)?;
        let mut events: Vec<NewEvent> = Vec::new();
        if !words.is_empty() {
            let ids: Vec<String> = words.iter().map(|it| it.id.to_string()).collect();
            let taken = json!({ "messages": ids });
            events.push(event(EventKind::MessageTaken, &self.owner, &taken)?);
        }
        if let Some(told) = warning(&self.budget, spent, call.reserved) {
            events.push(event(EventKind::BudgetWarning, &self.owner, &told)?);
        }
        let asked = json!({
            "model_call_id": call.id,
            "number": record.number,
            "actor": call.actor,
            "model": call.model.to_string(),
            "conversation": call.conversation.to_string(),
            "turn": call.turn,
            "request": call.request,
            "reserved": call.reserved,
        });
        events.push(event(EventKind::ModelAsked, &self.owner, &asked)?);
        unit.append(StreamId::Plan(plan), &events)?;
        Ok(Begun::Go(Box::new(record)))
    }

    fn refuse(
        &self,
        unit: &mut dyn Unit,
        reason: &str,
        spent: Spent,
    ) -> std::result::Result<(), StoreError> {
        let plan = self.call.plan_id;
        let trouble = Trouble {
            category: ErrorCategory::Budget,
            message: reason.to_owned(),
            step: (self.step > 0).then_some(self.step),
            cause_chain: Vec::new(),
        };
        record_error(unit, &*self.ids, plan, &trouble, &self.owner)?;
        let told = json!({
            "limit": self.budget,
            "used": spent,
            "wanted": self.call.reserved,
            "model": self.call.model.to_string(),
        });
        let told = event(EventKind::BudgetExceeded, &self.owner, &told)?;
        unit.append(StreamId::Plan(plan), &[told])?;
        Ok(())
    }
}

/// Ends a call whose answer nobody will hear; what was reserved counts as used up.
pub(in crate::execution) fn interrupt(
    unit: &mut dyn Unit,
    record: &ModelCallRecord,
    why: &str,
    owner: &str,
) -> Result<()> {
    let end = ModelCallEnd {
        state: ModelCallState::Interrupted,
        answer: None,
        usage: Usage::default(),
        spent: record.call.reserved,
        error: Some(why.to_owned()),
    };
    let ended = unit.end_model_call(record.call.id, &end)?;
    let told = json!({
        "model_call_id": record.call.id,
        "number": ended.number,
        "spent": ended.spent,
    });
    let told = event(EventKind::ModelInterrupted, owner, &told)?;
    let plan: PlanId = record.call.plan_id;
    unit.append(StreamId::Plan(plan), &[told])?;
    Ok(())
}

/// Whether a vendor may ask money for an attempt that failed so.
const fn may_be_billed(kind: ModelErrorKind) -> bool {
    matches!(
        kind,
        ModelErrorKind::Timeout
            | ModelErrorKind::Truncated
            | ModelErrorKind::Malformed
            | ModelErrorKind::Network
            | ModelErrorKind::Server
    )
}

fn elapsed(record: &ModelCallRecord) -> Option<i64> {
    let end = record.finished_at?.as_micros();
    Some(end.saturating_sub(record.started_at.as_micros()) / 1000)
}
