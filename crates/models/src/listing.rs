//! Asks a provider which models it has. One request, which costs nothing.

use std::time::Duration;

use cleveragents_ports::models::{ModelError, ModelErrorKind};
use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::settings::Timeouts;
use crate::wire::exchange::connection_fault;
use crate::wire::failure::{ErrorReporter, ModelFault, ProviderError};

/// Maximum size of a list in bytes; OpenRouter's has about 1 MB.
const LIST_MAXIMUM: usize = 8 << 20;

/// Returns the ids of the models.
pub(crate) async fn list_models(
    request: RequestBuilder,
    limit: Duration,
    timeouts: Timeouts,
    reporter: ErrorReporter,
) -> Result<Vec<String>, ModelError> {
    let listed = async {
        let until = Instant::now() + limit;
        let late = || {
            let what = format!("it did not answer within {} s", limit.as_secs());
            ModelFault::new(ModelErrorKind::Timeout, what)
        };
        let sent = timeout_at(until, request.header("accept", "application/json").send());
        let response = sent.await.map_err(|_| late())?;
        let response = response.map_err(|error| connection_fault(error, &timeouts))?;
        let status = response.status();
        let body = timeout_at(until, read_body(response, &timeouts));
        let body = body.await.map_err(|_| late())??;
        if status.is_success() {
            return parse(&body);
        }
        let complaint = ProviderError::from_body(&body);
        let kind = complaint.classify(Some(status.as_u16()));
        let message = match complaint.message.as_str() {
            "" => format!("it answered with {status}"),
            words => format!("it answered with {status}: {words}"),
        };
        Err(ModelFault::new(kind, message))
    };
    listed.await.map_err(|fault| reporter.error(fault))
}

async fn read_body(mut response: Response, timeouts: &Timeouts) -> Result<Vec<u8>, ModelFault> {
    let mut body = Vec::new();
    loop {
        let piece = response.chunk().await;
        match piece.map_err(|error| connection_fault(error, timeouts))? {
            Some(piece) if body.len() + piece.len() <= LIST_MAXIMUM => {
                body.extend_from_slice(&piece);
            }
            Some(_) => {
                let what = "its list of models is too long";
                return Err(ModelFault::new(ModelErrorKind::Malformed, what));
            }
            None => return Ok(body),
        }
    }
}

/// Both protocols answer with an object of which `data` has the models; Together's is the list.
fn parse(body: &[u8]) -> Result<Vec<String>, ModelFault> {
    let answer: Option<Value> = serde_json::from_slice(body).ok();
    let models = answer.as_ref().and_then(|it| it.get("data").or(Some(it)));
    let Some(models) = models.and_then(Value::as_array) else {
        let what = "it did not answer with a list of models";
        return Err(ModelFault::new(ModelErrorKind::Malformed, what));
    };
    let ids = models.iter().filter_map(|it| it.get("id")?.as_str());
    Ok(ids.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_and_pages_are_refused() {
        let ids = |body: &str| parse(body.as_bytes());
        assert_eq!(
            ids(r#"{"object":"list","data":[{"id":"a"},{"id":"b","type":"model"}]}"#),
            Ok(vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(ids(r#"[{"id":"a"}]"#), Ok(vec!["a".to_owned()]));
        assert_eq!(ids(r#"{"data":[]}"#), Ok(Vec::new()));
        for body in ["", "<html>", "{}", r#"{"data":{}}"#] {
            assert!(ids(body).is_err(), "{body}");
        }
    }
}
