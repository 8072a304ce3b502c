//! Decodes the event stream of the chat completions API.

use cleveragents_domain::model::{FinishReason, Usage};
use serde::Deserialize;
use serde_json::Value;

use crate::wire::answer::AnswerAssembler;
use crate::wire::failure::{ModelFault, ProviderError};
use crate::wire::reader::{DecodeProgress, Decoder, json_fault};
use crate::wire::sse::SseEvent;

/// The marker that ends a stream.
const DONE: &str = "[DONE]";

#[derive(Debug, Default)]
pub(crate) struct ChatDecoder {
    /// The calls by their index in the answer.
    calls: Vec<CallKey>,
    refused: bool,
}

/// A server's identification of calls: by index, by id, or both.
#[derive(Debug, PartialEq, Eq)]
struct CallKey {
    index: Option<u64>,
    id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Chunk {
    choices: Option<Vec<ChatChoice>>,
    usage: Option<OpenAiUsagePart>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct ChatChoice {
    delta: Option<ChatDeltaPart>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ChatDeltaPart {
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
struct OpenAiUsagePart {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptPart>,
}

#[derive(Debug, Deserialize)]
struct PromptPart {
    cached_tokens: Option<u64>,
}

impl Decoder for ChatDecoder {
    fn decode(
        &mut self,
        event: &SseEvent,
        answer: &mut AnswerAssembler,
    ) -> Result<DecodeProgress, ModelFault> {
        let data = event.data.trim();
        if data == DONE {
            return Ok(DecodeProgress::Done);
        }
        if data.is_empty() {
            return Ok(DecodeProgress::More);
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| json_fault(&error))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(stream_fault(&error));
        }
        // Requests never ask for more than one choice.
        if let Some(choice) = chunk.choices.unwrap_or_default().into_iter().next() {
            self.apply_choice(choice, answer)?;
        }
        if let Some(usage) = chunk.usage {
            answer.push_usage(usage.to_usage());
        }
        Ok(DecodeProgress::More)
    }
}

/// An error in mid-stream.
fn stream_fault(error: &Value) -> ModelFault {
    let complaint = ProviderError::from_json(error);
    // Some servers put the HTTP status into the code of the error.
    let status = error.get("code").and_then(Value::as_u64);
    let status = status.and_then(|status| u16::try_from(status).ok());
    let kind = complaint.classify(status.filter(|status| (400..600).contains(status)));
    let words = complaint.message;
    ModelFault::new(
        kind,
        format!("it stopped in the middle of its answer: {words}"),
    )
}

impl ChatDecoder {
    fn apply_choice(
        &mut self,
        choice: ChatChoice,
        answer: &mut AnswerAssembler,
    ) -> Result<(), ModelFault> {
        if let Some(part) = choice.delta {
            answer.push_text(part.content.as_deref().unwrap_or_default());
            if let Some(refusal) = part.refusal.filter(|refusal| !refusal.is_empty()) {
                self.refused = true;
                answer.push_text(&refusal);
            }
            for call in part.tool_calls.unwrap_or_default() {
                self.apply_call(call, answer)?;
            }
        }
        if let Some(reason) = choice.finish_reason {
            // A refusal has the finish reason of an ordinary answer.
            answer.set_finish_reason(if self.refused {
                FinishReason::Refused
            } else {
                parse_finish_reason(&reason)
            });
        }
        Ok(())
    }

    fn apply_call(
        &mut self,
        part: CallPart,
        answer: &mut AnswerAssembler,
    ) -> Result<(), ModelFault> {
        let key = CallKey {
            index: part.index,
            id: part.id.filter(|id| !id.is_empty()),
        };
        let place = self.call_index(key);
        let (name, arguments) = match part.function {
            Some(function) => (function.name, function.arguments.unwrap_or_default()),
            None => (None, String::new()),
        };
        answer.push_call(place, name.as_deref(), &arguments)
    }

    /// Finds the call a part belongs to: by its index, unless it has a different id; without an
    /// index, by its id; without both, the last call.
    fn call_index(&mut self, key: CallKey) -> usize {
        let fits = |known: &CallKey| match (&key.id, &known.id) {
            (Some(id), Some(known_id)) => id == known_id && key.index == known.index,
            _ => key.index.is_none() || key.index == known.index,
        };
        // Newest first, because a server may use one index for several calls.
        match self.calls.iter().rposition(fits) {
            Some(place) => place,
            None => {
                self.calls.push(key);
                self.calls.len() - 1
            }
        }
    }
}

fn parse_finish_reason(reason: &str) -> FinishReason {
    match reason {
        "stop" => FinishReason::Stop,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "length" => FinishReason::Length,
        "content_filter" => FinishReason::Refused,
        _ => FinishReason::Other,
    }
}

impl OpenAiUsagePart {
    fn to_usage(&self) -> Usage {
        let cached = self.prompt_tokens_details.as_ref();
        Usage {
            input_tokens: self.prompt_tokens.unwrap_or(0),
            output_tokens: self.completion_tokens.unwrap_or(0),
            cached_tokens: cached.and_then(|it| it.cached_tokens).unwrap_or(0),
            cache_written_tokens: 0,
        }
    }
}
