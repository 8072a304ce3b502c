//! Reading: windows, limits, and binary content.

use cleveragents_ports::StopReason;
use cleveragents_ports::tools::ToolFailure;
use serde_json::json;

use crate::fixture::{ToolFixture, touched};

#[test]
fn a_file_is_read_unchanged() {
    let fixture = ToolFixture::new();
    fixture.write("a/b.txt", "one\r\ntwo\nthree");
    let output = fixture
        .run("file-read", &json!({"path": "./a//b.txt"}))
        .unwrap();
    let hash = blake3::hash(b"one\r\ntwo\nthree").to_hex().to_string();
    assert_eq!(
        output.data,
        json!({
            "path": "a/b.txt",
            "content": "one\r\ntwo\nthree",
            "start_line": 1,
            "end_line": 3,
            "total_lines": 3,
            "truncated": false,
            "binary": false,
            "size": 14,
            "hash": hash,
        })
    );
    assert_eq!(output.touched, touched(&[]));
    assert!(
        fixture
            .stamps
            .check_replace(&"a/b.txt".parse().unwrap(), &hash)
            .is_ok()
    );
}

#[test]
fn lines_are_paged_through() {
    let fixture = ToolFixture::new();
    let lines: Vec<String> = (1..=4500).map(|number| format!("{number}\n")).collect();
    fixture.write("long", lines.concat());
    let first = fixture.read("long");
    assert_eq!(first["end_line"], 2000);
    assert_eq!(first["total_lines"], 4500);
    assert_eq!(first["truncated"], true);
    let part = json!({"path": "long", "start_line": 4499, "end_line": 9999});
    let last = fixture.data("file-read", &part);
    assert_eq!(last["content"], "4499\n4500\n");
    assert_eq!(last["truncated"], false);
    for (start, end, said) in [
        (4501, None, "long has 4500 lines, there is no line 4501"),
        (3, Some(2), "end_line 2 is before start_line 3"),
    ] {
        let input = match end {
            Some(end) => json!({"path": "long", "start_line": start, "end_line": end}),
            None => json!({"path": "long", "start_line": start}),
        };
        assert_eq!(fixture.failure("file-read", &input).to_string(), said);
    }
}

#[test]
fn a_binary_file_is_described_and_not_shown() {
    let fixture = ToolFixture::new();
    fixture.write("image", b"\x89PNG\0\0\0");
    let data = fixture.read("image");
    assert_eq!(data["binary"], true);
    assert_eq!(data["size"], 7);
    assert_eq!(data.get("content"), None);
    assert!(data["hash"].as_str().unwrap().len() == 64);
}

#[test]
fn empty_and_non_utf8_files_can_be_read() {
    let fixture = ToolFixture::new();
    fixture.write("empty", "");
    let data = fixture.read("empty");
    assert_eq!(
        (&data["content"], &data["total_lines"]),
        (&json!(""), &json!(0))
    );
    fixture.write("latin", b"caf\xe9\n");
    let data = fixture.read("latin");
    assert_eq!(data["content"], "caf\u{fffd}\n");
    assert!(data["note"].as_str().unwrap().contains("UTF-8"));
}

#[test]
fn non_utf8_names_are_read_by_their_encoded_form() {
    use std::os::unix::ffi::OsStrExt;
    let fixture = ToolFixture::new();
    let odd = std::ffi::OsStr::from_bytes(b"odd \xff%.txt");
    crate::fixture::write_file(&fixture.path("").join(odd), b"x");
    assert_eq!(fixture.read("odd %FF%25.txt")["content"], "x");
    let listed = fixture.data("file-list", &json!({}));
    assert_eq!(listed["entries"][0]["path"], "odd %FF%25.txt");
}

#[test]
fn a_file_of_50_megabytes_gives_a_small_output() {
    let fixture = ToolFixture::new();
    fixture.write("huge", "0123456789abcde\n".repeat(50 << 16));
    let data = fixture.read("huge");
    assert_eq!(data["total_lines"], 50 << 16);
    assert_eq!(data["size"], 50 << 20);
    assert!(data.to_string().len() < 300 << 10);
    let edit = json!({"path": "huge", "old": "0", "new": "1", "all": true});
    let failure = fixture.failure("file-edit", &edit).to_string();
    assert!(failure.contains("larger than 32 MiB"), "{failure}");
}

#[test]
fn a_stop_signal_stops_every_tool() {
    let fixture = ToolFixture::new();
    fixture.write("a", "x");
    fixture.stop.stop(StopReason::Cancelled);
    for (name, input) in [
        ("file-read", json!({"path": "a"})),
        ("file-search", json!({"pattern": "x"})),
        ("outline", json!({"path": "a"})),
        ("file-write", json!({"path": "b", "content": ""})),
    ] {
        let failure = fixture.failure(name, &input);
        let StopReason::Cancelled = (match failure {
            ToolFailure::Stopped { why, .. } => why,
            other => panic!("{other:?}"),
        }) else {
            panic!("{name}");
        };
    }
    assert!(!fixture.path("b").exists());
}
