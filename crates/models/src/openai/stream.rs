//! The events of chat completions.

use cleveragents_domain::model::{FinishReason, Usage};
use serde::Deserialize;
use serde_json::Value;

use crate::wire::answer::Answer;
use crate::wire::failure::{Complaint, Fault};
use crate::wire::reader::{Decoder, Progress, not_readable};
use crate::wire::sse::Event;

/// What ends a stream.
const DONE: &str = "[DONE]";

/// Reads chunk after chunk.
#[derive(Debug, Default)]
pub(crate) struct ChatDecoder {
    /// Which call stands at which place of the answer.
    calls: Vec<Mark>,
    refused: bool,
}

/// What a server tells calls apart by: their index, their id, or both.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    index: Option<u64>,
    id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<UsagePart>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    delta: Option<MessagePart>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct MessagePart {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallPart>>,
}

#[derive(Debug, Deserialize)]
struct CallPart {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionPart>,
}

#[derive(Debug, Deserialize)]
struct FunctionPart {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Debug, Deserialize)]
struct UsagePart {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptPart>,
}

#[derive(Debug, Deserialize)]
struct PromptPart {
    cached_tokens: Option<u64>,
}

impl Decoder for ChatDecoder {
    fn take(&mut self, event: &Event, answer: &mut Answer) -> Result<Progress, Fault> {
        let data = event.data.trim();
        if data == DONE {
            return Ok(Progress::Done);
        }
        if data.is_empty() {
            return Ok(Progress::More);
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| not_readable(&error))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(complaint(&error));
        }
        // Only one answer is ever asked for.
        if let Some(choice) = chunk.choices.unwrap_or_default().into_iter().next() {
            self.choice(choice, answer)?;
        }
        if let Some(usage) = chunk.usage {
            answer.usage(usage.read());
        }
        Ok(Progress::More)
    }
}

/// An error in mid-stream.
fn complaint(error: &Value) -> Fault {
    let complaint = Complaint::of_json(error);
    let status = error.get("code").and_then(Value::as_u64);
    let status = status.and_then(|status| u16::try_from(status).ok());
    let kind = complaint.kind(status.filter(|status| (400..600).contains(status)));
    let words = complaint.message;
    Fault::new(kind, format!("it broke off its answer: {words}"))
}

impl ChatDecoder {
    fn choice(&mut self, choice: Choice, answer: &mut Answer) -> Result<(), Fault> {
        if let Some(part) = choice.delta {
            answer.text(part.content.as_deref().unwrap_or_default());
            if let Some(refusal) = part.refusal.filter(|refusal| !refusal.is_empty()) {
                self.refused = true;
                answer.text(&refusal);
            }
            for call in part.tool_calls.unwrap_or_default() {
                self.call(call, answer)?;
            }
        }
        if let Some(reason) = choice.finish_reason {
            answer.finish(match self.refused {
                true => FinishReason::Refused,
                false => reason_of(&reason),
            });
        }
        Ok(())
    }

    fn call(&mut self, part: CallPart, answer: &mut Answer) -> Result<(), Fault> {
        let mark = Mark {
            index: part.index,
            id: part.id.filter(|id| !id.is_empty()),
        };
        let place = self.place_of(mark);
        let (name, arguments) = match part.function {
            Some(function) => (function.name, function.arguments.unwrap_or_default()),
            None => (None, String::new()),
        };
        answer.call(place, name.as_deref(), &arguments)
    }

    /// Which call a part belongs to: that of its index, unless it comes with another id; without
    /// an index, that of its id; without both, the last one.
    fn place_of(&mut self, mark: Mark) -> usize {
        let fits = |known: &Mark| match (&mark.id, &known.id) {
            (Some(id), Some(known_id)) => id == known_id && mark.index == known.index,
            _ => mark.index.is_none() || mark.index == known.index,
        };
        // The newest first: a server may use one index for several calls.
        match self.calls.iter().rposition(fits) {
            Some(place) => place,
            None => {
                self.calls.push(mark);
                self.calls.len() - 1
            }
        }
    }
}

fn reason_of(reason: &str) -> FinishReason {
    match reason {
        "stop" => FinishReason::Stop,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "length" => FinishReason::Length,
        "content_filter" => FinishReason::Refused,
        _ => FinishReason::Other,
    }
}

impl UsagePart {
    fn read(&self) -> Usage {
        let cached = self.prompt_tokens_details.as_ref();
        Usage {
            input_tokens: self.prompt_tokens.unwrap_or(0),
            output_tokens: self.completion_tokens.unwrap_or(0),
            cached_tokens: cached.and_then(|it| it.cached_tokens).unwrap_or(0),
            cache_written_tokens: 0,
        }
    }
}
