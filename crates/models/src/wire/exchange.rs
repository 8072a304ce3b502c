//! One attempt: wait for a place, send, and read the answer part by part.
//!
//! All of it lives in the stream that is handed out. Who drops the stream closes the connection and
//! frees the place.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_engine::ports::Clock;
use cleveragents_engine::ports::models::{Delta, ModelError, ModelErrorKind, ModelStream};
use futures_util::stream::unfold;
use reqwest::header::CONTENT_TYPE;
use reqwest::{RequestBuilder, Response};
use tokio::time::{Instant, timeout_at};

use super::failure::{Complaint, Fault, Teller};
use super::reader::Reader;
use super::retry_after;
use crate::gate::{Gate, Place};
use crate::settings::Patience;

/// How much of the body of a failed request is looked at, in bytes.
const COMPLAINT_MAXIMUM: usize = 64 << 10;

/// Everything one attempt takes.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) request: RequestBuilder,
    pub(crate) reader: Reader,
    pub(crate) gate: Arc<Gate>,
    pub(crate) patience: Patience,
    pub(crate) teller: Teller,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Where an attempt stands.
enum Phase {
    Asking(Box<Attempt>),
    Reading(Box<Incoming>),
    Over,
}

/// An answer that is coming in.
struct Incoming {
    response: Response,
    reader: Reader,
    teller: Teller,
    patience: Patience,
    /// How long the next part may take, and when that is over.
    waited: Duration,
    next_part: Instant,
    /// When all of it has to be there.
    end: Instant,
    /// Held until the answer is whole or nobody wants it.
    _place: Place,
}

/// The parts of the answer as they arrive.
pub(crate) fn stream(attempt: Attempt) -> ModelStream {
    Box::pin(unfold(Phase::Asking(Box::new(attempt)), step))
}

async fn step(mut phase: Phase) -> Option<(Result<Delta, ModelError>, Phase)> {
    loop {
        phase = match phase {
            Phase::Asking(attempt) => match ask(*attempt).await {
                Ok(incoming) => Phase::Reading(Box::new(incoming)),
                Err(error) => return Some((Err(error), Phase::Over)),
            },
            Phase::Reading(mut incoming) => match incoming.next().await {
                Some(Ok(delta)) => return Some((Ok(delta), Phase::Reading(incoming))),
                Some(Err(fault)) => {
                    let error = incoming.teller.error(fault);
                    return Some((Err(error), Phase::Over));
                }
                None => return None,
            },
            Phase::Over => return None,
        };
    }
}

async fn ask(attempt: Attempt) -> Result<Incoming, ModelError> {
    let Attempt {
        request,
        reader,
        gate,
        patience,
        teller,
        clock,
    } = attempt;
    let place = gate.enter().await;
    let begun = Instant::now();
    let (next_part, end) = (begun + patience.first_part, begun + patience.whole);
    let sent = timeout_at(next_part.min(end), request.send()).await;
    let response = match sent {
        Err(_) => Err(late(patience.first_part, "it did not answer within")),
        Ok(sent) => sent.map_err(|error| broken(error, &patience)),
    };
    let response = response.map_err(|fault| teller.error(fault))?;
    let incoming = Incoming {
        response,
        reader,
        teller,
        patience,
        waited: patience.first_part,
        next_part,
        end,
        _place: place,
    };
    incoming.checked(&*clock).await
}

impl Incoming {
    /// Itself, if the provider really streams an answer.
    async fn checked(mut self, clock: &dyn Clock) -> Result<Self, ModelError> {
        let status = self.response.status();
        let content_type = self.response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|it| it.to_str().ok()).unwrap_or("");
        let is_json = content_type.starts_with("application/json");
        if status.is_success() && !is_json {
            return Ok(self);
        }
        let retry_after = retry_after::read(self.response.headers(), clock.now());
        let complaint = Complaint::of_body(&self.beginning().await);
        let kind = match status.is_success() {
            true => ModelErrorKind::Malformed,
            false => complaint.kind(Some(status.as_u16())),
        };
        let words = match (status.is_success(), complaint.message.as_str()) {
            (true, words) => format!("it does not stream its answers: {words}"),
            (false, "") => format!("it answered with {status}"),
            (false, words) => format!("it answered with {status}: {words}"),
        };
        Err(self.teller.error(Fault {
            kind,
            message: words,
            retry_after,
        }))
    }

    /// The beginning of the body; that it breaks off or never ends does not matter.
    async fn beginning(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        let until = self.next_part.min(self.end);
        while body.len() < COMPLAINT_MAXIMUM
            && let Ok(Ok(Some(piece))) = timeout_at(until, self.response.chunk()).await
        {
            body.extend_from_slice(&piece);
        }
        body.truncate(COMPLAINT_MAXIMUM);
        body
    }

    async fn next(&mut self) -> Option<Result<Delta, Fault>> {
        loop {
            if let Some(delta) = self.reader.next() {
                return Some(Ok(delta));
            }
            if self.reader.is_over() {
                return None;
            }
            if let Err(fault) = self.read().await {
                return Some(Err(fault));
            }
        }
    }

    /// Reads on until something came.
    async fn read(&mut self) -> Result<(), Fault> {
        let until = self.next_part.min(self.end);
        match timeout_at(until, self.response.chunk()).await {
            Ok(Ok(Some(piece))) => {
                self.waited = self.patience.between_parts;
                self.next_part = Instant::now() + self.waited;
                self.reader.feed(&piece)
            }
            Ok(Ok(None)) => self.reader.end(),
            Ok(Err(error)) => self.reader.broke(broken(error, &self.patience)),
            Err(_) if Instant::now() >= self.end => {
                let fault = late(self.patience.whole, "its answer was not whole within");
                self.reader.broke(fault)
            }
            Err(_) => {
                let fault = late(self.waited, "its answer did not go on within");
                self.reader.broke(fault)
            }
        }
    }
}

fn late(patience: Duration, what: &str) -> Fault {
    let seconds = patience.as_secs_f64();
    Fault::new(ModelErrorKind::Timeout, format!("{what} {seconds} seconds"))
}

/// A connection that could not be made or broke. The address is left out: it may hold a password.
fn broken(error: reqwest::Error, patience: &Patience) -> Fault {
    if error.is_timeout() {
        return late(patience.connect, "it could not be reached within");
    }
    let (kind, what) = match (error.is_builder(), error.is_connect()) {
        (true, _) => (ModelErrorKind::Unavailable, "its address cannot be used"),
        (false, true) => (ModelErrorKind::Network, "it cannot be reached"),
        (false, false) => (ModelErrorKind::Network, "the connection broke"),
    };
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        words = format!("{words}: {inner}");
        cause = inner.source();
    }
    Fault::new(kind, format!("{what} ({words})"))
}
