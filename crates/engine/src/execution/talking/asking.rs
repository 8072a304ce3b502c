//! Asking a model: what it may cost is reserved, then it is asked, then what came is on record.
//! What fails and may pass is tried again, each time on record by itself.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::id::{ModelCallId, PlanId};
use cleveragents_domain::model::{ModelAnswer, Usage};
use cleveragents_domain::model_call::{
    ModelCallEnd, ModelCallRecord, ModelCallState, NewModelCall, Spent,
};
use cleveragents_domain::{
    Budget, ErrorCategory, EventKind, MessageKind, NewEvent, PlanMessage, StreamId, Waiting,
};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Talk;
use super::answering::Answering;
use super::conversation::Staged;
use crate::breaker::Admission;
use crate::execution::error::{ExecutionError, Result};
use crate::execution::executor::Executor;
use crate::execution::steps::ActorEnd;
use crate::journal::event;
use crate::ports::models::{ModelError, ModelErrorKind};
use crate::ports::{Stopped, StoreError, Unit};
use crate::recovery::{Trouble, record_error};
use crate::retry::{Again, GiveUp};

/// At so much of a budget people are told.
const WARNED_AT: f64 = 0.9;

/// What came of asking.
pub(super) enum Asked {
    Answer(ModelAnswer),
    End(ActorEnd),
}

/// What came of one attempt.
enum Tried {
    Answered(ModelAnswer),
    Failed(ModelError, Usage),
    Stopped(Stopped),
}

/// What the store said to an attempt.
#[derive(Debug, Serialize, Deserialize)]
enum Begun {
    Go(Box<ModelCallRecord>),
    Budget(String),
}

/// Why an attempt did not begin.
#[derive(Debug)]
enum Unbegun {
    Store(StoreError),
    /// Humans have said something that the model must hear first.
    Words(Vec<PlanMessage>),
}

impl From<StoreError> for Unbegun {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Executor {
    /// What is done about an attempt that failed.
    fn try_again(&self, attempt: u32, error: &ModelError) -> Again {
        // Ids are random in their last bits; so many give a number with as many digits as it has.
        const BITS: u32 = 32;
        let dice = self.ids.next().random() & ((1 << BITS) - 1);
        #[expect(clippy::cast_precision_loss, reason = "it has 32 bits")]
        let random = dice as f64 / (1_u64 << BITS) as f64;
        self.policy.retry.decide(attempt, &error.into(), random)
    }
}

impl Talk<'_> {
    /// The model's next answer, or why there is none.
    pub(super) async fn ask(&mut self) -> Result<Asked> {
        if let Some(end) = self.make_room().await? {
            return Ok(Asked::End(end));
        }
        let mut heard: Vec<PlanMessage> = Vec::new();
        let mut attempt = 0;
        loop {
            if let Some(end) = self.wait_for_breaker().await? {
                return Ok(Asked::End(end));
            }
            let staged = self.conversation.stage(&self.executor.store).await?;
            let record = match self.begin(&staged, &heard).await {
                Ok(Begun::Go(record)) => *record,
                Ok(Begun::Budget(reason)) => {
                    let waiting = Waiting::Budget;
                    return Ok(Asked::End(ActorEnd::Waits { waiting, reason }));
                }
                Err(Unbegun::Words(words)) => {
                    self.hear(&words);
                    heard = words;
                    continue;
                }
                Err(Unbegun::Store(error)) => return Err(error.into()),
            };
            self.conversation.is_stored(&staged);
            heard.clear();
            attempt += 1;
            match self.attempt(&record).await? {
                Tried::Answered(answer) => {
                    self.answered(&record, &answer).await?;
                    return Ok(Asked::Answer(answer));
                }
                Tried::Stopped(why) => {
                    self.interrupted(&record, why).await?;
                    return Ok(Asked::End(ActorEnd::Stopped(why)));
                }
                Tried::Failed(error, usage) => {
                    let retry = self.executor.try_again(attempt, &error);
                    self.failed(&record, (&error, usage), &retry).await?;
                    if let Some(end) = self.after_failure(&error, retry).await? {
                        return Ok(Asked::End(end));
                    }
                }
            }
        }
    }

    /// Waits before the next attempt, unless there is none.
    async fn after_failure(&self, error: &ModelError, retry: Again) -> Result<Option<ActorEnd>> {
        let patience = match retry {
            Again::After(patience) => patience,
            Again::GiveUp(GiveUp::Later(patience)) => {
                return Ok(Some(self.until(patience, error)));
            }
            Again::GiveUp(GiveUp::Lasting | GiveUp::Exhausted) => {
                let reason = format!("{}: {error}", self.model.facts().choice);
                return Ok(Some(ActorEnd::Failed(reason)));
            }
        };
        Ok(self.pause(patience).await.map(ActorEnd::Stopped))
    }

    /// The plan waits until the provider wants to be asked again.
    fn until(&self, patience: Duration, error: &ModelError) -> ActorEnd {
        let micros = i64::try_from(patience.as_micros()).unwrap_or(i64::MAX);
        let now = self.executor.clock.now().as_micros();
        let until = cleveragents_domain::Timestamp::from_micros(now.saturating_add(micros));
        ActorEnd::Waits {
            waiting: Waiting::Until { until },
            reason: format!("{}: {error}", self.model.facts().choice),
        }
    }

    /// Waits so long, unless the owner has to stop.
    async fn pause(&self, patience: Duration) -> Option<Stopped> {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = tokio::time::sleep(patience) => None,
            why = stop.wait_for(Option::is_some) => Some(told(why.ok().and_then(|why| *why))),
        }
    }

    /// Waits while the model is left alone because it kept failing.
    async fn wait_for_breaker(&mut self) -> Result<Option<ActorEnd>> {
        let name = self.model.facts().choice.to_string();
        loop {
            let now = self.executor.clock.now();
            match self.executor.breaker.admit(&name, now) {
                Admission::Permit(permit) => {
                    self.permit = Some(permit);
                    return Ok(None);
                }
                Admission::Open { until } => {
                    let micros = until.as_micros().saturating_sub(now.as_micros()).max(1);
                    let patience = Duration::from_micros(micros.unsigned_abs());
                    if let Some(why) = self.pause(patience).await {
                        return Ok(Some(ActorEnd::Stopped(why)));
                    }
                }
            }
        }
    }

    /// Makes room for the answer, and says when there is none to be made.
    async fn make_room(&mut self) -> Result<Option<ActorEnd>> {
        let facts = self.model.facts();
        let room = facts.context_tokens.saturating_sub(self.answer_tokens());
        if self.conversation.tokens() <= room - room / 8 {
            return Ok(None);
        }
        if let Some(compacted) = self.conversation.make_room(room / 2, &*self.model) {
            let told = json!({
                "conversation": self.conversation.key.to_string(),
                "turn": self.conversation.turn,
                "messages_before": compacted.messages_before,
                "messages_after": compacted.messages_after,
                "tokens_before": compacted.tokens_before,
                "tokens_after": compacted.tokens_after,
            });
            self.executor
                .tell(self.run, EventKind::ConversationCompacted, told)
                .await?;
        }
        let tokens = self.conversation.tokens();
        if tokens <= room {
            return Ok(None);
        }
        let reason = format!(
            "the conversation has up to {tokens} tokens, and {} takes {room} beside its answer",
            facts.choice
        );
        self.trouble(ErrorCategory::Budget, &reason).await?;
        Ok(Some(ActorEnd::Limit(reason)))
    }

    /// How long the answer may be.
    pub(super) fn answer_tokens(&self) -> u64 {
        let asked = self.conversation.request().options.max_tokens;
        asked.unwrap_or(self.model.facts().answer_tokens)
    }

    /// What an attempt may use up at most.
    fn reservation(&self) -> Spent {
        let usage = Usage {
            input_tokens: self.conversation.tokens(),
            output_tokens: self.answer_tokens(),
            ..Usage::default()
        };
        self.cost(&usage)
    }

    fn cost(&self, usage: &Usage) -> Spent {
        let price = self.model.facts().price;
        Spent {
            tokens: usage.input_tokens + usage.output_tokens,
            usd: price.map_or(0.0, |price| price.of(usage)),
        }
    }

    /// Puts the attempt on record, with what it may cost and all that is sent.
    async fn begin(
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
            budget: self.plan.brief.budget,
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

    /// One attempt, as far as it goes.
    async fn attempt(&mut self, record: &ModelCallRecord) -> Result<Tried> {
        let mut stream = self
            .model
            .stream(self.conversation.request(), record.ordinal);
        let mut answering = Answering::default();
        let mut stop = self.stop.clone();
        let failed = loop {
            let part = tokio::select! {
                biased;
                why = stop.wait_for(Option::is_some) => {
                    let why = told(why.ok().and_then(|why| *why));
                    return Ok(Tried::Stopped(why));
                }
                part = stream.next() => part,
            };
            match part {
                None => break None,
                Some(Err(error)) => break Some(error),
                Some(Ok(delta)) => {
                    if let Err(error) = answering.take(delta) {
                        break Some(error);
                    }
                }
            }
        };
        drop(stream);
        let usage = answering.so_far().usage;
        let now = self.executor.clock.now();
        let permit = self.permit.take();
        Ok(match failed.map_or_else(|| answering.whole(), Err) {
            Ok(answer) => {
                if let Some(permit) = permit {
                    permit.success(now);
                }
                Tried::Answered(answer)
            }
            Err(error) => {
                if let Some(permit) = permit
                    && error.kind.is_transient()
                {
                    permit.failure(now);
                }
                Tried::Failed(error, usage)
            }
        })
    }

    async fn answered(&self, record: &ModelCallRecord, answer: &ModelAnswer) -> Result<()> {
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
        let calls: Vec<String> = answer.tool_calls.iter().map(|it| it.tool.clone()).collect();
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

    async fn failed(
        &self,
        record: &ModelCallRecord,
        (error, usage): (&ModelError, Usage),
        retry: &Again,
    ) -> Result<()> {
        let category = category(error.kind);
        let end = ModelCallEnd {
            state: ModelCallState::Failed,
            answer: None,
            usage,
            spent: match may_be_billed(error.kind) {
                // What was answered before it failed may be asked money for.
                true => record.spent,
                false => Spent::default(),
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

    /// The owner has to stop while it waits for an answer. One that lost its plan writes nothing.
    async fn interrupted(&self, record: &ModelCallRecord, why: Stopped) -> Result<()> {
        if why == Stopped::LeaseLost {
            return Err(ExecutionError::Stopped(why));
        }
        let (record, owner) = (record.clone(), self.run.lease().owner.to_string());
        self.run
            .write(self.executor.operation("model.interrupt"), move |unit| {
                interrupt(unit, &record, &why.to_string(), &owner)
            })
            .await
    }

    /// Puts an error of the work on record.
    pub(super) async fn trouble(&self, category: ErrorCategory, message: &str) -> Result<()> {
        let step = self.conversation.key.step;
        let trouble = Trouble {
            category,
            message: message.to_owned(),
            step: (step > 0).then_some(step),
            cause_chain: Vec::new(),
        };
        let (ids, plan) = (Arc::clone(&self.executor.ids), self.plan.identity.plan_id);
        let owner = self.run.lease().owner.to_string();
        self.run
            .write(self.executor.operation("plan.record-error"), move |unit| {
                record_error(unit, &*ids, plan, &trouble, &owner)?;
                Ok::<_, ExecutionError>(())
            })
            .await
    }
}

struct Beginning {
    call: NewModelCall,
    staged: Staged,
    /// The places of what humans said that is in the request.
    heard: Vec<i64>,
    budget: Budget,
    ids: Arc<dyn crate::ports::Ids>,
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

/// Which limit of the budget would be passed.
fn exceeded(budget: &Budget, spent: Spent, wanted: Spent) -> Option<String> {
    if let Some(limit) = budget.usd
        && spent.usd + wanted.usd > limit
    {
        return Some(format!(
            "the budget of {limit} USD does not allow another {:.4}: {:.4} are used up or reserved",
            wanted.usd, spent.usd
        ));
    }
    let limit = budget.tokens?;
    let tokens = spent.tokens.saturating_add(wanted.tokens);
    (tokens > limit).then(|| {
        format!(
            "the budget of {limit} tokens does not allow another {}: {} are used up or reserved",
            wanted.tokens, spent.tokens
        )
    })
}

/// What people are told when this attempt comes near a limit for the first time.
fn warning(budget: &Budget, spent: Spent, wanted: Spent) -> Option<serde_json::Value> {
    #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
    let tokens = budget.tokens.map(|limit| {
        let share = |used: u64| used as f64 / limit.max(1) as f64;
        (share(spent.tokens), share(spent.tokens + wanted.tokens))
    });
    let usd = budget.usd.map(|limit| {
        let share = |used: f64| used / limit.max(f64::MIN_POSITIVE);
        (share(spent.usd), share(spent.usd + wanted.usd))
    });
    let crosses = |(before, after): (f64, f64)| before < WARNED_AT && after >= WARNED_AT;
    let near = [usd, tokens].into_iter().flatten().any(crosses);
    near.then(|| json!({ "limit": budget, "used": spent, "reserved": wanted }))
}

/// The word to stop; none means that whoever gives it is gone.
fn told(why: Option<Stopped>) -> Stopped {
    why.unwrap_or(Stopped::Cancelled)
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

pub(super) const fn category(kind: ModelErrorKind) -> ErrorCategory {
    match kind {
        ModelErrorKind::RateLimit => ErrorCategory::RateLimit,
        ModelErrorKind::Timeout => ErrorCategory::Timeout,
        ModelErrorKind::Server | ModelErrorKind::Network | ModelErrorKind::Truncated => {
            ErrorCategory::TransientNetwork
        }
        ModelErrorKind::Malformed | ModelErrorKind::InvalidRequest => ErrorCategory::ModelOutput,
        ModelErrorKind::Auth => ErrorCategory::Auth,
        ModelErrorKind::ContextOverflow => ErrorCategory::Budget,
        ModelErrorKind::Unavailable => ErrorCategory::Resource,
    }
}

fn elapsed(record: &ModelCallRecord) -> Option<i64> {
    let end = record.finished_at?.as_micros();
    Some(end.saturating_sub(record.started_at.as_micros()) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn spent(tokens: u64, usd: f64) -> Spent {
        Spent { tokens, usd }
    }

    #[test]
    fn a_budget_is_what_may_be_reserved_at_most() {
        let none = Budget::default();
        assert_eq!(exceeded(&none, spent(1 << 60, 1e9), spent(1, 1.0)), None);
        let budget = Budget {
            usd: Some(1.0),
            tokens: Some(1000),
            wall: None,
        };
        assert_eq!(exceeded(&budget, spent(900, 0.5), spent(100, 0.5)), None);
        let dollars = exceeded(&budget, spent(0, 0.75), spent(0, 0.5)).unwrap();
        assert!(dollars.contains("budget of 1 USD does not allow another 0.5000"));
        let tokens = exceeded(&budget, spent(901, 0.0), spent(100, 0.0)).unwrap();
        assert!(tokens.contains("budget of 1000 tokens does not allow another 100: 901 are"));
    }

    #[test]
    fn people_are_told_once_when_a_limit_comes_near() {
        let budget = Budget {
            usd: Some(1.0),
            ..Budget::default()
        };
        assert!(warning(&budget, spent(0, 0.0), spent(0, 0.5)).is_none());
        assert!(warning(&budget, spent(0, 0.5), spent(0, 0.45)).is_some());
        assert!(warning(&budget, spent(0, 0.95), spent(0, 0.01)).is_none());
    }
}
