//! Streams cut into pieces in every way, for the tests of both languages.

use cleveragents_domain::model::{FinishReason, ModelRequest, ToolChoice};
use cleveragents_engine::ports::models::{Delta, ModelErrorKind};

use super::answer::AnswerAssembler;
use super::failure::ModelFault;
use super::reader::{AnswerReader, Decoder};
use super::tool_names::ToolNames;

/// A decoder for each reading.
pub(crate) type MakeDecoder = fn() -> Box<dyn Decoder>;

/// A request that offers nothing.
pub(crate) fn bare_request() -> ModelRequest {
    ModelRequest {
        messages: Vec::new(),
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        options: Default::default(),
        output_schema: None,
    }
}

/// A stream in these pieces, read to its end or to what is wrong with it.
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
    let outcome = outcome.and_then(|()| match reader.has_ended() {
        true => Ok(()),
        false => reader.end_stream(),
    });
    (std::iter::from_fn(|| reader.next()).collect(), outcome)
}

/// The same stream with every kind of line end, and with comments between its events.
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

/// Asserts that a stream means `expected`, however it is written and wherever it is cut.
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

/// Asserts that a stream that ends too soon, wherever that is, gives parts of the answer and says
/// that the rest is missing, or gives all of it but what was used.
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

/// What a stream that goes wrong gives before, and what is wrong with it, however it is written and
/// in pieces of every size.
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
