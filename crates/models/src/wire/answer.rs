//! An answer as it comes together: its parts in order, its bounds, and what makes it whole.

use std::collections::VecDeque;

use cleveragents_domain::model::{FinishReason, Usage};
use cleveragents_engine::ports::models::{Delta, ModelErrorKind};

use super::failure::Fault;
use super::tool_names::ToolNames;

/// The most text and arguments an answer may have, in bytes. A model that never stops is stopped
/// here, as if it had reached its bound of tokens.
pub(crate) const ANSWER_MAXIMUM: usize = 8 << 20;
/// The most calls an answer may have.
const CALLS_MAXIMUM: usize = 256;

/// Parts that are waiting to be taken, and what has to be remembered of those that were.
#[derive(Debug)]
pub(crate) struct Answer {
    names: ToolNames,
    /// A tool of our own whose arguments are the text of the answer.
    text_tool: Option<&'static str>,
    waiting: VecDeque<Delta>,
    size: usize,
    calls: Vec<Call>,
    finish: Option<FinishReason>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Over,
}

/// A call as far as it has come.
#[derive(Debug, Default)]
struct Call {
    role: Role,
    /// What came before its name.
    early: String,
    has_arguments: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Role {
    #[default]
    Nameless,
    /// The call of a tool, by its place among those.
    Tool(usize),
    /// Not a call: the answer's text.
    Text,
}

impl Answer {
    pub(crate) fn new(names: ToolNames, text_tool: Option<&'static str>) -> Self {
        Self {
            names,
            text_tool,
            waiting: VecDeque::new(),
            size: 0,
            calls: Vec::new(),
            finish: None,
            state: State::Open,
        }
    }

    /// The next part, if there is one.
    pub(crate) fn next(&mut self) -> Option<Delta> {
        self.waiting.pop_front()
    }

    /// Whether nothing more will come.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Whether it may end here.
    pub(crate) fn is_whole(&self) -> bool {
        self.finish.is_some()
    }

    pub(crate) fn text(&mut self, text: &str) {
        if !text.is_empty() && self.fits(text.len()) {
            self.waiting.push_back(Delta::Text(text.to_owned()));
        }
    }

    /// A part of the call at `place`, which the caller counts from 0 without gaps.
    pub(crate) fn call(
        &mut self,
        place: usize,
        name: Option<&str>,
        arguments: &str,
    ) -> Result<(), Fault> {
        if place >= CALLS_MAXIMUM {
            let what = format!("its answer asks for more than {CALLS_MAXIMUM} tools");
            return Err(Fault::new(ModelErrorKind::Malformed, what));
        }
        if self.calls.len() <= place {
            self.calls.resize_with(place + 1, Call::default);
        }
        if self.calls[place].role == Role::Nameless
            && let Some(name) = name.filter(|name| !name.is_empty())
        {
            self.begin(place, name);
        }
        if !arguments.is_empty() && self.fits(arguments.len()) {
            self.extend(place, arguments);
        }
        Ok(())
    }

    fn begin(&mut self, place: usize, name: &str) {
        let is_tool = |call: &&Call| matches!(call.role, Role::Tool(_));
        let index = self.calls.iter().filter(is_tool).count();
        let call = &mut self.calls[place];
        let early = std::mem::take(&mut call.early);
        call.has_arguments = !early.is_empty();
        if Some(name) == self.text_tool {
            call.role = Role::Text;
            if !early.is_empty() {
                self.waiting.push_back(Delta::Text(early));
            }
            return;
        }
        call.role = Role::Tool(index);
        self.waiting.push_back(Delta::ToolCall {
            index,
            tool: Some(self.names.name(name)),
            arguments: early,
        });
    }

    fn extend(&mut self, place: usize, arguments: &str) {
        let call = &mut self.calls[place];
        call.has_arguments = true;
        match call.role {
            Role::Nameless => call.early.push_str(arguments),
            Role::Text => self.waiting.push_back(Delta::Text(arguments.to_owned())),
            Role::Tool(index) => self.waiting.push_back(Delta::ToolCall {
                index,
                tool: None,
                arguments: arguments.to_owned(),
            }),
        }
    }

    /// Whether the call at `place` was given anything yet.
    pub(crate) fn has_arguments(&self, place: usize) -> bool {
        self.calls.get(place).is_some_and(|call| call.has_arguments)
    }

    pub(crate) fn usage(&mut self, usage: Usage) {
        if self.state == State::Open {
            self.waiting.push_back(Delta::Usage(usage));
        }
    }

    /// Why the model stopped; what was used may still follow.
    pub(crate) fn finish(&mut self, reason: FinishReason) {
        self.finish = Some(reason);
    }

    /// The stream is over. Without a reason to finish, the answer is not.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        if self.state == State::Over {
            return Ok(());
        }
        let Some(reason) = self.finish else {
            let what = "its stream ended before the answer did";
            return Err(Fault::new(ModelErrorKind::Truncated, what));
        };
        for place in 0..self.calls.len() {
            match self.calls[place].role {
                Role::Nameless => {
                    let what = "its answer asks for a tool without a name";
                    return Err(Fault::new(ModelErrorKind::Malformed, what));
                }
                // A call without arguments is one with none, not one that cannot be read.
                Role::Tool(_) if !self.calls[place].has_arguments => self.extend(place, "{}"),
                Role::Tool(_) | Role::Text => {}
            }
        }
        self.conclude(reason);
        Ok(())
    }

    /// Some servers say `stop` though they ask for tools.
    fn conclude(&mut self, reason: FinishReason) {
        let is_tool = |call: &Call| matches!(call.role, Role::Tool(_));
        let asks = self.calls.iter().any(is_tool);
        let reason = match reason {
            FinishReason::Stop if asks => FinishReason::ToolCalls,
            FinishReason::ToolCalls if !asks => FinishReason::Stop,
            other => other,
        };
        self.waiting.push_back(Delta::Finished(reason));
        self.state = State::Over;
    }

    /// Whether there is room for so many bytes more; if not, the answer ends here.
    fn fits(&mut self, bytes: usize) -> bool {
        if self.state == State::Over {
            return false;
        }
        self.size += bytes;
        if self.size <= ANSWER_MAXIMUM {
            return true;
        }
        self.waiting
            .push_back(Delta::Finished(FinishReason::Length));
        self.state = State::Over;
        false
    }
}
