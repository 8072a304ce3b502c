//! Decodes the event stream of the messages API.

use cleveragents_domain::model::{FinishReason, Usage};
use cleveragents_ports::models::ModelErrorKind;
use serde::Deserialize;
use serde_json::Value;

use crate::wire::answer::AnswerAssembler;
use crate::wire::failure::{ModelFault, ProviderError};
use crate::wire::reader::{DecodeProgress, Decoder, json_fault};
use crate::wire::sse::SseEvent;

#[derive(Debug, Default)]
pub(crate) struct MessagesDecoder {
    /// The blocks that are tool calls, by their index in the answer.
    calls: Vec<ToolUseBlock>,
    usage: AnthropicUsagePart,
}

/// A block that calls a tool.
#[derive(Debug)]
struct ToolUseBlock {
    index: u64,
    /// The input given at the start of the block; some servers send all of it there.
    input: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct EventPart {
    #[serde(rename = "type", default)]
    kind: String,
    index: Option<u64>,
    message: Option<MessageStartPart>,
    content_block: Option<BlockPart>,
    delta: Option<DeltaPart>,
    usage: Option<AnthropicUsagePart>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct MessageStartPart {
    usage: Option<AnthropicUsagePart>,
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

/// The usage reported so far: later events repeat only some of it.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct AnthropicUsagePart {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl Decoder for MessagesDecoder {
    fn decode(
        &mut self,
        event: &SseEvent,
        answer: &mut AnswerAssembler,
    ) -> Result<DecodeProgress, ModelFault> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(DecodeProgress::More);
        }
        let part: EventPart = serde_json::from_str(data).map_err(|error| json_fault(&error))?;
        // The type is in the data; the event name only repeats it.
        let kind = match part.kind.as_str() {
            "" => event.name.as_str(),
            kind => kind,
        };
        match kind {
            "message_start" => {
                let usage = part.message.and_then(|message| message.usage);
                self.record_usage(usage, answer);
            }
            "content_block_start" => self.start_block(&part, answer)?,
            "content_block_delta" => self.apply_delta(&part, answer)?,
            "content_block_stop" => self.stop_block(part.index, answer)?,
            "message_delta" => {
                self.record_usage(part.usage, answer);
                let reason = part.delta.and_then(|delta| delta.stop_reason);
                if let Some(reason) = reason {
                    answer.set_finish_reason(parse_finish_reason(&reason));
                }
            }
            "message_stop" => return Ok(DecodeProgress::Done),
            "error" => return Err(stream_fault(&part.error.unwrap_or(Value::Null))),
            // `ping`, and events not known yet.
            _ => {}
        }
        Ok(DecodeProgress::More)
    }
}

/// An error in mid-stream.
fn stream_fault(error: &Value) -> ModelFault {
    let complaint = ProviderError::from_json(error);
    let kind = complaint.classify(None);
    let words = complaint.message;
    ModelFault::new(
        kind,
        format!("it stopped in the middle of its answer: {words}"),
    )
}

impl MessagesDecoder {
    fn start_block(
        &mut self,
        part: &EventPart,
        answer: &mut AnswerAssembler,
    ) -> Result<(), ModelFault> {
        let Some(block) = &part.content_block else {
            return Ok(());
        };
        if block.kind != "tool_use" {
            answer.push_text(block.text.as_deref().unwrap_or_default());
            return Ok(());
        }
        let has_content = |input: &&Value| input.as_object().is_some_and(|it| !it.is_empty());
        self.calls.push(ToolUseBlock {
            index: part.index.unwrap_or(0),
            input: block.input.as_ref().filter(has_content).cloned(),
        });
        answer.push_call(self.calls.len() - 1, block.name.as_deref(), "")
    }

    fn apply_delta(
        &mut self,
        part: &EventPart,
        answer: &mut AnswerAssembler,
    ) -> Result<(), ModelFault> {
        let Some(delta) = &part.delta else {
            return Ok(());
        };
        answer.push_text(delta.text.as_deref().unwrap_or_default());
        let Some(json) = &delta.partial_json else {
            return Ok(());
        };
        match self.call_index(part.index) {
            Some(place) => answer.push_call(place, None, json),
            None => {
                let what = "its answer has arguments that belong to no call";
                Err(ModelFault::new(ModelErrorKind::Malformed, what))
            }
        }
    }

    fn stop_block(
        &mut self,
        index: Option<u64>,
        answer: &mut AnswerAssembler,
    ) -> Result<(), ModelFault> {
        let Some(place) = self.call_index(index) else {
            return Ok(());
        };
        match self.calls[place].input.take() {
            // Used only if no part followed; otherwise the input would be there twice.
            Some(input) if !answer.has_arguments(place) => {
                answer.push_call(place, None, &input.to_string())
            }
            _ => Ok(()),
        }
    }

    fn call_index(&self, index: Option<u64>) -> Option<usize> {
        let index = index.unwrap_or(0);
        self.calls.iter().rposition(|block| block.index == index)
    }

    fn record_usage(&mut self, part: Option<AnthropicUsagePart>, answer: &mut AnswerAssembler) {
        let Some(part) = part else { return };
        let known = self.usage;
        self.usage = AnthropicUsagePart {
            input_tokens: part.input_tokens.or(known.input_tokens),
            output_tokens: part.output_tokens.or(known.output_tokens),
            cache_read_input_tokens: part
                .cache_read_input_tokens
                .or(known.cache_read_input_tokens),
            cache_creation_input_tokens: part
                .cache_creation_input_tokens
                .or(known.cache_creation_input_tokens),
        };
        answer.push_usage(self.usage.to_usage());
    }
}

fn parse_finish_reason(reason: &str) -> FinishReason {
    match reason {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::Refused,
        _ => FinishReason::Other,
    }
}

impl AnthropicUsagePart {
    /// The vendor counts cached input separately; `Usage` includes it in the input.
    fn to_usage(self) -> Usage {
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
