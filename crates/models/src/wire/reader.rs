//! Decodes bytes to parts of an answer, without a network.

use std::fmt::Debug;

use cleveragents_ports::models::{Delta, ModelErrorKind};

use super::answer::AnswerAssembler;
use super::failure::ModelFault;
use super::sse::{SseEvent, SseParser};

/// The maximum size of a stream in bytes, including keep-alives.
const STREAM_MAXIMUM: usize = 256 << 20;

/// Decodes a vendor's events.
pub(crate) trait Decoder: Send + Debug {
    /// Adds the contents of an event to the answer.
    fn decode(
        &mut self,
        event: &SseEvent,
        answer: &mut AnswerAssembler,
    ) -> Result<DecodeProgress, ModelFault>;
}

/// Whether a stream continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecodeProgress {
    More,
    Done,
}

/// An answer being read.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    parser: SseParser,
    decoder: Box<dyn Decoder>,
    answer: AnswerAssembler,
    bytes: usize,
    opening: StreamOpening,
}

/// What the first event of a stream was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamOpening {
    NoEvent,
    Answer,
    /// The provider's report of an error.
    Refusal,
}

impl AnswerReader {
    pub(crate) fn new(decoder: Box<dyn Decoder>, answer: AnswerAssembler) -> Self {
        Self {
            parser: SseParser::default(),
            decoder,
            answer,
            bytes: 0,
            opening: StreamOpening::NoEvent,
        }
    }

    pub(crate) fn next(&mut self) -> Option<Delta> {
        self.answer.next()
    }

    /// Returns whether everything was read.
    pub(crate) fn has_ended(&self) -> bool {
        self.answer.has_ended()
    }

    /// Returns whether the stream began with an error of the provider, so that there is no answer.
    pub(crate) fn is_refused(&self) -> bool {
        self.opening == StreamOpening::Refusal
    }

    /// Consumes the next chunk of the stream.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), ModelFault> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > STREAM_MAXIMUM {
            let what = format!("its stream has more than {STREAM_MAXIMUM} bytes");
            return Err(ModelFault::new(ModelErrorKind::Malformed, what));
        }
        let events = self.parser.feed(bytes).map_err(sse_fault)?;
        events.iter().try_for_each(|event| self.handle_event(event))
    }

    pub(crate) fn end_stream(&mut self) -> Result<(), ModelFault> {
        if let Some(event) = self.parser.end() {
            self.handle_event(&event)?;
        }
        self.answer.end_stream()
    }

    /// Handles a broken stream. If the model had finished, the answer is complete.
    pub(crate) fn fail(&mut self, fault: ModelFault) -> Result<(), ModelFault> {
        if self.answer.is_complete() {
            self.answer.end_stream()
        } else {
            Err(fault)
        }
    }

    fn handle_event(&mut self, event: &SseEvent) -> Result<(), ModelFault> {
        // What a server sends after the end does not belong to the answer.
        if self.answer.has_ended() {
            return Ok(());
        }
        let decoded = self.decoder.decode(event, &mut self.answer);
        if self.opening == StreamOpening::NoEvent {
            self.opening = match &decoded {
                Err(fault) if fault.kind != ModelErrorKind::Malformed => StreamOpening::Refusal,
                _ => StreamOpening::Answer,
            };
        }
        match decoded? {
            DecodeProgress::More => Ok(()),
            DecodeProgress::Done => self.answer.end_stream(),
        }
    }
}

fn sse_fault(error: impl std::error::Error) -> ModelFault {
    ModelFault::new(ModelErrorKind::Malformed, error.to_string())
}

/// An event whose data is invalid.
pub(crate) fn json_fault(error: &serde_json::Error) -> ModelFault {
    let what = format!("an event of its stream cannot be read: {error}");
    ModelFault::new(ModelErrorKind::Malformed, what)
}
