//! One attempt: wait for a permit, send the request, and read the answer part by part.
//!
//! All state is owned by the returned stream. Dropping the stream closes the connection and
//! releases the permit.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_ports::Clock;
use cleveragents_ports::models::{Delta, ModelError, ModelErrorKind, ModelStream};
use futures_util::stream::unfold;
use reqwest::header::CONTENT_TYPE;
use reqwest::{RequestBuilder, Response};
use tokio::time::{Instant, timeout_at};

use super::failure::{ErrorReporter, ModelFault, ProviderError};
use super::reader::AnswerReader;
use super::retry_after;
use crate::limiter::{RequestLimiter, RequestPermit};
use crate::settings::Timeouts;

/// Bytes that are read from the body of a failed request.
const ERROR_BODY_MAXIMUM: usize = 64 << 10;

/// The inputs of one attempt.
#[derive(Debug)]
pub(crate) struct RequestAttempt {
    pub(crate) request: RequestBuilder,
    pub(crate) reader: AnswerReader,
    pub(crate) limiter: Arc<RequestLimiter>,
    pub(crate) timeouts: Timeouts,
    pub(crate) reporter: ErrorReporter,
    pub(crate) clock: Arc<dyn Clock>,
}

enum ExchangeState {
    Sending(Box<RequestAttempt>),
    Reading(Box<IncomingAnswer>),
    Ended,
}

/// An answer being received.
struct IncomingAnswer {
    response: Response,
    reader: AnswerReader,
    reporter: ErrorReporter,
    timeouts: Timeouts,
    /// The timeout of the next part, and its deadline.
    wait_limit: Duration,
    next_part: Instant,
    /// The deadline of the whole answer.
    end: Instant,
    /// Held until the answer is complete or the stream is dropped.
    _permit: RequestPermit,
}

/// The parts of the answer as they arrive.
pub(crate) fn stream(attempt: RequestAttempt) -> ModelStream {
    Box::pin(unfold(
        ExchangeState::Sending(Box::new(attempt)),
        next_delta,
    ))
}

async fn next_delta(
    mut state: ExchangeState,
) -> Option<(Result<Delta, ModelError>, ExchangeState)> {
    loop {
        state = match state {
            ExchangeState::Sending(attempt) => match send_request(*attempt).await {
                Ok(incoming) => ExchangeState::Reading(Box::new(incoming)),
                Err(error) => return Some((Err(error), ExchangeState::Ended)),
            },
            ExchangeState::Reading(mut incoming) => match incoming.next().await {
                Some(Ok(delta)) => return Some((Ok(delta), ExchangeState::Reading(incoming))),
                Some(Err(mut fault)) => {
                    fault.answer_began = !incoming.reader.is_refused();
                    let error = incoming.reporter.error(fault);
                    return Some((Err(error), ExchangeState::Ended));
                }
                None => return None,
            },
            ExchangeState::Ended => return None,
        };
    }
}

async fn send_request(attempt: RequestAttempt) -> Result<IncomingAnswer, ModelError> {
    let RequestAttempt {
        request,
        reader,
        limiter,
        timeouts,
        reporter,
        clock,
    } = attempt;
    let permit = limiter.acquire().await;
    // After the permit: waiting for a slot of our own must not use up the provider's time.
    let started = Instant::now();
    let (next_part, end) = (started + timeouts.first_part, started + timeouts.total);
    // One attempt only. The engine retries, because each attempt is reserved in the budget first.
    let sent = timeout_at(next_part.min(end), request.send()).await;
    let response = match sent {
        Err(_) => Err(timeout_fault(
            timeouts.first_part,
            "it did not answer within",
        )),
        Ok(sent) => sent.map_err(|error| connection_fault(error, &timeouts)),
    };
    let response = response.map_err(|fault| reporter.error(fault))?;
    let incoming = IncomingAnswer {
        response,
        reader,
        reporter,
        timeouts,
        wait_limit: timeouts.first_part,
        next_part,
        end,
        _permit: permit,
    };
    incoming.check_response(&*clock).await
}

impl IncomingAnswer {
    /// Fails unless the provider streams an answer.
    async fn check_response(mut self, clock: &dyn Clock) -> Result<Self, ModelError> {
        let status = self.response.status();
        let content_type = self.response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|it| it.to_str().ok()).unwrap_or("");
        // A server that ignores `stream` answers with one JSON document and status 200.
        let is_json = content_type.starts_with("application/json");
        if status.is_success() && !is_json {
            return Ok(self);
        }
        let retry_after = retry_after::parse_retry_after(self.response.headers(), clock.now());
        let complaint = ProviderError::from_body(&self.read_error_body().await);
        let kind = if status.is_success() {
            ModelErrorKind::Malformed
        } else {
            // The body first: vendors report a full context or an empty account with different
            // statuses.
            complaint.classify(Some(status.as_u16()))
        };
        let message = match (status.is_success(), complaint.message.as_str()) {
            (true, words) => format!("it does not stream its answers: {words}"),
            (false, "") => format!("it answered with {status}"),
            (false, words) => format!("it answered with {status}: {words}"),
        };
        Err(self.reporter.error(ModelFault {
            kind,
            message,
            retry_after,
            // A document with status 200 may be the whole answer.
            answer_began: status.is_success(),
        }))
    }

    /// Reads the beginning of the body. A body that breaks off or never ends is not an error here.
    async fn read_error_body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        let until = self.next_part.min(self.end);
        while body.len() < ERROR_BODY_MAXIMUM
            && let Ok(Ok(Some(piece))) = timeout_at(until, self.response.chunk()).await
        {
            body.extend_from_slice(&piece);
        }
        // The last piece may exceed the limit.
        body.truncate(ERROR_BODY_MAXIMUM);
        body
    }

    async fn next(&mut self) -> Option<Result<Delta, ModelFault>> {
        loop {
            if let Some(delta) = self.reader.next() {
                return Some(Ok(delta));
            }
            if self.reader.has_ended() {
                return None;
            }
            if let Err(fault) = self.read_chunk().await {
                return Some(Err(fault));
            }
        }
    }

    /// Reads the next chunk, within the timeouts of the next part and of the whole answer.
    async fn read_chunk(&mut self) -> Result<(), ModelFault> {
        let until = self.next_part.min(self.end);
        match timeout_at(until, self.response.chunk()).await {
            Ok(Ok(Some(piece))) => {
                self.wait_limit = self.timeouts.between_parts;
                // The first part may take long, because the model reads the prompt. Later ones come
                // quickly.
                self.next_part = Instant::now() + self.wait_limit;
                self.reader.feed(&piece)
            }
            Ok(Ok(None)) => self.reader.end_stream(),
            Ok(Err(error)) => self.reader.fail(connection_fault(error, &self.timeouts)),
            // Checked first, because the deadline of the next part may have passed too.
            Err(_) if Instant::now() >= self.end => {
                let fault =
                    timeout_fault(self.timeouts.total, "its answer was not complete within");
                self.reader.fail(fault)
            }
            Err(_) => {
                let fault = timeout_fault(self.wait_limit, "its answer did not continue within");
                self.reader.fail(fault)
            }
        }
    }
}

fn timeout_fault(timeout: Duration, what: &str) -> ModelFault {
    let seconds = timeout.as_secs_f64();
    ModelFault::new(ModelErrorKind::Timeout, format!("{what} {seconds} seconds"))
}

/// A failed or broken connection. The message omits the URL, which may contain a password.
pub(crate) fn connection_fault(error: reqwest::Error, timeouts: &Timeouts) -> ModelFault {
    if error.is_timeout() {
        return timeout_fault(timeouts.connect, "it could not be reached within");
    }
    let (kind, what) = match (error.is_builder(), error.is_connect()) {
        (true, _) => (ModelErrorKind::Unavailable, "its address cannot be used"),
        (false, true) => (ModelErrorKind::Network, "it cannot be reached"),
        (false, false) => (ModelErrorKind::Network, "the connection broke"),
    };
    // Before the text is built: the URL may contain a password.
    let error = error.without_url();
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        message = format!("{message}: {inner}");
        cause = inner.source();
    }
    ModelFault::new(kind, format!("{what} ({message})"))
}
