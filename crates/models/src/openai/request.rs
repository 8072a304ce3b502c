//! Builds a request for the chat completions API.

use cleveragents_domain::model::{
    ModelMessage, ModelRequest, OfferedTool, RequestedToolCall, ToolCallPosition, ToolChoice,
};
use serde_json::{Value, json};

use crate::wire::arguments;
use crate::wire::tool_names::ToolNames;

/// The differences between servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenAiDialect {
    /// OpenAI itself, whose newer models refuse `max_tokens`.
    Original,
    /// All other servers, many of which support nothing newer.
    Compatible,
}

impl OpenAiDialect {
    pub(crate) fn from_base_url(base_url: &str) -> Self {
        if base_url.starts_with("https://api.openai.com") {
            Self::Original
        } else {
            Self::Compatible
        }
    }

    fn max_tokens_key(self) -> &'static str {
        match self {
            Self::Original => "max_completion_tokens",
            Self::Compatible => "max_tokens",
        }
    }
}

/// Builds the request body. `answer_tokens` is the default limit of the answer.
pub(crate) fn request_body(
    model: &str,
    request: &ModelRequest,
    dialect: OpenAiDialect,
    answer_tokens: u64,
) -> Value {
    let options = &request.options;
    let messages: Vec<Value> = request.messages.iter().map(message).collect();
    // Without `include_usage` a stream does not report its tokens.
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    body[dialect.max_tokens_key()] = options.max_tokens.unwrap_or(answer_tokens).into();
    if let Some(temperature) = options.temperature {
        body["temperature"] = temperature.into();
    }
    if let Some(top_p) = options.top_p {
        body["top_p"] = top_p.into();
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
        body["tool_choice"] = tool_choice(request.tool_choice).into();
    }
    if let Some(schema) = &request.output_schema {
        body["response_format"] = json!({
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema},
        });
    }
    body
}

fn tool_choice(choice: ToolChoice) -> &'static str {
    match choice {
        ToolChoice::Auto => "auto",
        ToolChoice::Required => "required",
        ToolChoice::None => "none",
    }
}

fn tool(tool: &OfferedTool) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": ToolNames::encode(&tool.name.to_string()),
            "description": tool.description,
            "parameters": tool.input_schema,
        },
    })
}

fn message(message: &ModelMessage) -> Value {
    match message {
        ModelMessage::System { text } => json!({"role": "system", "content": text}),
        ModelMessage::User { text } => json!({"role": "user", "content": text}),
        ModelMessage::Tool { call, text } => {
            json!({"role": "tool", "tool_call_id": call_id(*call), "content": text})
        }
        ModelMessage::Assistant { text, tool_calls } => {
            let mut message = json!({"role": "assistant", "content": text});
            if !tool_calls.is_empty() {
                message["tool_calls"] = tool_calls.iter().map(call).collect();
            }
            message
        }
    }
}

fn call(call: &RequestedToolCall) -> Value {
    json!({
        "id": call_id(call.place),
        "type": "function",
        "function": {
            "name": ToolNames::encode(&call.tool),
            "arguments": Value::Object(arguments::parse_object(&call.arguments)).to_string(),
        },
    })
}

/// An id derived only from the call's position, so that the same conversation is always encoded to
/// the same bytes.
pub(crate) fn call_id(place: ToolCallPosition) -> String {
    format!("call_{}_{}", place.turn, place.slot)
}
