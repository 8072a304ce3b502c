//! Builds a request for the messages API.

use cleveragents_domain::model::{
    ModelMessage, ModelRequest, OfferedTool, RequestedToolCall, ToolChoice,
};
use serde_json::{Value, json};

use crate::openai::call_id;
use crate::wire::arguments;
use crate::wire::tool_names::ToolNames;

/// The tool whose arguments are the answer, for answers with a schema. No other tool has this
/// encoded name, because all of them have a namespace.
pub(crate) const TEXT_TOOL: &str = "structured-answer";

/// Number of the last user turns that are marked for the vendor's cache.
const CACHED_TURNS: usize = 2;

/// Builds the request body. `answer_tokens` is the default limit of the answer.
pub(crate) fn request_body(model: &str, request: &ModelRequest, answer_tokens: u64) -> Value {
    let options = &request.options;
    let (system, mut messages) = conversation(&request.messages);
    mark_cached_turns(&mut messages);
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": true,
        "max_tokens": options.max_tokens.unwrap_or(answer_tokens),
    });
    if !system.is_empty() {
        body["system"] = json!([with_cache_control(json!({"type": "text", "text": system}))]);
    }
    if let Some(temperature) = options.temperature {
        body["temperature"] = temperature.into();
    }
    if let Some(top_p) = options.top_p {
        body["top_p"] = top_p.into();
    }
    let tools = tools(request);
    if !tools.is_empty() {
        body["tools"] = tools.into();
        body["tool_choice"] = json!({"type": tool_choice(request)});
    }
    body
}

fn tool_choice(request: &ModelRequest) -> &'static str {
    match (&request.output_schema, request.tool_choice) {
        // The answer is a call of `TEXT_TOOL`, so the model must call a tool.
        (Some(_), _) | (None, ToolChoice::Required) => "any",
        (None, ToolChoice::Auto) => "auto",
        (None, ToolChoice::None) => "none",
    }
}

fn tools(request: &ModelRequest) -> Vec<Value> {
    let mut tools: Vec<Value> = match (&request.output_schema, request.tool_choice) {
        // Without tool calls only the tool of the answer is offered.
        (Some(_), ToolChoice::None) => Vec::new(),
        _ => request.tools.iter().map(tool).collect(),
    };
    if let Some(schema) = &request.output_schema {
        tools.push(json!({
            "name": TEXT_TOOL,
            "description": "Returns the answer in the required format.",
            "input_schema": schema,
        }));
    }
    // The mark on the last tool covers all of them.
    if let Some(last) = tools.last_mut() {
        *last = with_cache_control(last.take());
    }
    tools
}

fn tool(tool: &OfferedTool) -> Value {
    json!({
        "name": ToolNames::encode(&tool.name.to_string()),
        "description": tool.description,
        "input_schema": tool.input_schema,
    })
}

/// Marks everything up to here as worth caching for the next request.
fn with_cache_control(mut block: Value) -> Value {
    block["cache_control"] = json!({"type": "ephemeral"});
    block
}

fn mark_cached_turns(messages: &mut [Value]) {
    let turns = messages.iter_mut().rev();
    let of_user = turns.filter(|message| message["role"] == "user");
    for message in of_user.take(CACHED_TURNS) {
        let blocks = message["content"].as_array_mut();
        if let Some(last) = blocks.and_then(|blocks| blocks.last_mut()) {
            *last = with_cache_control(last.take());
        }
    }
}

/// Returns the system prompt and the turns. Adjacent messages of one role are merged into one turn.
fn conversation(all: &[ModelMessage]) -> (String, Vec<Value>) {
    let is_system = |message: &&ModelMessage| matches!(message, ModelMessage::System { .. });
    // The API takes one system prompt, before all turns; a later one becomes a turn of the user.
    let leading = all.iter().take_while(is_system).count();
    let system: Vec<&str> = all[..leading]
        .iter()
        .map(|message| match message {
            ModelMessage::System { text } => text.as_str(),
            _ => "",
        })
        .collect();
    let mut turns: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in &all[leading..] {
        let (role, blocks) = turn(message);
        match turns.last_mut() {
            Some((last, so_far)) if *last == role => so_far.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    // The vendor refuses a turn without content.
    let with_content = turns.into_iter().filter(|(_, blocks)| !blocks.is_empty());
    let messages = with_content
        .map(|(role, blocks)| json!({"role": role, "content": blocks}))
        .collect();
    (system.join("\n\n"), messages)
}

fn turn(message: &ModelMessage) -> (&'static str, Vec<Value>) {
    match message {
        ModelMessage::System { text } | ModelMessage::User { text } => ("user", text_block(text)),
        ModelMessage::Tool { call, text } => {
            let result = json!({
                "type": "tool_result",
                "tool_use_id": call_id(*call),
                "content": text,
            });
            ("user", vec![result])
        }
        ModelMessage::Assistant { text, tool_calls } => {
            let mut blocks = text_block(text);
            blocks.extend(tool_calls.iter().map(call));
            ("assistant", blocks)
        }
    }
}

/// The vendor refuses empty texts.
fn text_block(text: &str) -> Vec<Value> {
    if text.trim().is_empty() {
        Vec::new()
    } else {
        vec![json!({"type": "text", "text": text})]
    }
}

fn call(call: &RequestedToolCall) -> Value {
    json!({
        "type": "tool_use",
        "id": call_id(call.place),
        "name": ToolNames::encode(&call.tool),
        "input": arguments::parse_object(&call.arguments),
    })
}
