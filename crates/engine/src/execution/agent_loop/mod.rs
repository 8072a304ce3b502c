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
mod charge;
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
use cleveragents_domain::tool::control::ControlTool;
use cleveragents_domain::tool::{ToolAccess, ToolDefinition};
use cleveragents_domain::{ErrorCategory, MessageKind, NamespacedName, PlanMessage, WaitReason};
use serde_json::Value;

pub(crate) use conversation::request_items;
pub(in crate::execution) use prompt::{Guidance, InstructionText, PromptContext, opening_messages};
pub(in crate::execution) use recording::abandon_model_call;

use self::budget::budget;
use self::conversation::{Conversation, ConversationOpening};
use self::model_call::ModelCallOutcome;
use self::repetition::{RepetitionDetector, RepetitionVerdict};
use super::error::Result;
use super::llm_actor::LlmWork;
use super::plan_run::PlanRun;
use super::steps::{ActorEnd, StepWork};
use crate::actors::open_model;
use crate::breaker::Permit;
use crate::error_history::NewErrorRecord;
use cleveragents_ports::models::{Model, ModelError};

/// Maximum number of turns of one conversation.
const TURNS_MAXIMUM: u32 = 400;

/// Maximum number of consecutive unusable answers that are reported back to the model.
const UNUSABLE_ANSWERS_MAXIMUM: u32 = 2;

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

/// A running conversation.
struct AgentTurn<'a> {
    run: &'a PlanRun,
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
    permit: Option<Permit>,
}

/// Runs the loop until the model ends its task, resuming a saved conversation if there is one.
pub(in crate::execution) async fn run_agent_loop(
    llm_work: LlmWork<'_>,
    task: ModelTask,
    key: ConversationKey,
    messages: Vec<ModelMessage>,
) -> Result<AgentLoopEnd> {
    let LlmWork {
        run,
        actor,
        llm,
        work,
    } = llm_work;
    let services = &run.services;
    let model = match open_model(&*services.models, llm) {
        Ok(model) => model,
        Err(error) => return fail_without_model(run, &error.into()).await,
    };
    // Before the first request, because a cost that is unknown cannot be undone.
    if let Some(end) = check_price(run, &*model).await? {
        return Ok(AgentLoopEnd::Ended(end));
    }
    let tools = calls::tools_for(&*services.toolbox, llm, task);
    let offered = calls::offer_tools(&tools, &work.context.workspace);
    let opening = ConversationOpening {
        key,
        messages,
        tools: offered,
        options: llm.options.clone(),
    };
    // Built also for a resume: the tools that are offered now replace the stored ones.
    let fresh = Conversation::begin(opening, &*model, &services.secrets);
    let (conversation, pending) = restore_conversation(run, fresh, &*model).await?;
    let mut agent_turn = AgentTurn {
        run,
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
        permit: None,
    };
    agent_turn.restore_repetition();
    agent_turn.run_turns(pending).await
}

/// Returns the conversation with its saved messages, and the answer to handle next.
async fn restore_conversation(
    run: &PlanRun,
    fresh: Conversation,
    model: &dyn Model,
) -> Result<(Conversation, Option<ModelAnswer>)> {
    let (id, key) = (run.id(), fresh.key);
    let saved = run
        .services
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

/// Records an unavailable model as an error of the plan.
async fn fail_without_model(run: &PlanRun, error: &ModelError) -> Result<AgentLoopEnd> {
    let reason = error.to_string();
    run.record_error(NewErrorRecord::new(ErrorCategory::Resource, &reason))
        .await?;
    Ok(AgentLoopEnd::Ended(ActorEnd::NoAnswer(reason)))
}

/// Fails the plan if it has a budget in dollars and the model's price is unknown: the budget could
/// not be enforced.
async fn check_price(run: &PlanRun, model: &dyn Model) -> Result<Option<ActorEnd>> {
    let facts = model.facts();
    if budget(&run.plan).usd.is_none() || facts.price.is_some() {
        return Ok(None);
    }
    let reason = format!(
        "{} has no price, so a budget in USD cannot be kept: state one, 0 if it costs nothing",
        facts.choice
    );
    run.record_error(NewErrorRecord::new(ErrorCategory::Budget, &reason))
        .await?;
    Ok(Some(ActorEnd::LimitReached(reason)))
}

/// Whether the user has sent a message that was not delivered yet.
async fn has_user_reply(run: &PlanRun) -> Result<bool> {
    let plan = run.id();
    let pending: u64 = run
        .services
        .store
        .read(move |tx| tx.pending_messages(plan, &[MessageKind::Prompt]))
        .await?;
    Ok(pending > 0)
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
        // The last guard against a model that neither finishes nor repeats itself; budgets may be
        // unlimited.
        if self.conversation.turn >= TURNS_MAXIMUM {
            let reason = format!("the model took {TURNS_MAXIMUM} turns and did not finish");
            self.record_error(ErrorCategory::Budget, &reason).await?;
            return Ok(ModelCallOutcome::End(ActorEnd::LimitReached(reason)));
        }
        if let Some(question) = &self.question
            // Asked of the store: the reply may come through another process.
            && !has_user_reply(self.run).await?
        {
            return Ok(ModelCallOutcome::End(ActorEnd::Waiting {
                waiting: WaitReason::Answer { decision: None },
                reason: format!("The model asks: {question}"),
            }));
        }
        self.question = None;
        self.call_model().await
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
            // Tool calls are required, but not every server enforces it.
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
        // The note about a repetition is in the stored conversation already.
        self.repetition.reset_warnings();
    }
}

impl ModelTask {
    /// Returns the tool that ends the task.
    pub(in crate::execution) const fn final_tool(self) -> ControlTool {
        match self {
            Self::Strategize => ControlTool::SubmitStrategy,
            Self::Execute => ControlTool::Finish,
        }
    }

    /// Whether a tool may be used for the task.
    fn allows(self, tool: &ToolDefinition) -> bool {
        let control = ControlTool::from_name(&tool.name);
        match self {
            Self::Strategize => {
                tool.capability.access == ToolAccess::ReadOnly
                    && !matches!(
                        control,
                        Some(ControlTool::Finish | ControlTool::RecordDecision)
                    )
            }
            Self::Execute => control != Some(ControlTool::SubmitStrategy),
        }
    }
}
