//! Assembles an answer: the order of its parts, its limits, and when it is complete.

use std::collections::VecDeque;

use cleveragents_domain::model::{FinishReason, Usage};
use cleveragents_ports::models::{Delta, ModelErrorKind};

use super::failure::ModelFault;
use super::tool_names::ToolNames;

/// The maximum size of an answer's text and arguments, in bytes. A model that never stops is
/// stopped here, as if it had reached its token limit.
pub(crate) const ANSWER_MAXIMUM: usize = 8 << 20;
/// The maximum number of calls of an answer.
const CALLS_MAXIMUM: usize = 256;

/// The parts not yet taken, and the state needed to decode further ones.
#[derive(Debug)]
pub(crate) struct AnswerAssembler {
    names: ToolNames,
    /// A tool of ours whose arguments are the text of the answer.
    text_tool: Option<&'static str>,
    pending: VecDeque<Delta>,
    size: usize,
    calls: Vec<PartialCall>,
    finish: Option<FinishReason>,
    state: AnswerState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerState {
    Open,
    Ended,
}

/// The state of a partial call.
#[derive(Debug, Default)]
struct PartialCall {
    role: CallRole,
    /// Arguments that arrived before the name.
    early_arguments: String,
    has_arguments: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum CallRole {
    #[default]
    Nameless,
    /// A tool call, by its index among the tool calls.
    Tool(usize),
    /// Not a call but the answer's text.
    Text,
}

impl AnswerAssembler {
    pub(crate) fn new(names: ToolNames, text_tool: Option<&'static str>) -> Self {
        Self {
            names,
            text_tool,
            pending: VecDeque::new(),
            size: 0,
            calls: Vec::new(),
            finish: None,
            state: AnswerState::Open,
        }
    }

    pub(crate) fn next(&mut self) -> Option<Delta> {
        self.pending.pop_front()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state == AnswerState::Ended
    }

    /// Returns whether the answer may end here.
    pub(crate) fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    pub(crate) fn push_text(&mut self, text: &str) {
        if !text.is_empty() && self.reserve_bytes(text.len()) {
            self.pending.push_back(Delta::Text(text.to_owned()));
        }
    }

    /// Adds a part of the call at `index`, which the caller counts from 0 without gaps.
    pub(crate) fn push_call(
        &mut self,
        index: usize,
        name: Option<&str>,
        arguments: &str,
    ) -> Result<(), ModelFault> {
        if index >= CALLS_MAXIMUM {
            let what = format!("its answer asks for more than {CALLS_MAXIMUM} tools");
            return Err(ModelFault::new(ModelErrorKind::Malformed, what));
        }
        if self.calls.len() <= index {
            self.calls.resize_with(index + 1, PartialCall::default);
        }
        if self.calls[index].role == CallRole::Nameless
            && let Some(name) = name.filter(|name| !name.is_empty())
        {
            self.start_call(index, name);
        }
        if !arguments.is_empty() && self.reserve_bytes(arguments.len()) {
            self.push_arguments(index, arguments);
        }
        Ok(())
    }

    fn start_call(&mut self, slot: usize, name: &str) {
        // The tool of the answer is no call, so it has no index.
        let is_tool = |call: &&PartialCall| matches!(call.role, CallRole::Tool(_));
        let index = self.calls.iter().filter(is_tool).count();
        let call = &mut self.calls[slot];
        let early = std::mem::take(&mut call.early_arguments);
        call.has_arguments = !early.is_empty();
        if Some(name) == self.text_tool {
            call.role = CallRole::Text;
            if !early.is_empty() {
                self.pending.push_back(Delta::Text(early));
            }
            return;
        }
        call.role = CallRole::Tool(index);
        self.pending.push_back(Delta::ToolCall {
            index,
            tool: Some(self.names.decode(name)),
            arguments: early,
        });
    }

    fn push_arguments(&mut self, index: usize, arguments: &str) {
        let call = &mut self.calls[index];
        call.has_arguments = true;
        match call.role {
            CallRole::Nameless => call.early_arguments.push_str(arguments),
            CallRole::Text => self.pending.push_back(Delta::Text(arguments.to_owned())),
            CallRole::Tool(index) => self.pending.push_back(Delta::ToolCall {
                index,
                tool: None,
                arguments: arguments.to_owned(),
            }),
        }
    }

    /// Returns whether the call at `index` has received arguments yet.
    pub(crate) fn has_arguments(&self, index: usize) -> bool {
        self.calls.get(index).is_some_and(|call| call.has_arguments)
    }

    pub(crate) fn push_usage(&mut self, usage: Usage) {
        if self.state == AnswerState::Open {
            self.pending.push_back(Delta::Usage(usage));
        }
    }

    /// Sets why the model stopped. The usage may still follow.
    pub(crate) fn set_finish_reason(&mut self, reason: FinishReason) {
        self.finish = Some(reason);
    }

    /// Ends the stream. Without a finish reason the answer is incomplete.
    pub(crate) fn end_stream(&mut self) -> Result<(), ModelFault> {
        if self.state == AnswerState::Ended {
            return Ok(());
        }
        let Some(reason) = self.finish else {
            let what = "its stream ended before the answer did";
            return Err(ModelFault::new(ModelErrorKind::Truncated, what));
        };
        for place in 0..self.calls.len() {
            match self.calls[place].role {
                CallRole::Nameless => {
                    let what = "its answer asks for a tool without a name";
                    return Err(ModelFault::new(ModelErrorKind::Malformed, what));
                }
                // A call without arguments has an empty object, not invalid JSON.
                CallRole::Tool(_) if !self.calls[place].has_arguments => {
                    self.push_arguments(place, "{}")
                }
                CallRole::Tool(_) | CallRole::Text => {}
            }
        }
        self.conclude(reason);
        Ok(())
    }

    /// Some servers send `stop` although they call tools.
    fn conclude(&mut self, reason: FinishReason) {
        let is_tool = |call: &PartialCall| matches!(call.role, CallRole::Tool(_));
        let asks = self.calls.iter().any(is_tool);
        let reason = match reason {
            FinishReason::Stop if asks => FinishReason::ToolCalls,
            FinishReason::ToolCalls if !asks => FinishReason::Stop,
            other => other,
        };
        self.pending.push_back(Delta::Finished(reason));
        self.state = AnswerState::Ended;
    }

    /// Returns whether `bytes` more fit; if not, the answer ends here.
    fn reserve_bytes(&mut self, bytes: usize) -> bool {
        if self.state == AnswerState::Ended {
            return false;
        }
        self.size += bytes;
        if self.size <= ANSWER_MAXIMUM {
            return true;
        }
        self.pending
            .push_back(Delta::Finished(FinishReason::Length));
        self.state = AnswerState::Ended;
        false
    }
}
