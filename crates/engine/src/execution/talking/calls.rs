//! The calls of one answer: those that only read at once, those that write one after the other, in
//! the order the model asked for them.

use cleveragents_domain::automation::guards::Approval;
use cleveragents_domain::model::{ModelMessage, OfferedTool, RequestedCall};
use cleveragents_domain::tool::talk::{self, Question, StatedDecision};
use cleveragents_domain::tool::{Access, ToolDefinition};
use cleveragents_domain::{DecisionType, NamespacedName};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::repetition::Verdict;
use super::{Talk, TalkEnd, Task};
use crate::execution::error::Result;
use crate::execution::executor::Executor;
use crate::execution::runner::{CallOutcome, CompletedCall, Refusal, RefusalKind, ToolRequest};
use crate::execution::steps::ActorEnd;
use crate::execution::workspace::Workspace;
use crate::ports::StoreError;

/// The longest result a model is told, in bytes; the middle of a longer one is left out.
const RESULT_MAXIMUM: usize = 64 << 10;

/// So much of a result is told however little room there is.
const RESULT_MINIMUM: usize = 512;

/// The input key that says which resource a call works in, where a plan has several.
pub(super) const RESOURCE: &str = "resource";

impl Executor {
    /// The tools a model may use for its task.
    pub(super) fn tools_for(
        &self,
        llm: &cleveragents_domain::LlmActor,
        task: Task,
    ) -> Vec<ToolDefinition> {
        let ends = task.ends_with();
        let listed = |tool: &&ToolDefinition| match &llm.tools {
            None => true,
            Some(names) => names.contains(&tool.name) || tool.name.to_string() == ends,
        };
        self.toolbox
            .definitions()
            .into_iter()
            .filter(|tool| task.allows(tool))
            .filter(listed)
            .cloned()
            .collect()
    }
}

/// The tools as the model is told of them.
pub(super) fn offered(tools: &[ToolDefinition], workspace: &Workspace) -> Vec<OfferedTool> {
    let resources: Vec<String> = workspace
        .seats
        .iter()
        .map(|seat| seat.resource.to_string())
        .collect();
    let offer = |tool: &ToolDefinition| {
        let mut schema = tool.input_schema.clone();
        if resources.len() > 1
            && !talk::is_talk(&tool.name)
            && let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut)
        {
            let property = json!({
                "type": "string",
                "enum": resources,
                "description": "The resource of the plan that the call works in",
            });
            properties.insert(RESOURCE.to_owned(), property);
            if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
                required.push(json!(RESOURCE));
            } else {
                schema["required"] = json!([RESOURCE]);
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

impl Talk<'_> {
    /// Makes the calls and tells the model what they gave.
    pub(super) async fn make_calls(
        &mut self,
        calls: Vec<RequestedCall>,
    ) -> Result<Option<TalkEnd>> {
        let mut usable = false;
        let most = self.most_told(calls.len());
        for group in self.groups(calls) {
            if self.question.is_some() {
                // What comes after a question may depend on its answer.
                for call in group {
                    let text = "Not made: the user was asked first. Call again if it is wanted.";
                    let said = ModelMessage::Tool {
                        call: call.place,
                        text: text.to_owned(),
                    };
                    self.conversation.say(said, &*self.model);
                }
                continue;
            }
            let made = join_all(group.iter().map(|call| self.make(call))).await;
            self.note_nearby(&group).await?;
            for (call, result) in group.into_iter().zip(made) {
                let Made { text, end, used } = result?;
                usable |= used;
                let text = bounded(&text, most);
                let verdict = self.repetition.note(&call.tool, &call.arguments, &text);
                let said = ModelMessage::Tool {
                    call: call.place,
                    text,
                };
                self.conversation.say(said, &*self.model);
                if call.tool == talk::ASK_USER && used {
                    let asked = serde_json::from_str::<Question>(&call.arguments);
                    self.question = Some(asked.map(|it| it.question).unwrap_or_default());
                }
                if end.is_some() {
                    return Ok(end);
                }
                match verdict {
                    Verdict::GoOn => {}
                    Verdict::Tell(words) => self.told_after.push(words),
                    Verdict::Stop(reason) => return Ok(Some(self.stopped_for(reason).await?)),
                }
            }
        }
        for words in std::mem::take(&mut self.told_after) {
            self.say(words);
        }
        if usable {
            self.repairs = 0;
            return Ok(None);
        }
        // Nothing of it could be used; what was wrong with each call is what it was told.
        self.repairs += 1;
        if self.repairs <= super::REPAIRS_MAXIMUM {
            return Ok(None);
        }
        let reason = format!(
            "none of the model's calls could be used, {} times in a row",
            self.repairs
        );
        Ok(Some(self.stopped_for(reason).await?))
    }

    /// How much the model is told of what each of so many calls gave: together not more than a third
    /// or so of what it can take.
    fn most_told(&self, calls: usize) -> usize {
        let room = self.model.facts().context_tokens;
        let room = room.saturating_sub(self.answer_tokens());
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        (room / calls.max(1)).clamp(RESULT_MINIMUM, RESULT_MAXIMUM)
    }

    /// Calls that may be made at once, in the order of the answer.
    fn groups(&self, calls: Vec<RequestedCall>) -> Vec<Vec<RequestedCall>> {
        let mut groups: Vec<Vec<RequestedCall>> = Vec::new();
        let mut open = false;
        for call in calls {
            let reads = self.reads(&call);
            match groups.last_mut() {
                Some(group) if open && reads => group.push(call),
                _ => groups.push(vec![call]),
            }
            open = reads;
        }
        groups
    }

    /// Whether a call only looks, and does not end the task.
    fn reads(&self, call: &RequestedCall) -> bool {
        let tool = self
            .tools
            .iter()
            .find(|it| it.name.to_string() == call.tool);
        tool.is_some_and(|it| it.capability.access == Access::ReadOnly && !talk::is_talk(&it.name))
    }

    async fn make(&self, call: &RequestedCall) -> Result<Made> {
        let (request, resource) = match self.understand(call) {
            Ok(understood) => understood,
            Err(refused) => {
                let (request, refusal) = *refused;
                let refusal = self
                    .work
                    .runner
                    .refuse(self.plan, &request, refusal)
                    .await?;
                return Ok(Made::unusable(&refusal.reason));
            }
        };
        let seat = match self.work.workspace.seat(resource.as_ref()) {
            Ok(seat) => seat,
            // What only talks works in none of them.
            Err(_) if talk::is_talk(&request.tool) && !self.work.workspace.seats.is_empty() => {
                &self.work.workspace.seats[0]
            }
            Err(refusal) => {
                let refusal = self
                    .work
                    .runner
                    .refuse(self.plan, &request, refusal)
                    .await?;
                return Ok(Made::unusable(&refusal.reason));
            }
        };
        // What is said to the plan is stored, and told to others.
        let input = self.work.runner.hidden(&request.input);
        let tool = request.tool.to_string();
        Ok(match self.work.make(seat, request).await? {
            CallOutcome::Completed(CompletedCall { record, .. }) => {
                self.record_decision(&tool, &input).await?;
                let output = record.output.clone().unwrap_or(Value::Null);
                Made {
                    text: output.to_string(),
                    end: (tool == self.task.ends_with()).then_some(TalkEnd::Done(input)),
                    used: true,
                }
            }
            CallOutcome::Failed(record) => Made {
                text: failure(
                    record.error.as_deref().unwrap_or_default(),
                    record.output.as_ref(),
                ),
                end: None,
                used: true,
            },
            CallOutcome::Stopped(why) => Made::ended(ActorEnd::Stopped(why)),
            CallOutcome::Refused(refusal) => match refusal.kind {
                RefusalKind::NeedsApproval => Made::ended(ActorEnd::Waits {
                    waiting: cleveragents_domain::Waiting::Approval { decision: None },
                    reason: refusal.reason,
                }),
                RefusalKind::Limit => Made::ended(ActorEnd::Limit(refusal.reason)),
                _ => Made::unusable(&refusal.reason),
            },
        })
    }

    /// What a model decided while it worked goes into the plan's tree.
    async fn record_decision(&self, tool: &str, input: &Value) -> Result<()> {
        let (true, Some(parent)) = (tool == talk::RECORD_DECISION, self.work.runner.decision)
        else {
            return Ok(());
        };
        let stated: StatedDecision =
            serde_json::from_value(input.clone()).map_err(StoreError::internal)?;
        let stated = (DecisionType::ImplementationChoice, stated);
        self.executor.state_decision(self.run, parent, stated).await
    }

    /// What a call asks for, or why it cannot be understood.
    fn understand(
        &self,
        call: &RequestedCall,
    ) -> std::result::Result<Understood, Box<Misunderstood>> {
        let request = |tool: NamespacedName, input: Value| ToolRequest {
            tool,
            input,
            actor: self.actor.clone(),
            step: Some(self.conversation.key.step),
            turn: self.work.first_turn + call.place.turn,
            slot: call.place.slot,
            approval: Approval::Missing,
        };
        let refused = |tool: NamespacedName, kind, reason: String| {
            Box::new((request(tool, json!({})), Refusal { kind, reason }))
        };
        let known = self
            .tools
            .iter()
            .find(|it| it.name.to_string() == call.tool);
        let Some(tool) = known.map(|it| it.name.clone()) else {
            let shown: String = call.tool.chars().take(80).collect();
            let name = call.tool.parse();
            let name = name.unwrap_or_else(|_| NamespacedName::in_namespace("unknown", "tool"));
            let reason = format!("there is no tool `{shown}` for this task");
            return Err(refused(name, RefusalKind::UnknownTool, reason));
        };
        let mut input: Value = match call.arguments.trim() {
            "" => json!({}),
            text => serde_json::from_str(text).map_err(|error| {
                let reason = format!("the arguments of {tool} are not JSON: {error}");
                refused(tool.clone(), RefusalKind::Input, reason)
            })?,
        };
        let several = self.work.workspace.seats.len() > 1 && !talk::is_talk(&tool);
        let resource = match (several, input.as_object_mut()) {
            (true, Some(input)) => input.remove(RESOURCE),
            _ => None,
        };
        let resource = match resource {
            None => None,
            Some(name) => {
                let parsed = name.as_str().and_then(|name| name.parse().ok());
                let reason = || format!("`{RESOURCE}` must name one of the plan's resources");
                let refuse = || refused(tool.clone(), RefusalKind::Resource, reason());
                Some(parsed.ok_or_else(refuse)?)
            }
        };
        Ok((request(tool, input), resource))
    }
}

/// A call that can be made, and the resource it names.
type Understood = (ToolRequest, Option<NamespacedName>);

/// A call as far as it was understood, and what is wrong with it.
type Misunderstood = (ToolRequest, Refusal);

/// What became of a call.
struct Made {
    /// What the model is told.
    text: String,
    end: Option<TalkEnd>,
    /// Whether the call was made at all.
    used: bool,
}

impl Made {
    fn unusable(reason: &str) -> Self {
        Self {
            text: failure(reason, None),
            end: None,
            used: false,
        }
    }

    fn ended(end: ActorEnd) -> Self {
        Self {
            text: String::new(),
            end: Some(TalkEnd::Ended(end)),
            used: true,
        }
    }
}

fn failure(error: &str, output: Option<&Value>) -> String {
    match output {
        None => format!("Error: {error}"),
        Some(output) => format!("Error: {error}\n{output}"),
    }
}

/// Not more than a model should have to read; the middle goes.
fn bounded(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let half = most / 2;
    let start = text.floor_char_boundary(half);
    let end = text.ceil_char_boundary(text.len() - half);
    let left_out = end - start;
    format!(
        "{}\n[{left_out} bytes are left out here]\n{}",
        &text[..start],
        &text[end..]
    )
}
