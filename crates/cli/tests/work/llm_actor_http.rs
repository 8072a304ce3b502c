//! Models over HTTP, as providers offer them: the whole program with a scripted server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::llm_actor_secrets::find_files_with_text;
use crate::models::messages_text;
use crate::world::{AgentsRun, TRUSTED, TestWorld};

const KEY: &str = "here-5d1f0c3b9a8e7f6d5c4b3a29180f7e6d";

/// An answer of [`ChatServer`]: the request is read, and its connection stays open.
pub(crate) const SILENCE: &str = "";

/// A chat completions server with one scripted answer per request.
pub(crate) struct ChatServer {
    port: u16,
    /// The head and the body of each request.
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl ChatServer {
    pub(crate) fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            let mut open = Vec::new();
            for answer in answers {
                let (stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    assert!(reader.read_line(&mut head).unwrap() > 0);
                }
                let lower = head.to_ascii_lowercase();
                let (_, length) = lower.split_once("content-length:").unwrap();
                let length = length.lines().next().unwrap().trim().parse().unwrap();
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let body = serde_json::from_slice(&body).unwrap();
                seen.lock().unwrap().push((head, body));
                if answer == SILENCE {
                    open.push(reader);
                } else {
                    reader.get_mut().write_all(answer.as_bytes()).unwrap();
                }
            }
            drop(listener);
            while !open.is_empty() {
                thread::park();
            }
        });
        Self { port, requests }
    }

    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        self.requests.lock().unwrap().clone()
    }

    /// Registers the server as provider `here` of this world, which needs no key, with the model
    /// `here/large` and these keys of it.
    pub(crate) fn register_model(&self, world: &TestWorld, keys: &str) {
        world.write(
            "home/.cleveragents/models.yaml",
            &format!(
                "providers: [{{name: here, kind: openai, base_url: 'http://127.0.0.1:{}/v1'}}]\n\
                 models: [{{model: here/large, {keys}}}]\n",
                self.port
            ),
        );
    }

    /// Registers the server as provider `here` of this world, with one model.
    fn register_provider(&self, world: &TestWorld) {
        world.write(
            "home/.cleveragents/models.yaml",
            &format!(
                "providers: [{{name: here, kind: openai, key_variable: HERE_KEY, \
                 base_url: 'http://127.0.0.1:{}/v1'}}]\n\
                 models: [{{model: here/small, context_tokens: 64000, answer_tokens: 1000}}]\n",
                self.port
            ),
        );
    }
}

pub(crate) fn stream_response(parts: &[Value]) -> String {
    let lines: String = parts.iter().map(|it| format!("data: {it}\n\n")).collect();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
         {lines}data: [DONE]\n\n"
    )
}

pub(crate) fn stream_chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

/// Returns an answer that calls a tool.
pub(crate) fn tool_call_response(tool: &str, arguments: &str, finish: &str) -> String {
    let function = json!({ "name": format!("builtin__{tool}"), "arguments": arguments });
    let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
    stream_response(&[
        stream_chunk(&json!({ "role": "assistant", "tool_calls": [call] }), None),
        stream_chunk(&json!({}), Some(finish)),
        json!({ "choices": [], "usage": { "prompt_tokens": 50, "completion_tokens": 7 } }),
    ])
}

pub(crate) fn error_response(status: &str, header: &str) -> String {
    error_response_with(status, header, "not now")
}

fn error_response_with(status: &str, header: &str, message: &str) -> String {
    let body = json!({ "error": { "message": message } }).to_string();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{header}content-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Runs a command with the API key.
fn run_with_key(world: &TestWorld, words: &[&str]) -> AgentsRun {
    let mut command = world.command(&[words, &["--format", "json"]].concat());
    AgentsRun::from_output(command.env("HERE_KEY", KEY).output().unwrap())
}

/// Creates and executes a plan whose worker uses the server.
fn execute_plan(world: &TestWorld, server: &ChatServer) -> (String, AgentsRun) {
    server.register_provider(world);
    world.define_llm_actor_with("coder", "provider: here\nmodel: small\n");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    let run = run_with_key(world, &["plan", "execute", &plan]);
    (plan, run)
}

#[test]
fn a_task_is_executed_over_http() {
    let world = TestWorld::empty();
    world.create_repository("shop");
    let strategy = r#"{"summary":"Make it","confidence":0.9,"steps":[{"title":"Write it"}]}"#;
    let server = ChatServer::start(vec![
        tool_call_response("submit-strategy", strategy, "tool_calls"),
        tool_call_response(
            "file-write",
            r#"{"path":"new","content":"made\n"}"#,
            "tool_calls",
        ),
        tool_call_response("finish", r#"{"summary":"Made"}"#, "tool_calls"),
    ]);
    server.register_provider(&world);
    world
        .run(&["config", "set", "model.default", "here/small"])
        .succeeded();
    let path = world.path("shop").display().to_string();
    let run = run_with_key(&world, &["run", "make it", "--path", &path, "--yes"]);
    let data = run.succeeded().reports_state("apply/applied").data();
    assert_eq!(world.read("shop/new"), "made\n");
    let tokens = json!({ "input": 150, "output": 21, "cached": 0 });
    assert_eq!(data["cost"]["tokens"], tokens, "{data}");
    assert_eq!(data["cost"]["tokens_used"], 3 * 57, "{data}");
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    for (head, body) in &requests {
        assert!(head.contains(KEY), "{head}");
        assert!(!body.to_string().contains(KEY), "{body}");
        assert_eq!(body["model"], "small");
        assert_eq!(body["tool_choice"], "required");
    }
    let file = std::fs::read(world.path("home/.cleveragents/cleveragents.db")).unwrap();
    assert!(!file.windows(KEY.len()).any(|it| it == KEY.as_bytes()));
}

#[test]
fn a_truncated_answer_is_reported_and_its_call_refused() {
    let world = TestWorld::new();
    let cut = stream_response(&[
        stream_chunk(
            &json!({ "role": "assistant", "content": "First I shall" }),
            None,
        ),
        stream_chunk(&json!({}), Some("length")),
    ]);
    let server = ChatServer::start(vec![
        cut,
        tool_call_response("file-write", r#"{"path":"new","content":"ha"#, "length"),
        tool_call_response("finish", r#"{"summary":"Done"}"#, "tool_calls"),
    ]);
    let (plan, run) = execute_plan(&world, &server);
    run.succeeded().reports_state("execute/complete");
    assert_eq!(world.sandbox_files(&plan), world.files("shop"));
    let model_calls = world.model_calls(&plan);
    assert!(messages_text(&model_calls[1]).contains("cut off because it was too long"));
    let last = messages_text(&model_calls[2]);
    assert!(last.contains("not JSON"), "{last}");
    assert_eq!(world.error_kinds(&plan), ["model_output", "tool"]);
    assert_eq!(world.events_of_kind(&plan, "tool_refused").len(), 1);
}

#[test]
fn a_provider_error_is_handled_by_its_status() {
    for (status, header, code, kind, waiting) in [
        (
            "429 Too Many Requests",
            "retry-after: 3600\r\n",
            75,
            "rate_limit",
            Some("until"),
        ),
        ("401 Unauthorized", "", 1, "auth", None),
        ("400 Bad Request", "", 1, "model_output", None),
    ] {
        let world = TestWorld::new();
        let server = ChatServer::start(vec![error_response(status, header)]);
        let (plan, run) = execute_plan(&world, &server);
        assert_eq!(run.code, Some(code), "{status}: {run:?}");
        assert_eq!(world.error_kinds(&plan), [kind], "{status}");
        assert_eq!(server.requests().len(), 1, "{status}");
        match waiting {
            Some(waiting) => world.assert_waiting_for(&plan, waiting),
            None => assert_eq!(world.state(&plan), "execute/errored", "{status}"),
        }
        assert_eq!(world.model_call_states(&plan), ["failed"], "{status}");
    }
}

#[test]
fn a_filtered_answer_is_an_error_and_retried_on_resume() {
    let world = TestWorld::new();
    let held_back = stream_response(&[
        stream_chunk(
            &json!({ "role": "assistant", "content": "First I shall" }),
            None,
        ),
        stream_chunk(&json!({}), Some("content_filter")),
    ]);
    let server = ChatServer::start(vec![
        held_back.clone(),
        held_back,
        tool_call_response("finish", r#"{"summary":"Done"}"#, "tool_calls"),
    ]);
    let (plan, first) = execute_plan(&world, &server);
    let first = first.exits(1).reports_state("execute/errored");
    first.prints("withheld the answer");
    // A resume must not use any part of it as an answer.
    run_with_key(&world, &["plan", "resume", &plan])
        .exits(1)
        .reports_state("execute/errored");
    run_with_key(&world, &["plan", "resume", &plan])
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(server.requests().len(), 3);
    assert_eq!(world.error_kinds(&plan), ["model_output"; 2]);
    let ends = world.model_call_states(&plan);
    assert_eq!(ends, ["failed", "failed", "answered"]);
    assert!(!messages_text(&world.model_calls(&plan)[2]).contains("First I shall"));
}

#[test]
fn an_unreachable_provider_is_retried_and_then_reported() {
    let world = TestWorld::new();
    // The server has no answers, so its port is closed.
    let server = ChatServer::start(Vec::new());
    let (plan, run) = execute_plan(&world, &server);
    run.exits(1)
        .reports_state("execute/errored")
        .prints("here/small");
    assert_eq!(world.error_kinds(&plan), ["transient_network"; 5]);
    assert_eq!(world.model_call_states(&plan), ["failed"; 5]);
}

#[test]
fn a_secret_in_an_error_of_a_provider_is_masked() {
    const SECRET: &str = "hunter2-4f9a8b7c6d5e4f3a";
    let world = TestWorld::new();
    let message = format!("wrong header x-team: {SECRET}");
    let server = ChatServer::start(vec![error_response_with("400 Bad Request", "", &message)]);
    server.register_provider(&world);
    world.define_llm_actor_with("coder", "provider: here\nmodel: small\n");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    let mut command = world.command(&["plan", "execute", &plan, "--format", "json"]);
    let command = command.env("HERE_KEY", KEY).env("TEAM_TOKEN", SECRET);
    let run = AgentsRun::from_output(command.output().unwrap()).exits(1);
    assert!(run.stdout.contains("«secret:TEAM_TOKEN»"), "{run:?}");
    let errors = world.run_json(&["plan", "errors", &plan]).succeeded();
    assert!(errors.stdout.contains("«secret:TEAM_TOKEN»"), "{errors:?}");
    let mut found = Vec::new();
    find_files_with_text(&world.path("home"), SECRET, &mut found);
    assert_eq!(found, [""; 0]);
}
