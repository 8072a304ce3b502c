//! Makes the calls of one answer: read-only calls in parallel, writing calls one after the other,
//! in the order of the answer.

use cleveragents_domain::automation::guards::Approval;
use cleveragents_domain::model::{ModelMessage, OfferedTool, RequestedToolCall};
use cleveragents_domain::model_call::ConversationKey;
use cleveragents_domain::tool::control::{self, ControlTool, Question, StatedDecision};
use cleveragents_domain::tool::{ToolAccess, ToolDefinition};
use cleveragents_domain::{DecisionType, LlmActor, NamespacedName};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::model_call::max_answer_tokens;
use super::repetition::RepetitionVerdict;
use super::{AgentLoopEnd, AgentTurn, ModelTask};
use crate::decisions::DecisionDraft;
use crate::execution::error::Result;
use crate::execution::plan_run::{PlanRun, model_context, stated_draft};
use crate::execution::runner::{CallOutcome, CompletedCall, RefusalKind, ToolRefusal, ToolRequest};
use crate::execution::steps::{ActorEnd, StepWork};
use crate::execution::workspace::Workspace;
use cleveragents_ports::StoreError;
use cleveragents_ports::tools::Toolbox;

/// Maximum size of a result for the model, in bytes. The middle of a longer one is cut out.
const RESULT_MAXIMUM: usize = 64 << 10;

/// Minimum size of a result for the model, even if there is little room.
const RESULT_MINIMUM: usize = 512;

/// Input key that names the resource of a call, if a plan has several.
pub(super) const RESOURCE_KEY: &str = "resource";

/// Returns the tools a model may use for its task.
pub(super) fn tools_for(
    toolbox: &dyn Toolbox,
    llm: &LlmActor,
    task: ModelTask,
) -> Vec<ToolDefinition> {
    let ends = Some(task.final_tool());
    let listed = |tool: &&ToolDefinition| match &llm.tools {
        None => true,
        // Without the tool that ends the task the loop could never end.
        Some(names) => names.contains(&tool.name) || ControlTool::from_name(&tool.name) == ends,
    };
    toolbox
        .definitions()
        .into_iter()
        .filter(|tool| task.allows(tool))
        .filter(listed)
        .cloned()
        .collect()
}

/// Returns the tools as offered to the model.
pub(super) fn offer_tools(tools: &[ToolDefinition], workspace: &Workspace) -> Vec<OfferedTool> {
    let resources: Vec<String> = workspace
        .sandboxes
        .iter()
        .map(|handle| handle.resource.to_string())
        .collect();
    let offer = |tool: &ToolDefinition| {
        let mut schema = tool.input_schema.clone();
        if resources.len() > 1
            && !control::is_control_tool(&tool.name)
            && let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut)
        {
            let property = json!({
                "type": "string",
                "enum": resources,
                "description": "The resource of the plan that the call works in",
            });
            properties.insert(RESOURCE_KEY.to_owned(), property);
            if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
                required.push(json!(RESOURCE_KEY));
            } else {
                schema["required"] = json!([RESOURCE_KEY]);
            }
        }
        OfferedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: schema,
        }
    };
    tools.iter().map(offer).collect()
}

impl AgentTurn<'_> {
    /// Makes the calls and adds their results to the conversation.
    pub(super) async fn make_calls(
        &mut self,
        calls: Vec<RequestedToolCall>,
    ) -> Result<Option<AgentLoopEnd>> {
        let mut usable = false;
        let max_bytes = self.max_result_bytes(calls.len());
        for group in self.tool_caller().group_calls(calls) {
            if self.question.is_some() {
                self.postpone_calls(group);
                continue;
            }
            let caller = self.tool_caller();
            // All calls of the group finish, even if one fails: each is recorded, so each needs a
            // result.
            let results = join_all(group.iter().map(|call| caller.make_call(call))).await;
            self.queue_nearby_instructions(&group).await?;
            for (call, result) in group.into_iter().zip(results) {
                let CallResult {
                    text,
                    end,
                    accepted,
                } = result?;
                usable |= accepted;
                // Truncated for the model only. The record keeps the whole output.
                let text = truncate_middle(&text, max_bytes);
                let verdict = self
                    .repetition
                    .record_call(&call.tool, &call.arguments, &text);
                let message = ModelMessage::Tool {
                    call: call.place,
                    text,
                };
                self.conversation.add_message(message, &*self.model);
                if call.tool.parse() == Ok(ControlTool::AskUser) && accepted {
                    let question = serde_json::from_str::<Question>(&call.arguments);
                    self.question = Some(question.map(|it| it.question).unwrap_or_default());
                }
                if end.is_some() {
                    return Ok(end);
                }
                match verdict {
                    RepetitionVerdict::Continue => {}
                    RepetitionVerdict::Warn(note) => self.pending_notes.push(note),
                    RepetitionVerdict::Stop(reason) => {
                        return Ok(Some(self.fail_with(reason).await?));
                    }
                }
            }
        }
        for note in std::mem::take(&mut self.pending_notes) {
            self.add_user_text(note);
        }
        if usable {
            self.unusable_answers = 0;
            return Ok(None);
        }
        // No call was usable. The result of each call already says what was wrong with it.
        self.unusable_answers += 1;
        if self.unusable_answers <= super::UNUSABLE_ANSWERS_MAXIMUM {
            return Ok(None);
        }
        let reason = format!(
            "none of the model's calls could be used, {} times in a row",
            self.unusable_answers
        );
        Ok(Some(self.fail_with(reason).await?))
    }

    fn tool_caller(&self) -> ToolCaller<'_> {
        ToolCaller {
            run: self.run,
            actor: self.actor,
            task: self.task,
            tools: &self.tools,
            work: self.work,
            conversation: self.conversation.key,
        }
    }

    /// Answers calls that follow a question without making them: they may depend on the user's
    /// reply.
    fn postpone_calls(&mut self, group: Vec<RequestedToolCall>) {
        for call in group {
            let text = "Not made: the user was asked first. Repeat the call if it is still needed.";
            let message = ModelMessage::Tool {
                call: call.place,
                text: text.to_owned(),
            };
            self.conversation.add_message(message, &*self.model);
        }
    }

    /// Returns the maximum result size for each of `calls` calls. Together they get one byte per
    /// token of the model's context, about a third of it.
    fn max_result_bytes(&self, calls: usize) -> usize {
        let room = self.model.facts().context_tokens;
        let room = room.saturating_sub(max_answer_tokens(&self.conversation, &*self.model));
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        (room / calls.max(1)).clamp(RESULT_MINIMUM, RESULT_MAXIMUM)
    }
}

/// Makes the calls of one answer. Calls that only read may be made in parallel.
struct ToolCaller<'a> {
    run: &'a PlanRun,
    actor: &'a NamespacedName,
    task: ModelTask,
    tools: &'a [ToolDefinition],
    work: &'a StepWork<'a>,
    conversation: ConversationKey,
}

impl ToolCaller<'_> {
    /// Groups calls that may run in parallel, in the order of the answer.
    fn group_calls(&self, calls: Vec<RequestedToolCall>) -> Vec<Vec<RequestedToolCall>> {
        let mut groups: Vec<Vec<RequestedToolCall>> = Vec::new();
        let mut open = false;
        for call in calls {
            let reads = self.is_read_only(&call);
            match groups.last_mut() {
                Some(group) if open && reads => group.push(call),
                _ => groups.push(vec![call]),
            }
            // A writing call closes the group: later reads must see its changes.
            open = reads;
        }
        groups
    }

    /// Whether a call only reads and does not end the task.
    fn is_read_only(&self, call: &RequestedToolCall) -> bool {
        let tool = self
            .tools
            .iter()
            .find(|it| it.name.to_string() == call.tool);
        tool.is_some_and(|it| {
            it.capability.access == ToolAccess::ReadOnly && !control::is_control_tool(&it.name)
        })
    }

    async fn make_call(&self, call: &RequestedToolCall) -> Result<CallResult> {
        let (request, resource) = match self.parse_call(call) {
            Ok(understood) => understood,
            Err(refused) => {
                let (request, refusal) = *refused;
                return self.refuse_call(&request, refusal).await;
            }
        };
        let handle = match self.work.context.workspace.sandbox(resource.as_ref()) {
            Ok(handle) => handle,
            // Control tools use no sandbox, so any one will do.
            Err(_)
                if control::is_control_tool(&request.tool)
                    && !self.work.context.workspace.sandboxes.is_empty() =>
            {
                &self.work.context.workspace.sandboxes[0]
            }
            Err(refusal) => return self.refuse_call(&request, refusal).await,
        };
        // The input of a control tool is stored and shown to others, so mask secrets.
        let input = self.work.runner.mask(&request.input);
        let tool = ControlTool::from_name(&request.tool);
        Ok(match self.work.call_or_reuse(handle, request).await? {
            CallOutcome::Completed(CompletedCall { record, .. }) => {
                if tool == Some(ControlTool::RecordDecision) {
                    self.record_decision(&input).await?;
                }
                let output = record.output.clone().unwrap_or(Value::Null);
                CallResult {
                    text: output.to_string(),
                    // Taken from the recorded call, so that a resumed task ends with the same
                    // input.
                    end: (tool == Some(self.task.final_tool()))
                        .then_some(AgentLoopEnd::Done(input)),
                    accepted: true,
                }
            }
            CallOutcome::Failed(record) => CallResult {
                text: failure_text(
                    record.error.as_deref().unwrap_or_default(),
                    record.output.as_ref(),
                ),
                end: None,
                accepted: true,
            },
            CallOutcome::Stopped(why) => CallResult::ended(ActorEnd::Stopped(why)),
            CallOutcome::Refused(refusal) => match refusal.kind {
                RefusalKind::NeedsApproval => CallResult::ended(ActorEnd::Waiting {
                    waiting: cleveragents_domain::WaitReason::Approval { decision: None },
                    reason: refusal.reason,
                }),
                RefusalKind::Limit => CallResult::ended(ActorEnd::LimitReached(refusal.reason)),
                _ => CallResult::unusable(&refusal.reason),
            },
        })
    }

    async fn refuse_call(&self, request: &ToolRequest, refusal: ToolRefusal) -> Result<CallResult> {
        let runner = &self.work.runner;
        let refusal = runner.refuse(&self.run.plan, request, refusal).await?;
        Ok(CallResult::unusable(&refusal.reason))
    }

    /// Records a decision that the model made while it worked.
    async fn record_decision(&self, input: &Value) -> Result<()> {
        let Some(parent) = self.work.runner.decision else {
            return Ok(());
        };
        let stated: StatedDecision =
            serde_json::from_value(input.clone()).map_err(StoreError::internal)?;
        let workspace = &self.work.context.workspace;
        let stated = DecisionDraft {
            context: model_context(self.run, self.conversation, workspace).await?,
            ..stated_draft(parent, DecisionType::ImplementationChoice, stated)
        };
        self.run.record_decision_once(stated, None).await?;
        Ok(())
    }

    /// Parses a call, or returns why it is invalid.
    fn parse_call(
        &self,
        call: &RequestedToolCall,
    ) -> std::result::Result<ParsedCall, Box<CallParseError>> {
        let request = |tool: NamespacedName, input: Value| ToolRequest {
            tool,
            input,
            actor: self.actor.clone(),
            step: Some(self.conversation.step),
            turn: self.work.first_turn + call.place.turn,
            slot: call.place.slot,
            approval: Approval::Missing,
        };
        let refused = |tool: NamespacedName, kind, reason: String| {
            Box::new((request(tool, json!({})), ToolRefusal { kind, reason }))
        };
        let known = self
            .tools
            .iter()
            .find(|it| it.name.to_string() == call.tool);
        let Some(tool) = known.map(|it| it.name.clone()) else {
            // A model may invent a name of any length.
            let shown: String = call.tool.chars().take(80).collect();
            let name = call.tool.parse();
            let name = name.unwrap_or_else(|_| NamespacedName::in_namespace("unknown", "tool"));
            let reason = format!("there is no tool `{shown}` for this task");
            return Err(refused(name, RefusalKind::UnknownTool, reason));
        };
        let mut input: Value = match call.arguments.trim() {
            // Some servers send no arguments at all for a call without parameters.
            "" => json!({}),
            text => serde_json::from_str(text).map_err(|error| {
                let reason = format!("the arguments of {tool} are not JSON: {error}");
                refused(tool.clone(), RefusalKind::Input, reason)
            })?,
        };
        let several =
            self.work.context.workspace.sandboxes.len() > 1 && !control::is_control_tool(&tool);
        let resource = match (several, input.as_object_mut()) {
            // Removed, because the tool's own schema does not know this key.
            (true, Some(input)) => input.remove(RESOURCE_KEY),
            _ => None,
        };
        let resource = match resource {
            None => None,
            Some(name) => {
                let parsed = name.as_str().and_then(|name| name.parse().ok());
                let reason = || format!("`{RESOURCE_KEY}` must name one of the plan's resources");
                let refuse = || refused(tool.clone(), RefusalKind::Resource, reason());
                Some(parsed.ok_or_else(refuse)?)
            }
        };
        Ok((request(tool, input), resource))
    }
}

/// A valid call, and the resource it names.
type ParsedCall = (ToolRequest, Option<NamespacedName>);

/// An invalid call as far as it could be parsed, and what is wrong with it.
type CallParseError = (ToolRequest, ToolRefusal);

struct CallResult {
    /// The result for the model.
    text: String,
    end: Option<AgentLoopEnd>,
    /// Whether the call was made at all.
    accepted: bool,
}

impl CallResult {
    fn unusable(reason: &str) -> Self {
        Self {
            text: failure_text(reason, None),
            end: None,
            accepted: false,
        }
    }

    fn ended(end: ActorEnd) -> Self {
        Self {
            text: String::new(),
            end: Some(AgentLoopEnd::Ended(end)),
            accepted: true,
        }
    }
}

fn failure_text(error: &str, output: Option<&Value>) -> String {
    match output {
        None => format!("Error: {error}"),
        Some(output) => format!("Error: {error}\n{output}"),
    }
}

/// Limits a text to `max_bytes` by cutting out its middle.
fn truncate_middle(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let half = max_bytes / 2;
    let start = text.floor_char_boundary(half);
    let end = text.ceil_char_boundary(text.len() - half);
    let left_out = end - start;
    format!(
        "{}\n[{left_out} bytes are left out here]\n{}",
        &text[..start],
        &text[end..]
    )
}
