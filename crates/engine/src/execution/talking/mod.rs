//! A conversation with a model that does a plan's work: it is asked, what it calls is called, it is
//! told what that gave, and so on until it says that it is done.
//!
//! Whatever was said is on record before the next thing is done. A process that goes on with the
//! work of a dead one takes the newest answer that stands, makes those of its calls that were not
//! made yet, and asks again: an answer that was paid for is never asked for twice. If the model was
//! asked since and no answer came, it is asked the very same: what humans said to the plan is in
//! there, and nobody says it again.

mod answering;
mod asking;
mod budget;
mod calls;
mod compaction;
mod conversation;
mod nearby;
mod opening;
mod recording;
mod repetition;

use std::sync::Arc;

use cleveragents_domain::model::{FinishReason, ModelAnswer, ModelMessage};
use cleveragents_domain::model_call::ConversationKey;
use cleveragents_domain::tool::{Access, ToolDefinition};
use cleveragents_domain::{
    ErrorCategory, LlmActor, MessageKind, NamespacedName, Plan, PlanMessage, Waiting,
};
use serde_json::Value;
use tokio::sync::watch;

pub(in crate::execution) use budget::budget;
pub(in crate::execution) use opening::{Guidance, Opening, Text, opening};
pub(in crate::execution) use recording::interrupt;

use self::asking::Asked;
use self::conversation::Conversation;
use self::repetition::{Repetition, Verdict};
use super::error::Result;
use super::executor::Executor;
use super::steps::{ActorEnd, StepWork};
use crate::breaker::Permit;
use crate::ports::Stopped;
use crate::ports::models::Model;
use crate::runs::RunLease;

/// How many turns one conversation may have.
const TURNS_MAXIMUM: u32 = 400;

/// How often in a row a model may be told that its answer cannot be used.
const REPAIRS_MAXIMUM: u32 = 2;

/// What a model is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::execution) enum Task {
    /// To find a strategy: it may look, not touch, and ends with `builtin/submit-strategy`.
    Strategize,
    /// To carry out a step: it ends with `builtin/finish`.
    Execute,
}

/// How a conversation ended.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::execution) enum TalkEnd {
    /// What the model handed in, by the call that ends its task.
    Done(Value),
    Ended(ActorEnd),
}

/// Who talks about what.
pub(in crate::execution) struct Subject<'a> {
    pub(in crate::execution) run: &'a RunLease,
    pub(in crate::execution) plan: &'a Plan,
    pub(in crate::execution) actor: &'a NamespacedName,
    pub(in crate::execution) llm: &'a LlmActor,
    pub(in crate::execution) task: Task,
    pub(in crate::execution) key: ConversationKey,
    pub(in crate::execution) stop: watch::Receiver<Option<Stopped>>,
}

/// A conversation that is being held.
struct Talk<'a> {
    executor: &'a Executor,
    run: &'a RunLease,
    plan: &'a Plan,
    actor: &'a NamespacedName,
    task: Task,
    model: Arc<dyn Model>,
    tools: Vec<ToolDefinition>,
    work: &'a StepWork<'a>,
    conversation: Conversation,
    repetition: Repetition,
    /// How often in a row an answer could not be used.
    repairs: u32,
    /// What the model asked the user; it goes on only with an answer.
    question: Option<String>,
    /// What the model is told after this turn's results.
    told_after: Vec<String>,
    stop: watch::Receiver<Option<Stopped>>,
    permit: Option<Permit>,
}

impl Executor {
    /// Holds the conversation until the model is done with its task, from where it stands.
    pub(in crate::execution) async fn talk(
        &self,
        subject: Subject<'_>,
        work: &StepWork<'_>,
        messages: Vec<ModelMessage>,
    ) -> Result<TalkEnd> {
        let Subject {
            run,
            plan,
            actor,
            llm,
            task,
            key,
            stop,
        } = subject;
        let model = match self.model_of(llm) {
            Ok(model) => model,
            Err(error) => return self.no_model(run, &error).await,
        };
        if let Some(end) = self.unpriced(run, plan, &*model).await? {
            return Ok(TalkEnd::Ended(end));
        }
        let tools = self.tools_for(llm, task);
        let offered = calls::offered(&tools, work.workspace);
        let voices = (&*model, &self.secrets);
        let fresh = Conversation::begin(key, messages, offered, llm.options.clone(), voices);
        let (conversation, pending) = self.where_it_stands(plan, fresh, &*model).await?;
        let mut talk = Talk {
            executor: self,
            run,
            plan,
            actor,
            task,
            model,
            tools,
            work,
            conversation,
            repetition: Repetition::default(),
            repairs: 0,
            question: None,
            told_after: Vec::new(),
            stop,
            permit: None,
        };
        talk.remember();
        talk.hold(pending).await
    }

    /// The conversation with all that was said in it before, and the answer that is to be heeded
    /// next.
    async fn where_it_stands(
        &self,
        plan: &Plan,
        fresh: Conversation,
        model: &dyn Model,
    ) -> Result<(Conversation, Option<ModelAnswer>)> {
        let (id, key) = (plan.identity.plan_id, fresh.key);
        let saved = self
            .store
            .read(move |unit| {
                let newest = unit.newest_model_call(id, &key)?;
                newest
                    .map(|call| conversation::saved(unit, &call))
                    .transpose()
            })
            .await?;
        Ok(match saved {
            None => (fresh, None),
            Some(saved) => fresh.resume(saved, model),
        })
    }
}

impl Talk<'_> {
    async fn hold(&mut self, pending: Option<ModelAnswer>) -> Result<TalkEnd> {
        let mut pending = pending;
        loop {
            let answer = match pending.take() {
                Some(answer) => answer,
                None => match self.next_answer().await? {
                    Asked::Answer(answer) => answer,
                    Asked::End(end) => return Ok(TalkEnd::Ended(end)),
                },
            };
            if let Some(end) = self.take(answer).await? {
                return Ok(end);
            }
        }
    }

    async fn next_answer(&mut self) -> Result<Asked> {
        if self.conversation.turn >= TURNS_MAXIMUM {
            let reason = format!("the model took {TURNS_MAXIMUM} turns and did not come to an end");
            self.trouble(ErrorCategory::Budget, &reason).await?;
            return Ok(Asked::End(ActorEnd::Limit(reason)));
        }
        if let Some(question) = &self.question
            && !self.is_answered().await?
        {
            return Ok(Asked::End(ActorEnd::Waits {
                waiting: Waiting::Answer { decision: None },
                reason: format!("The model asks: {question}"),
            }));
        }
        self.question = None;
        self.ask().await
    }

    /// Whether a human has said something that nobody heard yet.
    async fn is_answered(&self) -> Result<bool> {
        let plan = self.plan.identity.plan_id;
        let pending: u64 = self
            .executor
            .store
            .read(move |unit| unit.pending_messages(plan, &[MessageKind::Prompt]))
            .await?;
        Ok(pending > 0)
    }

    /// Does what an answer asks for.
    async fn take(&mut self, answer: ModelAnswer) -> Result<Option<TalkEnd>> {
        let calls = self.conversation.answer(&answer, &*self.model);
        if calls.is_empty() {
            return self.without_calls(&answer).await;
        }
        if let Some(end) = self.make_calls(calls).await? {
            return Ok(Some(end));
        }
        match self.repetition.turn() {
            Verdict::Stop(reason) => Ok(Some(self.stopped_for(reason).await?)),
            Verdict::GoOn | Verdict::Tell(_) => Ok(None),
        }
    }

    /// An answer that calls nothing brings nothing on: the model is told so, and then it is over.
    async fn without_calls(&mut self, answer: &ModelAnswer) -> Result<Option<TalkEnd>> {
        let why = match answer.finish {
            FinishReason::Length => "Your answer was cut off because it was too long.",
            _ => "Your answer called no tool.",
        };
        let end = self.task.ends_with();
        self.repair(format!(
            "{why} Go on with a tool, or call {end} if you are done."
        ))
        .await
    }

    /// Tells the model what was wrong, unless it was told too often.
    async fn repair(&mut self, words: String) -> Result<Option<TalkEnd>> {
        self.repairs += 1;
        if self.repairs > REPAIRS_MAXIMUM {
            let reason = format!(
                "the model's answers cannot be used, {} times in a row: {words}",
                self.repairs
            );
            self.trouble(ErrorCategory::ModelOutput, &reason).await?;
            return Ok(Some(TalkEnd::Ended(ActorEnd::Failed(reason))));
        }
        self.trouble(ErrorCategory::ModelOutput, &words).await?;
        self.say(words);
        Ok(None)
    }

    async fn stopped_for(&self, reason: String) -> Result<TalkEnd> {
        self.trouble(ErrorCategory::ModelOutput, &reason).await?;
        Ok(TalkEnd::Ended(ActorEnd::Failed(reason)))
    }

    fn say(&mut self, text: String) {
        self.conversation
            .say(ModelMessage::User { text }, &*self.model);
    }

    /// Tells the model what humans said.
    fn hear(&mut self, words: &[PlanMessage]) {
        for word in words {
            self.say(format!("{}{}", compaction::HUMAN, word.body));
        }
    }

    /// What was repeated before somebody went on is repeated all the same.
    fn remember(&mut self) {
        for (call, result) in self.conversation.past_calls() {
            self.repetition.note(&call.tool, &call.arguments, result);
        }
        self.repetition.forgive();
    }
}

impl Task {
    /// The tool that ends it.
    pub(in crate::execution) const fn ends_with(self) -> &'static str {
        match self {
            Self::Strategize => cleveragents_domain::tool::talk::SUBMIT_STRATEGY,
            Self::Execute => cleveragents_domain::tool::talk::FINISH,
        }
    }

    /// Whether a tool may be used for it.
    fn allows(self, tool: &ToolDefinition) -> bool {
        use cleveragents_domain::tool::talk;
        let name = tool.name.to_string();
        match self {
            Self::Strategize => {
                tool.capability.access == Access::ReadOnly
                    && name != talk::FINISH
                    && name != talk::RECORD_DECISION
            }
            Self::Execute => name != talk::SUBMIT_STRATEGY,
        }
    }
}
