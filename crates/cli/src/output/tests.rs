use serde_json::json;

use super::*;
use crate::failure::ExitCode;

fn render_options(format: Format, width: u16) -> RenderOptions {
    RenderOptions {
        format,
        stdout: ColourMode::No,
        stderr: ColourMode::No,
        width,
        piped: true,
        verbosity: Verbosity::Normal,
        shape: EnvelopeShape::Whole,
        clock: crate::local_time::LocalClock::new(jiff::tz::TimeZone::UTC, Timestamp::default()),
    }
}

const FORMATS: [Format; 6] = [
    Format::Rich,
    Format::Color,
    Format::Table,
    Format::Plain,
    Format::Json,
    Format::Yaml,
];

fn report(outcome: Result<CommandAnswer, CommandFailure>) -> CommandReport {
    CommandReport {
        command: "test this".to_owned(),
        started: Timestamp::default(),
        duration: Duration::from_millis(7),
        outcome,
    }
}

fn text_of(rendered: &RenderedOutput) -> String {
    String::from_utf8(rendered.stdout.clone()).unwrap()
}

/// Returns a report with the same text in every field.
fn report_with_text(text: &str) -> CommandReport {
    let view = OutputView::new()
        .panel(text, [(text, text)])
        .table(
            text,
            &[text, "b", "c", "d"],
            [vec![text.into(), "x".into(), text.into(), "y".into()]],
        )
        .text(text)
        .patch(text.as_bytes().to_vec())
        .verbatim(text);
    let answer = CommandAnswer::new(&json!({"a": [text], text: 1}), view)
        .unwrap()
        .with_message(MessageLevel::Info, text)
        .with_message(MessageLevel::Hint, text)
        .with_message(MessageLevel::Warn, text)
        .with_message(MessageLevel::Error, text);
    report(Ok(answer))
}

fn failure_with_text(text: &str) -> CommandReport {
    let failure = CommandFailure::usage(text)
        .because(text)
        .hint(text)
        .with_facts(|facts| facts.files = Some(vec![text.to_owned()]));
    report(Err(failure))
}

#[test]
fn no_format_lets_a_secret_through_even_when_it_would_be_wrapped() {
    let secret = "correct-horse \"battery\"\nstaple and much more to be wrapped somewhere";
    let mut redactor = Redactor::default();
    redactor.learn("PHRASE", secret);
    for format in FORMATS {
        for report in [report_with_text(secret), failure_with_text(secret)] {
            let rendered = report.render(&render_options(format, 24), &redactor);
            let all = text_of(&rendered) + &rendered.stderr;
            for part in ["horse", "battery", "staple", "wrapped"] {
                assert!(!all.contains(part), "{format:?}: {all}");
            }
        }
    }
}

#[test]
fn no_format_obeys_escape_sequences_in_data() {
    let hostile = "a\x1b]0;owned\x07b\u{9b}31m\u{202e}c";
    for format in FORMATS {
        for piped in [true, false] {
            let mut options = render_options(format, 40);
            options.piped = piped;
            let mut report = report_with_text(hostile);
            if let (true, Ok(answer)) = (piped, &mut report.outcome) {
                answer.view.blocks.pop();
            }
            for report in [report, failure_with_text(hostile)] {
                let rendered = report.render(&options, &Redactor::default());
                let all = text_of(&rendered) + &rendered.stderr;
                for control in ['\x1b', '\x07', '\u{9b}'] {
                    assert!(!all.contains(control), "{format:?}: {all:?}");
                }
            }
        }
    }
}

#[test]
fn no_width_breaks_a_format() {
    let long = "word ".repeat(50) + &"ünbréakable日本語".repeat(20);
    for format in FORMATS {
        for width in [20, 21, 40, 100, u16::MAX] {
            for text in ["", "x", "\n\n", "\t", long.as_str()] {
                let rendered = report_with_text(text)
                    .render(&render_options(format, width), &Redactor::default());
                assert!(!rendered.stdout.is_empty());
            }
        }
    }
    let empty = CommandAnswer::new(
        &json!({}),
        OutputView::new()
            .panel("Empty", [("", ""); 0])
            .table("T", &[], []),
    )
    .unwrap();
    for format in FORMATS {
        report(Ok(empty.clone())).render(&render_options(format, 20), &Redactor::default());
    }
}

#[test]
fn boxes_are_straight() {
    let text = "some words that must be wrapped because they are long";
    let rendered =
        report_with_text(text).render(&render_options(Format::Rich, 40), &Redactor::default());
    let shown = text_of(&rendered);
    let boxes: Vec<usize> = shown
        .lines()
        .filter(|line| line.starts_with(['╭', '│', '├', '╰']))
        .map(|line| line.chars().count())
        .collect();
    assert!(boxes.len() > 6);
    assert!(boxes.iter().all(|width| *width == 40), "{shown}");
}

#[test]
fn colour_appears_only_where_it_is_wanted() {
    let mut options = render_options(Format::Rich, 60);
    options.stdout = ColourMode::Yes;
    let rendered = report_with_text("x").render(&options, &Redactor::default());
    assert!(text_of(&rendered).contains('\x1b'));
    assert!(!rendered.stderr.contains('\x1b'));
    options.stderr = ColourMode::Yes;
    let rendered = report_with_text("x").render(&options, &Redactor::default());
    assert!(rendered.stderr.contains('\x1b'));
}

#[test]
fn plain_prints_verbatim_text_to_a_pipe_as_it_is() {
    let patch = "--- a\r\n+++ b\n+\tx\x1b[0m\n\\ No newline at end of file";
    let answer = CommandAnswer::new(&json!({}), OutputView::new().verbatim(patch)).unwrap();
    let rendered =
        report(Ok(answer)).render(&render_options(Format::Plain, 20), &Redactor::default());
    assert_eq!(rendered.stdout, patch.as_bytes());
}

#[test]
fn a_patch_goes_to_a_pipe_byte_for_byte_and_is_masked_for_people() {
    let patch = b"--- a\r\n+caf\xe9 tops3cret-phrase\n".to_vec();
    let mut redactor = Redactor::default();
    redactor.learn("PHRASE", "tops3cret-phrase");
    let answer = CommandAnswer::new(&json!({}), OutputView::new().patch(patch.clone())).unwrap();
    for format in [Format::Plain, Format::Rich, Format::Color, Format::Table] {
        let report = report(Ok(answer.clone()));
        let rendered = report.render(&render_options(format, 80), &redactor);
        assert_eq!(rendered.stdout, patch);
        assert!(
            rendered.stderr.contains("looks like a secret"),
            "{rendered:?}"
        );
        let mut terminal = render_options(format, 80);
        terminal.piped = false;
        let rendered = report.render(&terminal, &redactor);
        let shown = text_of(&rendered);
        assert!(shown.contains("caf\u{fffd} «secret:PHRASE»"), "{shown}");
        assert!(!rendered.stderr.contains("secret"), "{rendered:?}");
    }
}

#[test]
fn quiet_leaves_warnings_and_errors() {
    let mut options = render_options(Format::Plain, 80);
    options.verbosity = Verbosity::Quiet;
    let rendered = report_with_text("x").render(&options, &Redactor::default());
    assert_eq!(rendered.stderr, "warning: x\nerror: x\n");
}

#[test]
fn details_are_for_verbose_output_and_programs() {
    let answer = CommandAnswer::new(&json!({}), OutputView::new())
        .unwrap()
        .with_message(MessageLevel::Info, "waiting")
        .with_message(MessageLevel::Detail, "it is risky");
    let report = report(Ok(answer));
    let mut options = render_options(Format::Plain, 80);
    let rendered = report.render(&options, &Redactor::default());
    assert_eq!(rendered.stderr, "waiting\n");
    options.verbosity = Verbosity::Verbose;
    let rendered = report.render(&options, &Redactor::default());
    assert_eq!(rendered.stderr, "waiting\nwhy: it is risky\n");
    options.format = Format::Json;
    let rendered = report.render(&options, &Redactor::default());
    let json: Value = serde_json::from_slice(&rendered.stdout).unwrap();
    assert_eq!(json["messages"][1]["level"], "detail");
}

#[test]
fn json_and_yaml_envelopes_are_equal() {
    let nasty = "yes: [no] # ~\n\"'\\ \u{7}ü日 null 0x1 2026-01-01 <<";
    let answer = CommandAnswer::new(
        &json!({"n": nasty, "no": "off", "z": [1, null, {}]}),
        OutputView::new(),
    )
    .unwrap()
    .with_message(MessageLevel::Warn, nasty)
    .with_exit_code(ExitCode::Conflict);
    let report = report(Ok(answer));
    let render = |format| report.render(&render_options(format, 80), &Redactor::default());
    let json: Value = serde_json::from_slice(&render(Format::Json).stdout).unwrap();
    let yaml: Value = serde_saphyr::from_str(&text_of(&render(Format::Yaml))).unwrap();
    assert_eq!(json, yaml);
    assert_eq!(json["command"], "test this");
    assert_eq!(json["status"], "error");
    assert_eq!(json["exit_code"], 4);
    assert_eq!(json["data"]["n"], nasty);
    assert_eq!(json["timing"]["duration_ms"], 7);
    assert_eq!(json["timing"]["started"], "1970-01-01T00:00:00.000000Z");
    assert_eq!(json["messages"][0]["level"], "warn");
}
