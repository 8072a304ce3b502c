//! Asking a model: what it may cost is reserved, then it is asked, then what came is on record.
//! What fails and may pass is tried again, each time on record by itself.

use std::time::Duration;

use cleveragents_domain::model::{ModelAnswer, Usage};
use cleveragents_domain::model_call::{ModelCallRecord, Spent};
use cleveragents_domain::{ErrorCategory, EventKind, PlanMessage, Timestamp, Waiting};
use futures_util::StreamExt;
use serde_json::json;

use super::Talk;
use super::answering::Answering;
use super::recording::{Begun, Unbegun};
use crate::actors::asking::dice;
use crate::breaker::Admission;
use crate::execution::error::{ExecutionError, Result};
use crate::execution::executor::Executor;
use crate::execution::steps::ActorEnd;
use crate::ports::Stopped;
use crate::ports::models::ModelError;
use crate::retry::{Again, GiveUp};

/// How long at most one waits before it looks whether the model is asked again: another may have
/// tried with success long before the time is up.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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

impl Executor {
    /// What is done about an attempt that failed.
    fn try_again(&self, attempt: u32, error: &ModelError) -> Again {
        let random = dice(&*self.ids);
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
            let stop = *self.stop.borrow();
            match stop {
                // Nothing is reserved for what will not be asked.
                Some(Stopped::LeaseLost) => {
                    return Err(ExecutionError::Stopped(Stopped::LeaseLost));
                }
                Some(why) => return Ok(Asked::End(ActorEnd::Stopped(why))),
                None => {}
            }
            let staged = self.conversation.stage(&self.executor.store).await?;
            let record = match self.begin(&staged, &heard).await {
                Ok(Begun::Go(record)) => *record,
                Ok(Begun::Budget(reason)) => {
                    let waiting = Waiting::Budget;
                    return Ok(Asked::End(ActorEnd::Waits { waiting, reason }));
                }
                Err(Unbegun::Words(words)) => {
                    let known = |it: &&PlanMessage| heard.iter().all(|known| known.id != it.id);
                    let more: Vec<PlanMessage> = words.iter().filter(known).cloned().collect();
                    self.hear(&more);
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
                Tried::Stopped(Stopped::LeaseLost) => {
                    // One that lost its plan writes nothing.
                    return Err(ExecutionError::Stopped(Stopped::LeaseLost));
                }
                Tried::Stopped(why) => {
                    self.interrupted(&record, why.to_string()).await?;
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
                return Ok(Some(ActorEnd::NoAnswer(reason)));
            }
        };
        Ok(self.pause(patience).await.map(ActorEnd::Stopped))
    }

    /// The plan waits until the provider wants to be asked again.
    fn until(&self, patience: Duration, error: &ModelError) -> ActorEnd {
        let micros = i64::try_from(patience.as_micros()).unwrap_or(i64::MAX);
        let now = self.executor.clock.now().as_micros();
        let until = Timestamp::from_micros(now.saturating_add(micros));
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
        if self.permit.is_some() {
            // It is let through already, perhaps as the one that tries.
            return Ok(None);
        }
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
                    let patience = Duration::from_micros(micros.unsigned_abs()).min(LOOK_AGAIN);
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
    pub(super) fn reservation(&self) -> Spent {
        let usage = Usage {
            input_tokens: self.conversation.tokens(),
            output_tokens: self.answer_tokens(),
            ..Usage::default()
        };
        // What is written to a vendor's cache may cost more than what is only read.
        let cached = Usage {
            cache_written_tokens: usage.input_tokens,
            ..usage
        };
        let (plain, cached) = (self.cost(&usage), self.cost(&cached));
        Spent {
            usd: plain.usd.max(cached.usd),
            ..plain
        }
    }

    pub(super) fn cost(&self, usage: &Usage) -> Spent {
        let price = self.model.facts().price;
        Spent {
            tokens: usage.input_tokens + usage.output_tokens,
            usd: price.map_or(0.0, |price| price.of(usage)),
        }
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
}

/// The word to stop; none means that whoever gives it is gone.
fn told(why: Option<Stopped>) -> Stopped {
    why.unwrap_or(Stopped::Cancelled)
}
