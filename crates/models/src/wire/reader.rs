//! From bytes to parts of an answer, without a network.

use std::fmt::Debug;

use cleveragents_engine::ports::models::{Delta, ModelErrorKind};

use super::answer::Answer;
use super::failure::Fault;
use super::sse::{Event, Parser};

/// The most bytes a stream may have, keep-alives too.
const STREAM_MAXIMUM: usize = 256 << 20;

/// A vendor's events, one by one.
pub(crate) trait Decoder: Send + Debug {
    /// Puts what an event says into the answer.
    fn take(&mut self, event: &Event, answer: &mut Answer) -> Result<Progress, Fault>;
}

/// Whether a stream goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    Done,
}

/// One answer on its way in.
#[derive(Debug)]
pub(crate) struct Reader {
    parser: Parser,
    decoder: Box<dyn Decoder>,
    answer: Answer,
    bytes: usize,
}

impl Reader {
    pub(crate) fn new(decoder: Box<dyn Decoder>, answer: Answer) -> Self {
        Self {
            parser: Parser::default(),
            decoder,
            answer,
            bytes: 0,
        }
    }

    /// The next part that is there already.
    pub(crate) fn next(&mut self) -> Option<Delta> {
        self.answer.next()
    }

    /// Whether all there is to read was read.
    pub(crate) fn is_over(&self) -> bool {
        self.answer.is_over()
    }

    /// Takes the next piece of the stream.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > STREAM_MAXIMUM {
            let what = format!("its stream has more than {STREAM_MAXIMUM} bytes");
            return Err(Fault::new(ModelErrorKind::Malformed, what));
        }
        let events = self.parser.feed(bytes).map_err(unreadable)?;
        events.iter().try_for_each(|event| self.take(event))
    }

    /// The stream ended.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        if let Some(event) = self.parser.end() {
            self.take(&event)?;
        }
        self.answer.end()
    }

    /// The stream broke. If the model had finished, nothing is missing.
    pub(crate) fn broke(&mut self, fault: Fault) -> Result<(), Fault> {
        match self.answer.is_whole() {
            true => self.answer.end(),
            false => Err(fault),
        }
    }

    fn take(&mut self, event: &Event) -> Result<(), Fault> {
        if self.answer.is_over() {
            return Ok(());
        }
        match self.decoder.take(event, &mut self.answer)? {
            Progress::More => Ok(()),
            Progress::Done => self.answer.end(),
        }
    }
}

fn unreadable(error: impl std::error::Error) -> Fault {
    Fault::new(ModelErrorKind::Malformed, error.to_string())
}

/// An event whose data is not what it should be.
pub(crate) fn not_readable(error: &serde_json::Error) -> Fault {
    let what = format!("an event of its stream cannot be read: {error}");
    Fault::new(ModelErrorKind::Malformed, what)
}
