//! Calls a model: reserve what it may cost, send the request, record the outcome. Transient errors
//! are retried, and each attempt is recorded separately.

use std::time::Duration;

use cleveragents_domain::event::payloads::ConversationCompacted;
use cleveragents_domain::model::ModelAnswer;
use cleveragents_domain::model_call::ModelCallRecord;
use cleveragents_domain::progress::Progress;
use cleveragents_domain::{ErrorCategory, PlanMessage, Timestamp, WaitReason};
use futures_util::StreamExt;

use super::AgentTurn;
use super::answer_builder::ModelAnswerBuilder;
use super::charge::{Charge, Pricing};
use super::conversation::Conversation;
use super::recording::{ModelCallAdmission, ModelCallStartError};
use crate::actors::inquiry::random_fraction;
use crate::breaker::Admission;
use crate::execution::error::{ExecutionError, Result};
use crate::execution::plan_run::{PlanRun, report};
use crate::execution::services::EngineServices;
use crate::execution::steps::ActorEnd;
use crate::retry::{GiveUpReason, RetryDecision};
use cleveragents_ports::StopReason;
use cleveragents_ports::models::{Delta, Model, ModelError};

/// Maximum wait before checking the circuit breaker again: another caller may have succeeded long
/// before the breaker's delay is over.
const BREAKER_POLL: Duration = Duration::from_secs(1);

pub(super) enum ModelCallOutcome {
    Answer(ModelAnswer),
    End(ActorEnd),
}

enum ModelAttemptOutcome {
    Answered(ModelAnswer),
    Failed(ModelError, Charge),
    Stopped(StopReason, Charge),
}

impl EngineServices {
    /// Decides whether a failed attempt is retried.
    fn decide_retry(&self, attempt: u32, error: &ModelError) -> RetryDecision {
        let random = random_fraction(&*self.ids);
        self.policy.retry.decide(attempt, &error.into(), random)
    }
}

impl AgentTurn<'_> {
    /// Returns the model's next answer, or why there is none.
    pub(super) async fn call_model(&mut self) -> Result<ModelCallOutcome> {
        if let Some(end) = self.compact_if_full().await? {
            return Ok(ModelCallOutcome::End(end));
        }
        let mut included: Vec<PlanMessage> = Vec::new();
        let mut attempt = 0;
        loop {
            if let Some(end) = self.wait_for_breaker().await? {
                return Ok(ModelCallOutcome::End(end));
            }
            // Copied out: the guard of a watch channel must not be held across an `.await` (law 7).
            let stop = *self.run.stop.borrow();
            match stop {
                // Check before reserving cost for a call that will not be made.
                Some(StopReason::LeaseLost) => {
                    return Err(ExecutionError::Stopped(StopReason::LeaseLost));
                }
                Some(why) => return Ok(ModelCallOutcome::End(ActorEnd::Stopped(why))),
                None => {}
            }
            let staged = self.conversation.stage(&self.run.services.store).await?;
            // Durable before the request is sent (law 9), with what it may cost.
            let record = match self.begin(&staged, &included).await {
                Ok(ModelCallAdmission::Go(record)) => *record,
                Ok(ModelCallAdmission::Budget(reason)) => {
                    let waiting = WaitReason::Budget;
                    return Ok(ModelCallOutcome::End(ActorEnd::Waiting { waiting, reason }));
                }
                Err(ModelCallStartError::NewMessages(messages)) => {
                    let known = |it: &&PlanMessage| included.iter().all(|known| known.id != it.id);
                    let more: Vec<PlanMessage> = messages.iter().filter(known).cloned().collect();
                    self.add_plan_messages(&more);
                    included = messages;
                    continue;
                }
                Err(ModelCallStartError::Store(error)) => return Err(error.into()),
            };
            self.conversation.mark_stored(&staged);
            // Recorded with the request. A retry is a new request, which has none of its own.
            included.clear();
            attempt += 1;
            match self.attempt(&record).await? {
                ModelAttemptOutcome::Answered(answer) => {
                    // Before any call of the answer is made: a paid answer must survive a crash.
                    self.record_answer(&record, &answer).await?;
                    return Ok(ModelCallOutcome::Answer(answer));
                }
                ModelAttemptOutcome::Stopped(StopReason::LeaseLost, _) => {
                    // An owner that lost its lease must not write.
                    return Err(ExecutionError::Stopped(StopReason::LeaseLost));
                }
                ModelAttemptOutcome::Stopped(why, charge) => {
                    self.record_interruption(&record, why.to_string(), charge)
                        .await?;
                    return Ok(ModelCallOutcome::End(ActorEnd::Stopped(why)));
                }
                ModelAttemptOutcome::Failed(error, charge) => {
                    let retry = self.run.services.decide_retry(attempt, &error);
                    self.record_failure(&record, &error, charge, &retry).await?;
                    if let Some(end) = self.after_failure(attempt, &error, retry).await? {
                        return Ok(ModelCallOutcome::End(end));
                    }
                }
            }
        }
    }

    /// Waits before the next attempt, or ends if there is none.
    async fn after_failure(
        &self,
        attempt: u32,
        error: &ModelError,
        retry: RetryDecision,
    ) -> Result<Option<ActorEnd>> {
        let delay = match retry {
            RetryDecision::After(delay) => delay,
            RetryDecision::GiveUp(GiveUpReason::RetryLater(delay)) => {
                return Ok(Some(wait_until(self.run, &*self.model, delay, error)));
            }
            RetryDecision::GiveUp(GiveUpReason::Permanent | GiveUpReason::Exhausted) => {
                let reason = format!("{}: {error}", self.model.facts().choice);
                return Ok(Some(ActorEnd::NoAnswer(reason)));
            }
        };
        let retry = Progress::ModelRetry {
            attempt,
            max_attempts: self.run.services.policy.retry.max_attempts.get(),
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            error: error.to_string(),
        };
        report(self.run, retry);
        Ok(pause(self.run, delay).await.map(ActorEnd::Stopped))
    }

    /// Waits while the circuit breaker is open.
    async fn wait_for_breaker(&mut self) -> Result<Option<ActorEnd>> {
        if self.permit.is_some() {
            // The permit is already held, perhaps as the breaker's trial call.
            return Ok(None);
        }
        let name = self.model.facts().choice.to_string();
        loop {
            let now = self.run.services.clock.now();
            match self.run.services.breaker.admit(&name, now) {
                Admission::Permit(permit) => {
                    self.permit = Some(permit);
                    return Ok(None);
                }
                // Polled in short steps: a success of another plan closes the breaker early.
                Admission::Open { until } => {
                    let micros = until.as_micros().saturating_sub(now.as_micros()).max(1);
                    let delay = Duration::from_micros(micros.unsigned_abs()).min(BREAKER_POLL);
                    if let Some(why) = pause(self.run, delay).await {
                        return Ok(Some(ActorEnd::Stopped(why)));
                    }
                }
            }
        }
    }

    /// Compacts the conversation to leave room for the answer. Ends the work if that is impossible.
    async fn compact_if_full(&mut self) -> Result<Option<ActorEnd>> {
        let facts = self.model.facts();
        let room = facts
            .context_tokens
            .saturating_sub(max_answer_tokens(&self.conversation, &*self.model));
        // An eighth stays free, because counts of unknown vocabularies are estimates.
        if self.conversation.tokens() <= room - room / 8 {
            return Ok(None);
        }
        // To a half, or the next turns would compact again, and each compaction loses the
        // provider's cache.
        if let Some(compacted) = self.conversation.compact(room / 2, &*self.model) {
            let payload = ConversationCompacted {
                conversation: self.conversation.key.to_string(),
                turn: self.conversation.turn,
                messages_before: compacted.messages_before as u64,
                messages_after: compacted.messages_after as u64,
                tokens_before: compacted.tokens_before,
                tokens_after: compacted.tokens_after,
            };
            self.run.append_event(payload).await?;
        }
        let tokens = self.conversation.tokens();
        if tokens <= room {
            return Ok(None);
        }
        let reason = format!(
            "the conversation has up to {tokens} tokens, and {} takes {room} beside its answer",
            facts.choice
        );
        self.record_error(ErrorCategory::Budget, &reason).await?;
        Ok(Some(ActorEnd::LimitReached(reason)))
    }

    async fn attempt(&mut self, record: &ModelCallRecord) -> Result<ModelAttemptOutcome> {
        let request = self.conversation.request(record.call.answer_limit);
        let mut stream = self.model.stream(request, record.ordinal);
        let mut builder = ModelAnswerBuilder::default();
        let mut masker = self.run.services.secrets.stream_masker();
        let mut stop = self.run.stop.clone();
        let failed = loop {
            let part = tokio::select! {
                // The stop signal first: a stream that always has a part ready must not hide it.
                biased;
                why = stop.wait_for(Option::is_some) => {
                    let why = stop_reason(why.ok().and_then(|why| *why));
                    let charge = Pricing::new(self).estimate_charge(builder.partial());
                    return Ok(ModelAttemptOutcome::Stopped(why, charge));
                }
                part = stream.next() => part,
            };
            match part {
                None => break None,
                Some(Err(error)) => break Some(error),
                Some(Ok(delta)) => {
                    if let Delta::Text(text) = &delta {
                        report_text(self.run, record, masker.push(text));
                    }
                    if let Err(error) = builder.push(delta) {
                        break Some(error);
                    }
                }
            }
        };
        // Closes the connection and returns the permit before the answer is recorded.
        drop(stream);
        report_text(self.run, record, masker.finish());
        let now = self.run.services.clock.now();
        let permit = self.permit.take();
        Ok(match failed.or_else(|| builder.check().err()) {
            None => {
                if let Some(permit) = permit {
                    permit.record_success(now);
                }
                ModelAttemptOutcome::Answered(builder.into_answer())
            }
            Some(mut error) => {
                if let Some(permit) = permit
                    && error.kind.is_transient()
                {
                    permit.record_failure(now);
                }
                // A provider may repeat what it was sent. The message is stored and displayed.
                error.message = self.run.services.secrets.mask(&error.message).into_owned();
                let charge = Pricing::new(self).failure_charge(&error, &builder);
                ModelAttemptOutcome::Failed(error, charge)
            }
        })
    }
}

/// Returns the stop reason. `None` means that the sender of the stop signal is gone.
fn stop_reason(why: Option<StopReason>) -> StopReason {
    why.unwrap_or(StopReason::Cancelled)
}

/// Makes the plan wait until the provider accepts requests again.
fn wait_until(run: &PlanRun, model: &dyn Model, delay: Duration, error: &ModelError) -> ActorEnd {
    let micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
    let now = run.services.clock.now().as_micros();
    let until = Timestamp::from_micros(now.saturating_add(micros));
    ActorEnd::Waiting {
        waiting: WaitReason::Until { until },
        reason: format!("{}: {error}", model.facts().choice),
    }
}

/// Sleeps, unless the owner must stop.
async fn pause(run: &PlanRun, delay: Duration) -> Option<StopReason> {
    let mut stop = run.stop.clone();
    tokio::select! {
        () = tokio::time::sleep(delay) => None,
        why = stop.wait_for(Option::is_some) => Some(stop_reason(why.ok().and_then(|why| *why))),
    }
}

/// Returns the maximum length of the answer, in tokens.
pub(super) fn max_answer_tokens(conversation: &Conversation, model: &dyn Model) -> u64 {
    let requested = conversation.options.max_tokens;
    requested.unwrap_or(model.facts().answer_tokens)
}

/// Reports text of the model whose secrets are masked.
fn report_text(run: &PlanRun, record: &ModelCallRecord, text: String) {
    if !text.is_empty() {
        let model_call = record.number;
        report(run, Progress::ModelText { model_call, text });
    }
}
