//! Tests streams split in every way, for both APIs.

use cleveragents_domain::model::{FinishReason, ModelRequest, ToolChoice};
use cleveragents_ports::models::{Delta, ModelErrorKind};

use super::answer::AnswerAssembler;
use super::failure::ModelFault;
use super::reader::{AnswerReader, Decoder};
use super::tool_names::ToolNames;

/// Creates a new decoder for each run.
pub(crate) type MakeDecoder = fn() -> Box<dyn Decoder>;

/// A request without tools.
pub(crate) fn bare_request() -> ModelRequest {
    ModelRequest {
        messages: Vec::new(),
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        options: Default::default(),
        output_schema: None,
    }
}

/// Reads a stream in these chunks to its end or first fault.
pub(crate) fn read_stream<'a>(
    decoder: Box<dyn Decoder>,
    text_tool: Option<&'static str>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Delta>, Result<(), ModelFault>) {
    let mut reader = AnswerReader::new(
        decoder,
        AnswerAssembler::new(ToolNames::default(), text_tool),
    );
    let mut outcome = Ok(());
    for piece in pieces {
        outcome = outcome.and_then(|()| reader.feed(piece));
    }
    let outcome = outcome.and_then(|()| {
        if reader.has_ended() {
            Ok(())
        } else {
            reader.end_stream()
        }
    });
    (std::iter::from_fn(|| reader.next()).collect(), outcome)
}

/// The same stream with every kind of line ending, and with comments between its events.
fn line_ending_variants(stream: &str) -> Vec<String> {
    let chatty = format!(
        ": hello\n\n{}",
        stream.replace("\n\n", "\n\n: keep-alive\n\nid: 7\nretry: 10\n\n")
    );
    let with_end = |text: &str, end: &str| text.replace('\n', end);
    [stream, &chatty]
        .iter()
        .flat_map(|text| ["\n", "\r\n", "\r"].map(|end| with_end(text, end)))
        .collect()
}

/// Asserts that a stream decodes to `expected`, for every line ending and every split.
pub(crate) fn assert_reads(make: MakeDecoder, stream: &str, expected: &[Delta]) {
    for text in line_ending_variants(stream) {
        let bytes = text.as_bytes();
        for cut in 0..=bytes.len() {
            let (front, back) = bytes.split_at(cut);
            let (deltas, outcome) = read_stream(make(), None, [front, back]);
            assert_eq!(outcome, Ok(()), "cut at {cut}");
            assert_eq!(deltas, expected, "cut at {cut}");
        }
        let (deltas, outcome) = read_stream(make(), None, bytes.chunks(1));
        assert_eq!((deltas.as_slice(), outcome), (expected, Ok(())));
    }
}

/// Asserts that a stream truncated at any position yields parts of the answer and then reports the
/// truncation, or yields everything except the usage.
pub(crate) fn assert_truncates(make: MakeDecoder, stream: &str, expected: &[Delta]) {
    let is_usage = |delta: &&Delta| matches!(delta, Delta::Usage(_));
    let without_usage = |deltas: &[Delta]| -> Vec<Delta> {
        let rest = deltas.iter().filter(|it| !is_usage(it));
        rest.cloned().collect()
    };
    let whole = without_usage(expected);
    let bytes = stream.as_bytes();
    for end in 0..bytes.len() {
        let (deltas, outcome) = read_stream(make(), None, [&bytes[..end]]);
        let deltas = without_usage(&deltas);
        match outcome {
            Ok(()) => assert_eq!(deltas, whole, "ended at {end}"),
            Err(fault) => {
                assert_eq!(fault.kind, ModelErrorKind::Truncated, "ended at {end}");
                assert!(whole.starts_with(&deltas), "ended at {end}: {deltas:?}");
                assert!(!deltas.contains(&Delta::Finished(FinishReason::Stop)));
            }
        }
    }
}

/// Asserts the parts before a fault and the fault itself, for every line ending and chunk size.
pub(crate) fn assert_fails(make: MakeDecoder, stream: &str, before: &[Delta], fault: &ModelFault) {
    for text in line_ending_variants(stream) {
        for size in 1..=40 {
            let (deltas, outcome) = read_stream(make(), None, text.as_bytes().chunks(size));
            assert_eq!(deltas, before, "in pieces of {size}");
            assert_eq!(outcome.as_ref(), Err(fault), "in pieces of {size}");
        }
    }
}

pub(crate) fn text(text: &str) -> Delta {
    Delta::Text(text.to_owned())
}

pub(crate) fn call(index: usize, tool: Option<&str>, arguments: &str) -> Delta {
    Delta::ToolCall {
        index,
        tool: tool.map(str::to_owned),
        arguments: arguments.to_owned(),
    }
}
