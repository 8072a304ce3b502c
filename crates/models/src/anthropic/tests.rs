use cleveragents_domain::model::{
    FinishReason, ModelMessage, ModelRequest, OfferedTool, RequestedToolCall, ToolCallPosition,
    ToolChoice, Usage,
};
use cleveragents_ports::models::{Delta, ModelErrorKind};
use serde_json::json;

use super::*;
use crate::wire::failure::ModelFault;
use crate::wire::reader::Decoder;
use crate::wire::stream_checks::{
    assert_fails, assert_reads, assert_truncates, bare_request, call, read_stream, text,
};

fn decoder() -> Box<dyn Decoder> {
    Box::new(MessagesDecoder::default())
}

/// Events, each preceded by its name.
fn stream(events: &[&str]) -> String {
    let line = |data: &&str| {
        let value: serde_json::Value = serde_json::from_str(data).unwrap();
        let name = value["type"].as_str().unwrap().to_owned();
        format!("event: {name}\ndata: {data}\n\n")
    };
    events.iter().map(line).collect()
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":300,"cache_read_input_tokens":2000,"cache_creation":{"ephemeral_5m_input_tokens":300},"output_tokens":1,"service_tier":"standard"}}}"#;
const TEXT: &str =
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
const PING: &str = r#"{"type":"ping"}"#;
const TEXT_ONE: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüße, 日本"}}"#;
const TEXT_TWO: &str =
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"!\n"}}"#;
const STOP: &str = r#"{"type":"content_block_stop","index":0}"#;
const END_TURN: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}"#;
const TOOL_USE: &str =
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":15}}"#;
const MESSAGE_STOP: &str = r#"{"type":"message_stop"}"#;

fn usage(output_tokens: u64) -> Delta {
    Delta::Usage(Usage {
        input_tokens: 2310,
        output_tokens,
        cached_tokens: 2000,
        cache_written_tokens: 300,
    })
}

#[test]
fn text_does_not_depend_on_chunk_boundaries() {
    let expected = [
        usage(1),
        text("Grüße, 日本"),
        text("!\n"),
        usage(15),
        Delta::Finished(FinishReason::Stop),
    ];
    let events = [
        START,
        TEXT,
        PING,
        TEXT_ONE,
        TEXT_TWO,
        STOP,
        END_TURN,
        MESSAGE_STOP,
    ];
    assert_reads(decoder, &stream(&events), &expected);
    assert_truncates(decoder, &stream(&events), &expected);
    assert_reads(decoder, &stream(&events[..7]), &expected);
    let unknown = r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{}}}"#;
    let news = r#"{"type":"news","x":[1]}"#;
    let events = [
        START,
        TEXT,
        news,
        TEXT_ONE,
        unknown,
        TEXT_TWO,
        STOP,
        END_TURN,
        MESSAGE_STOP,
    ];
    assert_reads(decoder, &stream(&events), &expected);
}

#[test]
fn calls_come_block_by_block() {
    let events = [
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"x"}}"#,
        STOP,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"builtin__file-read","input":{}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"é"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"}"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_2","name":"builtin__git-status","input":{}}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_3","name":"x__y","input":{"all":true}}}"#,
        r#"{"type":"content_block_stop","index":3}"#,
        TOOL_USE,
        MESSAGE_STOP,
    ];
    let expected = [
        usage(1),
        call(0, Some("builtin/file-read"), ""),
        call(0, None, "{\"path\": \"é"),
        call(0, None, "\"}"),
        call(1, Some("builtin/git-status"), ""),
        call(2, Some("x/y"), ""),
        call(2, None, "{\"all\":true}"),
        usage(15),
        call(1, None, "{}"),
        Delta::Finished(FinishReason::ToolCalls),
    ];
    assert_reads(decoder, &stream(&events), &expected);
}

#[test]
fn a_structured_answer_is_decoded_as_text() {
    let events = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"structured-answer","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}"#,
        STOP,
        TOOL_USE,
        MESSAGE_STOP,
    ];
    let (deltas, outcome) = read_stream(decoder(), Some(TEXT_TOOL), [stream(&events).as_bytes()]);
    assert_eq!(outcome, Ok(()));
    assert_eq!(deltas[0], text("{\"a\":1}"));
    assert_eq!(deltas.last(), Some(&Delta::Finished(FinishReason::Stop)));
}

#[test]
fn finish_reasons_are_parsed() {
    for (reason, expected) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("refusal", FinishReason::Refused),
        ("pause_turn", FinishReason::Other),
    ] {
        let event = END_TURN.replace("end_turn", reason);
        let (deltas, _) = read_stream(decoder(), None, [stream(&[&event]).as_bytes()]);
        assert_eq!(deltas.last(), Some(&Delta::Finished(expected)), "{reason}");
    }
}

#[test]
fn a_mid_stream_error_keeps_its_message() {
    for (name, kind) in [
        ("overloaded_error", ModelErrorKind::Server),
        ("api_error", ModelErrorKind::Server),
        ("rate_limit_error", ModelErrorKind::RateLimit),
        ("timeout_error", ModelErrorKind::Timeout),
        ("authentication_error", ModelErrorKind::Auth),
        ("permission_error", ModelErrorKind::Auth),
        ("invalid_request_error", ModelErrorKind::InvalidRequest),
        ("request_too_large", ModelErrorKind::ContextOverflow),
        ("not_found_error", ModelErrorKind::Unavailable),
    ] {
        let event = format!(r#"{{"type":"error","error":{{"type":"{name}","message":"Sorry"}}}}"#);
        let fault = ModelFault::new(kind, "it stopped in the middle of its answer: Sorry");
        let events = stream(&[START, TEXT, TEXT_ONE, &event, TEXT_TWO]);
        assert_fails(decoder, &events, &[usage(1), text("Grüße, 日本")], &fault);
    }
}

#[test]
fn unreadable_events_are_malformed() {
    let stray = r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{"}}"#;
    for data in ["{\"type\":", "[]", stray] {
        let text = format!("event: content_block_delta\ndata: {data}\n\n");
        let (_, outcome) = read_stream(decoder(), None, [text.as_bytes()]);
        assert_eq!(
            outcome.unwrap_err().kind,
            ModelErrorKind::Malformed,
            "{data}"
        );
    }
}

/// A conversation with two parallel tool calls.
fn conversation() -> ModelRequest {
    let places = [1, 2].map(|slot| ToolCallPosition { turn: 1, slot });
    let mut request = bare_request();
    request.messages = vec![
        ModelMessage::System {
            text: "Be brief.".to_owned(),
        },
        ModelMessage::System {
            text: "Be kind.".to_owned(),
        },
        ModelMessage::User {
            text: "Read both".to_owned(),
        },
        ModelMessage::Assistant {
            text: "Well.".to_owned(),
            tool_calls: places
                .map(|place| RequestedToolCall {
                    place,
                    tool: "builtin/file-read".to_owned(),
                    arguments: "{}".to_owned(),
                })
                .to_vec(),
        },
        ModelMessage::Tool {
            call: places[0],
            text: "one".to_owned(),
        },
        ModelMessage::Tool {
            call: places[1],
            text: "two".to_owned(),
        },
        ModelMessage::User {
            text: "Go on".to_owned(),
        },
    ];
    request.tools = vec![OfferedTool {
        name: "builtin/file-read".parse().unwrap(),
        description: "Reads".to_owned(),
        input_schema: json!({"type": "object"}),
    }];
    request.tool_choice = ToolChoice::Required;
    request
}

#[test]
fn a_request_has_turns_and_cache_marks() {
    let request = conversation();
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        request_body("m", &request, 77),
        json!({
            "model": "m",
            "stream": true,
            "max_tokens": 77,
            "system": [{"type": "text", "text": "Be brief.\n\nBe kind.", "cache_control": mark}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "Read both", "cache_control": mark}]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "Well."},
                    {"type": "tool_use", "id": "call_1_1", "name": "builtin__file-read", "input": {}},
                    {"type": "tool_use", "id": "call_1_2", "name": "builtin__file-read", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "call_1_1", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "call_1_2", "content": "two"},
                    {"type": "text", "text": "Go on", "cache_control": mark}]},
            ],
            "tools": [{"name": "builtin__file-read", "description": "Reads",
                "input_schema": {"type": "object"}, "cache_control": mark}],
            "tool_choice": {"type": "any"},
        })
    );
}

#[test]
fn an_output_schema_is_sent_as_a_tool() {
    let mut request = bare_request();
    request.output_schema = Some(json!({"type": "object", "required": ["a"]}));
    let body = request_body("m", &request, 5);
    assert_eq!(body["tools"][0]["name"], TEXT_TOOL);
    assert_eq!(body["tools"][0]["input_schema"]["required"], json!(["a"]));
    assert_eq!(body["tool_choice"], json!({"type": "any"}));
    assert!(
        super::request_body("m", &bare_request(), 5)
            .get("tools")
            .is_none()
    );
}
