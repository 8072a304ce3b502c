use cleveragents_domain::model::{
    FinishReason, ModelMessage, ModelOptions, ModelRequest, OfferedTool, RequestedToolCall,
    ToolCallPosition, ToolChoice, Usage,
};
use cleveragents_ports::models::{Delta, ModelErrorKind};
use serde_json::json;

use super::*;
use crate::wire::answer::ANSWER_MAXIMUM;
use crate::wire::failure::ModelFault;
use crate::wire::reader::Decoder;
use crate::wire::stream_checks::{
    assert_fails, assert_reads, assert_truncates, bare_request, call, read_stream, text,
};

fn decoder() -> Box<dyn Decoder> {
    Box::new(ChatDecoder::default())
}

/// Chunks, each an event, with the framing that vendors add.
fn stream(chunks: &[&str]) -> String {
    chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect()
}

const HELLO: &str = r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x"}"#;
const TEXT_ONE: &str =
    r#"{"choices":[{"index":0,"delta":{"content":"Grüße, 日本"},"finish_reason":null}]}"#;
const TEXT_TWO: &str =
    r#"{"choices":[{"index":0,"delta":{"content":"!\n","reasoning_content":"hm"}}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":34,"completion_tokens":20,"total_tokens":54,"prompt_tokens_details":{"cached_tokens":12,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}"#;

fn usage() -> Delta {
    Delta::Usage(Usage {
        input_tokens: 34,
        output_tokens: 20,
        cached_tokens: 12,
        cache_written_tokens: 0,
    })
}

#[test]
fn text_does_not_depend_on_chunk_boundaries() {
    let expected = [
        text("Grüße, 日本"),
        text("!\n"),
        usage(),
        Delta::Finished(FinishReason::Stop),
    ];
    let whole = stream(&[HELLO, TEXT_ONE, TEXT_TWO, STOP, USAGE, "[DONE]"]);
    assert_reads(decoder, &whole, &expected);
    assert_truncates(decoder, &whole, &expected);
    let without_done = stream(&[HELLO, TEXT_ONE, TEXT_TWO, STOP, USAGE]);
    assert_reads(decoder, &without_done, &expected);
    let after_done = format!("{whole}data: {{not json\n\n");
    assert_reads(decoder, &after_done, &expected);
}

#[test]
fn parallel_calls_are_distinguished_by_index() {
    let chunks = [
        r#"{"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_A","type":"function","function":{"name":"builtin__file-read","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"call_B","type":"function","function":{"name":"builtin__git-status","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"é\"}"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        "[DONE]",
    ];
    let expected = [
        call(0, Some("builtin/file-read"), ""),
        call(0, None, "{\"path\":"),
        call(1, Some("builtin/git-status"), ""),
        call(0, None, "\"é\"}"),
        call(1, None, "{}"),
        Delta::Finished(FinishReason::ToolCalls),
    ];
    assert_reads(decoder, &stream(&chunks), &expected);
}

/// Servers that omit the index, use one index for all, repeat names, or send `stop`.
#[test]
fn calls_without_reliable_indexes_are_distinguished() {
    let part =
        |fields: &str| format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{{{fields}}}]}}}}]}}"#);
    let by_id = [
        part(r#""id":"a","function":{"name":"t__one","arguments":"{}"}"#),
        part(r#""id":"b","function":{"name":"t__two","arguments":"{\"x\":"}"#),
        part(r#""function":{"arguments":"1}"}"#),
    ];
    let one_index = [
        part(r#""index":0,"id":"a","function":{"name":"t__one","arguments":"{}"}"#),
        part(r#""index":0,"id":"b","function":{"name":"t__two","arguments":"{\"x\":"}"#),
        part(r#""index":0,"function":{"name":"t__two","arguments":"1}"}"#),
    ];
    let late_name = [
        part(r#""index":0,"id":"a","function":{"name":"","arguments":"{}"}"#),
        part(r#""index":0,"id":"a","function":{"name":"t__one"}"#),
        part(r#""index":1,"id":"b","function":{"name":"t__two","arguments":"{\"x\":1}"}"#),
    ];
    for parts in [by_id, one_index, late_name] {
        let chunks = [parts[0].as_str(), &parts[1], &parts[2], STOP];
        let (deltas, outcome) = read_stream(decoder(), None, [stream(&chunks).as_bytes()]);
        assert_eq!(outcome, Ok(()));
        let mut calls = vec![(String::new(), String::new()); 2];
        for delta in &deltas {
            if let Delta::ToolCall {
                index,
                tool,
                arguments,
            } = delta
            {
                calls[*index]
                    .0
                    .push_str(tool.as_deref().unwrap_or_default());
                calls[*index].1.push_str(arguments);
            }
        }
        let expected = [("t/one", "{}"), ("t/two", "{\"x\":1}")];
        assert_eq!(
            calls,
            expected.map(|(name, it)| (name.to_owned(), it.to_owned()))
        );
        let last = Delta::Finished(FinishReason::ToolCalls);
        assert_eq!(deltas.last(), Some(&last));
    }
}

#[test]
fn finish_reasons_are_parsed() {
    for (reason, expected) in [
        ("stop", FinishReason::Stop),
        ("length", FinishReason::Length),
        ("content_filter", FinishReason::Refused),
        ("tool_calls", FinishReason::Stop),
        ("insufficient_system_resource", FinishReason::Other),
    ] {
        let chunk = STOP.replace("stop", reason);
        let (deltas, _) = read_stream(decoder(), None, [stream(&[&chunk]).as_bytes()]);
        assert_eq!(deltas, [Delta::Finished(expected)], "{reason}");
    }
    let refusal = r#"{"choices":[{"delta":{"refusal":"I cannot."}}]}"#;
    let (deltas, _) = read_stream(decoder(), None, [stream(&[refusal, STOP]).as_bytes()]);
    assert_eq!(
        deltas,
        [text("I cannot."), Delta::Finished(FinishReason::Refused)]
    );
}

#[test]
fn a_mid_stream_error_keeps_its_message() {
    for (error, kind) in [
        (
            r#"{"message":"The server had an error","type":"server_error"}"#,
            ModelErrorKind::Server,
        ),
        (
            r#"{"message":"slow down","type":"rate_limit_error","code":429}"#,
            ModelErrorKind::RateLimit,
        ),
        (
            r#"{"message":"maximum context length is 8192","code":400}"#,
            ModelErrorKind::ContextOverflow,
        ),
        (r#"{"message":"key","code":401}"#, ModelErrorKind::Auth),
    ] {
        let chunk = format!(r#"{{"error":{error},"choices":[]}}"#);
        let words: serde_json::Value = serde_json::from_str(error).unwrap();
        let words = words["message"].as_str().unwrap();
        let fault = ModelFault::new(
            kind,
            format!("it stopped in the middle of its answer: {words}"),
        );
        let stream = stream(&[HELLO, TEXT_ONE, &chunk, TEXT_TWO]);
        assert_fails(decoder, &stream, &[text("Grüße, 日本")], &fault);
    }
}

#[test]
fn unreadable_chunks_are_malformed() {
    for chunk in [
        "{\"choices\": [",
        "<html>",
        "[1]",
        r#"{"choices":[{"delta":{"content":5}}]}"#,
    ] {
        let (_, outcome) = read_stream(decoder(), None, [stream(&[TEXT_ONE, chunk]).as_bytes()]);
        let kind = outcome.unwrap_err().kind;
        assert_eq!(kind, ModelErrorKind::Malformed, "{chunk}");
    }
    let nameless =
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#;
    let (_, outcome) = read_stream(decoder(), None, [stream(&[nameless, STOP]).as_bytes()]);
    let fault = outcome.unwrap_err();
    assert_eq!(fault.message, "its answer asks for a tool without a name");
    let many: String = (0..300)
        .map(|index| format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{index},\"function\":{{\"name\":\"a\"}}}}]}}}}]}}\n\n"))
        .collect();
    let (_, outcome) = read_stream(decoder(), None, [many.as_bytes()]);
    let fault = outcome.unwrap_err();
    assert_eq!(fault.message, "its answer asks for more than 256 tools");
}

#[test]
fn an_endless_answer_is_cut_off() {
    let line = format!(
        "data: {}\n\n",
        TEXT_ONE.replace("Grüße, 日本", &"x".repeat(1 << 20))
    );
    let pieces = std::iter::repeat_n(line.as_bytes(), 100);
    let (deltas, outcome) = read_stream(decoder(), None, pieces);
    assert_eq!(outcome, Ok(()));
    assert_eq!(deltas.last(), Some(&Delta::Finished(FinishReason::Length)));
    assert_eq!(deltas.len(), ANSWER_MAXIMUM / (1 << 20) + 1);
}

/// A conversation in which one call had valid arguments and one did not.
fn conversation() -> ModelRequest {
    let place = ToolCallPosition { turn: 2, slot: 1 };
    let mut request = bare_request();
    request.messages = vec![
        ModelMessage::System {
            text: "Be brief.".to_owned(),
        },
        ModelMessage::User {
            text: "Read it".to_owned(),
        },
        ModelMessage::Assistant {
            text: String::new(),
            tool_calls: vec![
                RequestedToolCall {
                    place,
                    tool: "builtin/file-read".to_owned(),
                    arguments: "{\"path\": \"a\"}".to_owned(),
                },
                RequestedToolCall {
                    place: ToolCallPosition { turn: 2, slot: 2 },
                    tool: "x".to_owned(),
                    arguments: "{\"pa".to_owned(),
                },
            ],
        },
        ModelMessage::Tool {
            call: place,
            text: "content".to_owned(),
        },
    ];
    request.tools = vec![OfferedTool {
        name: "builtin/file-read".parse().unwrap(),
        description: "Reads".to_owned(),
        input_schema: json!({"type": "object"}),
    }];
    request.tool_choice = ToolChoice::Required;
    request.output_schema = Some(json!({"type": "object"}));
    request.options = ModelOptions {
        temperature: Some(0.5),
        top_p: Some(0.9),
        max_tokens: None,
    };
    request
}

#[test]
fn a_request_body_is_complete_and_deterministic() {
    let request = conversation();
    let body = request_body("m", &request, OpenAiDialect::Compatible, 77);
    assert_eq!(
        body,
        json!({
            "model": "m",
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": 77,
            "temperature": 0.5,
            "top_p": 0.9,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Read it"},
                {"role": "assistant", "content": "", "tool_calls": [
                    {"id": "call_2_1", "type": "function", "function": {
                        "name": "builtin__file-read", "arguments": "{\"path\":\"a\"}"}},
                    {"id": "call_2_2", "type": "function", "function": {
                        "name": "x", "arguments": "{\"unreadable\":\"{\\\"pa\"}"}},
                ]},
                {"role": "tool", "tool_call_id": "call_2_1", "content": "content"},
            ],
            "tools": [{"type": "function", "function": {
                "name": "builtin__file-read", "description": "Reads", "parameters": {"type": "object"}}}],
            "tool_choice": "required",
            "response_format": {"type": "json_schema", "json_schema": {
                "name": "answer", "schema": {"type": "object"}}},
        })
    );
    let bare = super::request_body("m", &bare_request(), OpenAiDialect::Original, 5);
    assert_eq!(bare["max_completion_tokens"], 5);
    assert!(bare.get("tools").is_none() && bare.get("tool_choice").is_none());
}
