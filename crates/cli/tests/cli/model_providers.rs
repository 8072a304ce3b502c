//! `agents diagnostics` asks providers for their models.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::data_directory::check;
use crate::environment::TestEnvironment;

const KEY: &str = "sk-hunter2-hunter2";

/// Answers one request and returns its head.
fn serve_once(status: &'static str, body: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = thread::spawn(move || answer(&listener.accept().unwrap().0, status, body));
    (url, served)
}

fn answer(mut stream: &TcpStream, status: &str, body: &str) -> String {
    let mut head = String::new();
    let mut lines = BufReader::new(stream);
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(lines.read_line(&mut head).unwrap(), 0);
    }
    let length = body.len();
    let answer =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).unwrap();
    head
}

/// An environment with one provider of this address and kind.
fn with_provider(url: &str, kind: &str) -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    environment.set_variable("PATH", crate::environment::host_path());
    environment.set_variable("WORKSTATION_KEY", KEY);
    environment.write(
        ".cleveragents/models.yaml",
        format!(
            "providers: [{{name: workstation, kind: {kind}, base_url: '{url}', \
             key_variable: WORKSTATION_KEY}}]\n"
        ),
    );
    environment
}

fn diagnose(environment: &TestEnvironment, arguments: &[&str]) -> Value {
    let arguments = [&["diagnostics", "-f", "json"], arguments].concat();
    let run = environment.run(&arguments).succeeded();
    assert!(!format!("{run:?}").contains("hunter2"), "{run:?}");
    run.json()["data"].clone()
}

#[test]
fn a_provider_that_answers_is_reported_with_its_models_and_the_time() {
    for (kind, path, header) in [
        ("openai", "GET /v1/models ", "authorization: bearer sk-"),
        ("anthropic", "GET /v1/models?limit=1000 ", "x-api-key: sk-"),
    ] {
        let (url, served) = serve_once("200 OK", r#"{"data":[{"id":"a"},{"id":"b"}]}"#);
        let environment = with_provider(&format!("{url}/v1"), kind);
        let found = check(&diagnose(&environment, &[]), "provider workstation");
        assert_eq!(found["status"], "ok", "{found}");
        let detail = found["detail"].as_str().unwrap();
        assert!(detail.starts_with("2 models, answered in "), "{detail}");
        assert!(detail.ends_with("(key from WORKSTATION_KEY)"), "{detail}");
        assert!(found["duration_ms"].is_u64(), "{found}");
        let head = served.join().unwrap();
        assert!(head.starts_with(path), "{head}");
        assert!(head.to_lowercase().contains(header), "{head}");
    }
}

#[test]
fn a_refused_key_is_a_warning_that_names_its_source() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-hunter2-hunter2"}}"#;
    let (url, served) = serve_once("401 Unauthorized", body);
    let environment = with_provider(&format!("{url}/v1"), "openai");
    let found = check(&diagnose(&environment, &[]), "provider workstation");
    assert_eq!(found["status"], "warning");
    let detail = found["detail"].as_str().unwrap();
    assert!(detail.contains("401 Unauthorized"), "{detail}");
    let hint = found["hint"].as_str().unwrap();
    assert!(hint.contains("the key from WORKSTATION_KEY"), "{hint}");
    served.join().unwrap();
}

#[test]
fn a_provider_that_cannot_be_reached_is_a_warning() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let environment = with_provider(&format!("http://{address}/v1"), "openai");
    let found = check(&diagnose(&environment, &[]), "provider workstation");
    assert_eq!(found["status"], "warning");
    let detail = found["detail"].as_str().unwrap();
    assert!(detail.contains("it cannot be reached"), "{detail}");
    assert_eq!(found["duration_ms"], Value::Null);
}

#[test]
fn a_redirect_does_not_get_the_key() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let location = format!("http://{}/v1/models", other.local_addr().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let status = format!("307 Temporary Redirect\r\nlocation: {location}");
    let served = thread::spawn(move || answer(&listener.accept().unwrap().0, &status, ""));
    let environment = with_provider(&url, "openai");
    let found = check(&diagnose(&environment, &[]), "provider workstation");
    assert_eq!(found["status"], "warning", "{found}");
    served.join().unwrap();
    assert!(other.accept().is_err(), "it was asked");
}

#[test]
fn offline_no_provider_is_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let environment = with_provider(&url, "openai");
    let data = diagnose(&environment, &["--offline"]);
    let checks = data["checks"].as_array().unwrap();
    let asked = checks
        .iter()
        .filter_map(|it| it["name"].as_str())
        .any(|it| it.starts_with("provider "));
    assert!(!asked, "{data}");
    assert!(listener.accept().is_err(), "it was asked");
}

#[test]
fn scripted_models_have_no_provider_to_ask() {
    let mut environment = TestEnvironment::new();
    environment.set_variable("PATH", crate::environment::host_path());
    environment.set_variable("CLEVERAGENTS_MODEL_DEFAULT", "scripted/turns.yaml");
    let found = check(&diagnose(&environment, &[]), "provider scripted");
    assert_eq!(found["status"], "ok", "{found}");
    let detail = found["detail"].as_str().unwrap();
    assert!(detail.contains("scripted models are files"), "{detail}");
}

#[test]
fn a_single_user_needs_no_postgresql() {
    let mut environment = TestEnvironment::new();
    environment.set_variable("PATH", crate::environment::host_path());
    let found = check(&diagnose(&environment, &[]), "postgresql");
    assert_eq!(found["status"], "ok", "{found}");
}
