//! The events of messages.

use cleveragents_domain::model::{FinishReason, Usage};
use cleveragents_engine::ports::models::ModelErrorKind;
use serde::Deserialize;
use serde_json::Value;

use crate::wire::answer::Answer;
use crate::wire::failure::{Complaint, Fault};
use crate::wire::reader::{Decoder, Progress, not_readable};
use crate::wire::sse::Event;

/// Reads event after event.
#[derive(Debug, Default)]
pub(crate) struct MessagesDecoder {
    /// The blocks that are calls, each at its place of the answer.
    calls: Vec<Block>,
    usage: UsagePart,
}

/// A block that asks for a tool.
#[derive(Debug)]
struct Block {
    index: u64,
    /// What it was given before any part of it arrived, which is how some servers give all of it.
    input: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct EventPart {
    #[serde(rename = "type", default)]
    kind: String,
    index: Option<u64>,
    message: Option<MessagePart>,
    content_block: Option<BlockPart>,
    delta: Option<DeltaPart>,
    usage: Option<UsagePart>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct MessagePart {
    usage: Option<UsagePart>,
}

#[derive(Debug, Deserialize)]
struct BlockPart {
    #[serde(rename = "type", default)]
    kind: String,
    name: Option<String>,
    text: Option<String>,
    input: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct DeltaPart {
    text: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

/// What was used, as far as it was told: later events repeat only some of it.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct UsagePart {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl Decoder for MessagesDecoder {
    fn take(&mut self, event: &Event, answer: &mut Answer) -> Result<Progress, Fault> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(Progress::More);
        }
        let part: EventPart = serde_json::from_str(data).map_err(|error| not_readable(&error))?;
        // The type is in the data; the name of the event only repeats it.
        let kind = match part.kind.as_str() {
            "" => event.name.as_str(),
            kind => kind,
        };
        match kind {
            "message_start" => {
                let usage = part.message.and_then(|message| message.usage);
                self.used(usage, answer);
            }
            "content_block_start" => self.block(&part, answer)?,
            "content_block_delta" => self.delta(&part, answer)?,
            "content_block_stop" => self.stop(part.index, answer)?,
            "message_delta" => {
                self.used(part.usage, answer);
                let reason = part.delta.and_then(|delta| delta.stop_reason);
                if let Some(reason) = reason {
                    answer.finish(reason_of(&reason));
                }
            }
            "message_stop" => return Ok(Progress::Done),
            "error" => return Err(complaint(&part.error.unwrap_or(Value::Null))),
            // `ping`, and what is not known yet.
            _ => {}
        }
        Ok(Progress::More)
    }
}

/// An error in mid-stream.
fn complaint(error: &Value) -> Fault {
    let complaint = Complaint::of_json(error);
    let kind = complaint.kind(None);
    let words = complaint.message;
    Fault::new(kind, format!("it broke off its answer: {words}"))
}

impl MessagesDecoder {
    fn block(&mut self, part: &EventPart, answer: &mut Answer) -> Result<(), Fault> {
        let Some(block) = &part.content_block else {
            return Ok(());
        };
        if block.kind != "tool_use" {
            answer.text(block.text.as_deref().unwrap_or_default());
            return Ok(());
        }
        let has_content = |input: &&Value| input.as_object().is_some_and(|it| !it.is_empty());
        self.calls.push(Block {
            index: part.index.unwrap_or(0),
            input: block.input.as_ref().filter(has_content).cloned(),
        });
        answer.call(self.calls.len() - 1, block.name.as_deref(), "")
    }

    fn delta(&mut self, part: &EventPart, answer: &mut Answer) -> Result<(), Fault> {
        let Some(delta) = &part.delta else {
            return Ok(());
        };
        answer.text(delta.text.as_deref().unwrap_or_default());
        let Some(json) = &delta.partial_json else {
            return Ok(());
        };
        match self.place_of(part.index) {
            Some(place) => answer.call(place, None, json),
            None => {
                let what = "its answer has arguments that belong to no call";
                Err(Fault::new(ModelErrorKind::Malformed, what))
            }
        }
    }

    fn stop(&mut self, index: Option<u64>, answer: &mut Answer) -> Result<(), Fault> {
        let Some(place) = self.place_of(index) else {
            return Ok(());
        };
        match self.calls[place].input.take() {
            Some(input) if !answer.has_arguments(place) => {
                answer.call(place, None, &input.to_string())
            }
            _ => Ok(()),
        }
    }

    fn place_of(&self, index: Option<u64>) -> Option<usize> {
        let index = index.unwrap_or(0);
        self.calls.iter().rposition(|block| block.index == index)
    }

    fn used(&mut self, part: Option<UsagePart>, answer: &mut Answer) {
        let Some(part) = part else { return };
        let known = self.usage;
        self.usage = UsagePart {
            input_tokens: part.input_tokens.or(known.input_tokens),
            output_tokens: part.output_tokens.or(known.output_tokens),
            cache_read_input_tokens: part
                .cache_read_input_tokens
                .or(known.cache_read_input_tokens),
            cache_creation_input_tokens: part
                .cache_creation_input_tokens
                .or(known.cache_creation_input_tokens),
        };
        answer.usage(self.usage.read());
    }
}

fn reason_of(reason: &str) -> FinishReason {
    match reason {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::Refused,
        _ => FinishReason::Other,
    }
}

impl UsagePart {
    /// The vendor counts what is cached apart from the rest of the input; we count it with it.
    fn read(&self) -> Usage {
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        Usage {
            input_tokens: self
                .input_tokens
                .unwrap_or(0)
                .saturating_add(cached)
                .saturating_add(written),
            output_tokens: self.output_tokens.unwrap_or(0),
            cached_tokens: cached,
            cache_written_tokens: written,
        }
    }
}
