//! The agent loop: calls the model, makes the tool calls it asks for, returns the results, and
//! repeats until the model ends its task.
//!
//! Every message is recorded before the next action. A process that resumes the work of a dead one
//! takes the newest valid answer, makes the calls that are missing, and calls the model again: a
//! paid answer is never requested twice. If a model call has no answer, the same request is sent
//! again, because it contains the user's messages, which are delivered only once.

mod answer_builder;
mod budget;
mod calls;
mod compaction;
mod conversation;
mod model_call;
mod nearby_instructions;
mod prompt;
mod recording;
mod repetition;

use std::sync::Arc;

use cleveragents_domain::model::{FinishReason, ModelAnswer, ModelMessage};
use cleveragents_domain::model_call::ConversationKey;
use cleveragents_domain::tool::{ToolAccess, ToolDefinition};
use cleveragents_domain::{
    ErrorCategory, LlmActor, MessageKind, NamespacedName, Plan, PlanMessage, WaitReason,
};
use serde_json::Value;
use tokio::sync::watch;

pub(in crate::execution) use budget::budget;
pub(in crate::execution) use prompt::{Guidance, InstructionText, PromptContext, opening_messages};
pub(in crate::execution) use recording::interrupt_model_call;

use self::conversation::Conversation;
use self::model_call::ModelCallOutcome;
use self::repetition::{RepetitionDetector, RepetitionVerdict};
use super::error::Result;
use super::executor::Executor;
use super::steps::{ActorEnd, StepWork};
use crate::breaker::Permit;
use crate::runs::RunLease;
use cleveragents_ports::StopReason;
use cleveragents_ports::models::Model;

/// Maximum number of turns of one conversation.
const TURNS_MAXIMUM: u32 = 400;

/// Maximum number of consecutive unusable answers that are reported back to the model.
const UNUSABLE_ANSWERS_MAXIMUM: u32 = 2;

/// The task of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::execution) enum ModelTask {
    /// Find a strategy. Only read-only tools are allowed; `builtin/submit-strategy` ends it.
    Strategize,
    /// Run a step. `builtin/finish` ends it.
    Execute,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::execution) enum AgentLoopEnd {
    /// The input of the call that ended the task.
    Done(Value),
    Ended(ActorEnd),
}

pub(in crate::execution) struct AgentLoopContext<'a> {
    pub(in crate::execution) run: &'a RunLease,
    pub(in crate::execution) plan: &'a Plan,
    pub(in crate::execution) actor: &'a NamespacedName,
    pub(in crate::execution) llm: &'a LlmActor,
    pub(in crate::execution) task: ModelTask,
    pub(in crate::execution) key: ConversationKey,
    pub(in crate::execution) stop: watch::Receiver<Option<StopReason>>,
}

/// A running conversation.
struct AgentTurn<'a> {
    executor: &'a Executor,
    run: &'a RunLease,
    plan: &'a Plan,
    actor: &'a NamespacedName,
    task: ModelTask,
    model: Arc<dyn Model>,
    tools: Vec<ToolDefinition>,
    work: &'a StepWork<'a>,
    conversation: Conversation,
    repetition: RepetitionDetector,
    /// Number of consecutive unusable answers.
    unusable_answers: u32,
    /// A question to the user. The loop continues only with a reply.
    question: Option<String>,
    /// Notes for the model, added after the results of this turn.
    pending_notes: Vec<String>,
    stop: watch::Receiver<Option<StopReason>>,
    permit: Option<Permit>,
}

impl Executor {
    /// Runs the loop until the model ends its task, resuming a saved conversation if there is one.
    pub(in crate::execution) async fn run_agent_loop(
        &self,
        loop_context: AgentLoopContext<'_>,
        work: &StepWork<'_>,
        messages: Vec<ModelMessage>,
    ) -> Result<AgentLoopEnd> {
        let AgentLoopContext {
            run,
            plan,
            actor,
            llm,
            task,
            key,
            stop,
        } = loop_context;
        let model = match self.model_of(llm) {
            Ok(model) => model,
            Err(error) => return self.fail_without_model(run, &error).await,
        };
        if let Some(end) = self.check_price(run, plan, &*model).await? {
            return Ok(AgentLoopEnd::Ended(end));
        }
        let tools = self.tools_for(llm, task);
        let offered = calls::offer_tools(&tools, work.workspace);
        let model_and_secrets = (&*model, &self.secrets);
        let fresh = Conversation::begin(
            key,
            messages,
            offered,
            llm.options.clone(),
            model_and_secrets,
        );
        let (conversation, pending) = self.restore_conversation(plan, fresh, &*model).await?;
        let mut agent_turn = AgentTurn {
            executor: self,
            run,
            plan,
            actor,
            task,
            model,
            tools,
            work,
            conversation,
            repetition: RepetitionDetector::default(),
            unusable_answers: 0,
            question: None,
            pending_notes: Vec::new(),
            stop,
            permit: None,
        };
        agent_turn.restore_repetition();
        agent_turn.run_turns(pending).await
    }

    /// Returns the conversation with its saved messages, and the answer to handle next.
    async fn restore_conversation(
        &self,
        plan: &Plan,
        fresh: Conversation,
        model: &dyn Model,
    ) -> Result<(Conversation, Option<ModelAnswer>)> {
        let (id, key) = (plan.identity.plan_id, fresh.key);
        let saved = self
            .store
            .read(move |tx| {
                let newest = tx.newest_model_call(id, &key)?;
                newest
                    .map(|call| conversation::load_conversation(tx, &call))
                    .transpose()
            })
            .await?;
        Ok(match saved {
            None => (fresh, None),
            Some(saved) => fresh.resume(saved, model),
        })
    }
}

impl AgentTurn<'_> {
    async fn run_turns(&mut self, pending: Option<ModelAnswer>) -> Result<AgentLoopEnd> {
        let mut pending = pending;
        loop {
            let answer = match pending.take() {
                Some(answer) => answer,
                None => match self.next_answer().await? {
                    ModelCallOutcome::Answer(answer) => answer,
                    ModelCallOutcome::End(end) => return Ok(AgentLoopEnd::Ended(end)),
                },
            };
            if let Some(end) = self.handle_answer(answer).await? {
                return Ok(end);
            }
        }
    }

    async fn next_answer(&mut self) -> Result<ModelCallOutcome> {
        if self.conversation.turn >= TURNS_MAXIMUM {
            let reason = format!("the model took {TURNS_MAXIMUM} turns and did not finish");
            self.record_error(ErrorCategory::Budget, &reason).await?;
            return Ok(ModelCallOutcome::End(ActorEnd::LimitReached(reason)));
        }
        if let Some(question) = &self.question
            && !self.has_user_reply().await?
        {
            return Ok(ModelCallOutcome::End(ActorEnd::Waiting {
                waiting: WaitReason::Answer { decision: None },
                reason: format!("The model asks: {question}"),
            }));
        }
        self.question = None;
        self.call_model().await
    }

    /// Whether the user has sent a message that was not delivered yet.
    async fn has_user_reply(&self) -> Result<bool> {
        let plan = self.plan.identity.plan_id;
        let pending: u64 = self
            .executor
            .store
            .read(move |tx| tx.pending_messages(plan, &[MessageKind::Prompt]))
            .await?;
        Ok(pending > 0)
    }

    /// Makes the calls of an answer.
    async fn handle_answer(&mut self, answer: ModelAnswer) -> Result<Option<AgentLoopEnd>> {
        let calls = self.conversation.add_answer(&answer, &*self.model);
        if calls.is_empty() {
            return self.handle_no_calls(&answer).await;
        }
        if let Some(end) = self.make_calls(calls).await? {
            return Ok(Some(end));
        }
        match self.repetition.end_turn() {
            RepetitionVerdict::Stop(reason) => Ok(Some(self.fail_with(reason).await?)),
            RepetitionVerdict::Continue | RepetitionVerdict::Warn(_) => Ok(None),
        }
    }

    /// Handles an answer without calls: reports it to the model, and ends the work if that happens
    /// too often.
    async fn handle_no_calls(&mut self, answer: &ModelAnswer) -> Result<Option<AgentLoopEnd>> {
        let why = match answer.finish {
            FinishReason::Length => "Your answer was cut off because it was too long.",
            _ => "Your answer called no tool.",
        };
        let end = self.task.final_tool();
        self.report_unusable(format!(
            "{why} Continue with a tool, or call {end} if you are done."
        ))
        .await
    }

    /// Reports an unusable answer to the model, or ends the work if there were too many.
    async fn report_unusable(&mut self, message: String) -> Result<Option<AgentLoopEnd>> {
        self.unusable_answers += 1;
        if self.unusable_answers > UNUSABLE_ANSWERS_MAXIMUM {
            let reason = format!(
                "the model's answers cannot be used, {} times in a row: {message}",
                self.unusable_answers
            );
            self.record_error(ErrorCategory::ModelOutput, &reason)
                .await?;
            return Ok(Some(AgentLoopEnd::Ended(ActorEnd::Failed(reason))));
        }
        self.record_error(ErrorCategory::ModelOutput, &message)
            .await?;
        self.add_user_text(message);
        Ok(None)
    }

    async fn fail_with(&self, reason: String) -> Result<AgentLoopEnd> {
        self.record_error(ErrorCategory::ModelOutput, &reason)
            .await?;
        Ok(AgentLoopEnd::Ended(ActorEnd::Failed(reason)))
    }

    fn add_user_text(&mut self, text: String) {
        self.conversation
            .add_message(ModelMessage::User { text }, &*self.model);
    }

    /// Adds the user's messages to the conversation.
    fn add_plan_messages(&mut self, messages: &[PlanMessage]) {
        for message in messages {
            self.add_user_text(format!("{}{}", compaction::USER_PREFIX, message.body));
        }
    }

    /// Replays past calls into the repetition detector after a resume.
    fn restore_repetition(&mut self) {
        for (call, result) in self.conversation.past_calls() {
            self.repetition
                .record_call(&call.tool, &call.arguments, result);
        }
        self.repetition.reset_warnings();
    }
}

impl ModelTask {
    /// Returns the tool that ends the task.
    pub(in crate::execution) const fn final_tool(self) -> &'static str {
        match self {
            Self::Strategize => cleveragents_domain::tool::control::SUBMIT_STRATEGY,
            Self::Execute => cleveragents_domain::tool::control::FINISH,
        }
    }

    /// Whether a tool may be used for the task.
    fn allows(self, tool: &ToolDefinition) -> bool {
        use cleveragents_domain::tool::control;
        let name = tool.name.to_string();
        match self {
            Self::Strategize => {
                tool.capability.access == ToolAccess::ReadOnly
                    && name != control::FINISH
                    && name != control::RECORD_DECISION
            }
            Self::Execute => name != control::SUBMIT_STRATEGY,
        }
    }
}
