//! Sends one prompt to an actor's model outside any plan: one answer, no tools.
//!
//! Prompt and answer are recorded in the system journal, like a plan's model calls in its journal,
//! because they cost money too.

use std::sync::Arc;

use cleveragents_domain::event::payloads::{AskedModel, ModelAnswered, ModelAsked, ModelFailed};
use cleveragents_domain::id::ModelCallId;
use cleveragents_domain::model::{
    FinishReason, ModelChoice, ModelMessage, ModelRequest, ToolChoice, Usage,
};
use cleveragents_domain::{EventPayload, LlmActor, NamespacedName, StreamId};
use futures_util::StreamExt;
use serde::Serialize;

use crate::journal::new_event;
use crate::retry::{RetryDecision, RetryPolicy};
use crate::secrets::Secrets;
use cleveragents_ports::models::{Delta, Model, ModelError, ModelErrorKind, Models};
use cleveragents_ports::{Ids, StagedBlob, StoreError, StoreHandle, StoreOperation};

/// Maximum size of an answer, in bytes.
const ANSWER_MAXIMUM: usize = 4 << 20;

/// A model's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct InquiryReply {
    pub model: ModelChoice,
    pub text: String,
    pub finish: FinishReason,
    pub usage: Usage,
    /// In US dollars; `None` if no price is configured.
    pub usd: Option<f64>,
    /// Number of attempts.
    pub attempts: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum InquiryError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Blob holder for prompts outside plans.
const BLOB_HOLDER: &str = "system";

/// Sends prompts to models for one process.
#[derive(Debug, Clone)]
pub struct Inquiry {
    pub store: StoreHandle,
    pub models: Arc<dyn Models>,
    pub secrets: Secrets,
    pub retry: RetryPolicy,
    pub ids: Arc<dyn Ids>,
}

impl Inquiry {
    /// Sends `prompt` as `actor` and returns the answer; its parts are reported as they arrive.
    pub async fn prompt_model(
        &self,
        actor: &NamespacedName,
        llm: &LlmActor,
        prompt: &str,
        on_text: &(dyn Fn(&str) + Sync),
    ) -> Result<InquiryReply, InquiryError> {
        let model = open_model(&*self.models, llm).map_err(ModelError::from)?;
        let request = self.request(llm, prompt);
        let mut attempts = 0;
        loop {
            let call = ModelCallId::new(self.ids.next());
            let request_blob = self.stage(&request).await?;
            let choice = &model.facts().choice;
            let asked = asked_payload(call, actor, choice, &request_blob, attempts + 1);
            self.record(actor, &asked, Some(request_blob)).await?;
            let answer = attempt(&*model, &request, u64::from(attempts), on_text).await;
            attempts += 1;
            match answer {
                Ok((text, finish, usage)) => {
                    let facts = model.facts();
                    let usd = facts.price.map(|price| price.cost(&usage));
                    let answer_blob = self.stage(&self.secrets.mask(&text)).await?;
                    let reply = InquiryReply {
                        model: facts.choice.clone(),
                        text,
                        finish,
                        usage,
                        usd,
                        attempts,
                    };
                    let answered = answered_payload(call, &answer_blob, &reply);
                    self.record(actor, &answered, Some(answer_blob)).await?;
                    return Ok(reply);
                }
                Err(error) => {
                    let decision =
                        self.retry
                            .decide(attempts, &(&error).into(), random_fraction(&*self.ids));
                    let failed = ModelFailed {
                        model_call_id: call,
                        number: None,
                        turn: None,
                        category: error.kind.category(),
                        error: error.message.clone(),
                        spent: None,
                        retry_in_ms: None,
                    };
                    self.record(actor, &failed, None).await?;
                    match decision {
                        RetryDecision::After(pause) => tokio::time::sleep(pause).await,
                        RetryDecision::GiveUp(_) => return Err(error.into()),
                    }
                }
            }
        }
    }

    async fn stage(&self, content: &impl Serialize) -> Result<StagedBlob, StoreError> {
        let bytes = serde_json::to_vec(content).map_err(StoreError::internal)?;
        self.store.stage_blob(bytes).await
    }

    /// Records the call, its prompt and its answer in one transaction (law 2).
    async fn record(
        &self,
        actor: &NamespacedName,
        payload: &impl EventPayload,
        blob: Option<StagedBlob>,
    ) -> Result<(), StoreError> {
        let event = new_event(&actor.to_string(), payload)?;
        let operation = StoreOperation::new(&*self.ids, "model.question");
        self.store
            .write(operation, move |tx| {
                if let Some(blob) = &blob {
                    tx.put_blob(blob, BLOB_HOLDER)?;
                }
                tx.append(StreamId::System, std::slice::from_ref(&event))
                    .map(drop)
            })
            .await
    }

    fn request(&self, llm: &LlmActor, prompt: &str) -> ModelRequest {
        let hidden = |text: &str| self.secrets.mask(text).into_owned();
        let mut messages = Vec::new();
        if let Some(system) = &llm.system_prompt {
            messages.push(ModelMessage::System {
                text: hidden(system),
            });
        }
        messages.push(ModelMessage::User {
            text: hidden(prompt),
        });
        ModelRequest {
            messages,
            tools: Vec::new(),
            tool_choice: ToolChoice::None,
            options: llm.options.clone(),
            output_schema: None,
        }
    }
}

/// Returns the model of an actor: its own, or the configured default.
pub fn open_model(models: &dyn Models, llm: &LlmActor) -> Result<Arc<dyn Model>, OpenModelError> {
    let none = || ModelError {
        kind: ModelErrorKind::Unavailable,
        message: "no model is configured".to_owned(),
        retry_after: None,
        answer_began: false,
    };
    match (&llm.model, models.preferred()) {
        (Some(choice), _) => Ok(models.open(choice)?),
        // Not silently another model: the user chose this one.
        (None, Some(choice)) => models
            .open(&choice)
            .map_err(|error| OpenModelError::Default { choice, error }),
        (None, None) => {
            let choice = models.configured().into_iter().next().ok_or_else(none)?;
            Ok(models.open(&choice)?)
        }
    }
}

/// Error of a model that cannot be opened.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OpenModelError {
    #[error("the default model {choice} cannot be used: {error}")]
    Default {
        choice: ModelChoice,
        error: ModelError,
    },
    #[error(transparent)]
    Other(#[from] ModelError),
}

impl OpenModelError {
    /// Returns the configured default model, if it is the one that cannot be used.
    pub fn default_model(&self) -> Option<ModelChoice> {
        match self {
            Self::Default { choice, .. } => Some(choice.clone()),
            Self::Other(_) => None,
        }
    }
}

impl From<OpenModelError> for ModelError {
    fn from(error: OpenModelError) -> Self {
        let message = error.to_string();
        match error {
            OpenModelError::Default { error, .. } => Self { message, ..error },
            OpenModelError::Other(error) => error,
        }
    }
}

/// Returns a random number in [0, 1), taken from the random bits of an id.
pub(crate) fn random_fraction(ids: &dyn Ids) -> f64 {
    const BITS: u32 = 32;
    let random_bits = ids.next().random() & ((1 << BITS) - 1);
    #[expect(clippy::cast_precision_loss, reason = "it has 32 bits")]
    let (drawn, all) = (random_bits as f64, (1_u64 << BITS) as f64);
    drawn / all
}

fn asked_payload(
    call: ModelCallId,
    actor: &NamespacedName,
    model: &ModelChoice,
    request: &StagedBlob,
    attempt: u32,
) -> ModelAsked {
    ModelAsked {
        model_call_id: call,
        number: None,
        actor: actor.clone(),
        model: AskedModel::Choice(model.clone()),
        conversation: None,
        turn: None,
        attempt: Some(attempt),
        request: request.hash.to_string(),
        reserved: None,
    }
}

fn answered_payload(call: ModelCallId, answer: &StagedBlob, reply: &InquiryReply) -> ModelAnswered {
    ModelAnswered {
        model_call_id: call,
        number: None,
        turn: None,
        answer: answer.hash.to_string(),
        finish: reply.finish,
        tool_calls: None,
        usage: reply.usage,
        usd: reply.usd,
        duration_ms: None,
    }
}

async fn attempt(
    model: &dyn Model,
    request: &ModelRequest,
    ordinal: u64,
    on_text: &(dyn Fn(&str) + Sync),
) -> Result<(String, FinishReason, Usage), ModelError> {
    let mut stream = model.stream(request, ordinal);
    let (mut text, mut usage, mut finish) = (String::new(), Usage::default(), None);
    while let Some(part) = stream.next().await {
        match part? {
            Delta::Text(part) => {
                on_text(&part);
                text.push_str(&part);
            }
            Delta::Usage(used) => usage = used,
            Delta::Finished(reason) => finish = Some(reason),
            Delta::ToolCall { .. } => {}
        }
        if text.len() > ANSWER_MAXIMUM {
            return Err(model_error(
                ModelErrorKind::InvalidRequest,
                "the answer does not end",
            ));
        }
    }
    match finish {
        Some(finish) => Ok((text, finish, usage)),
        None => Err(model_error(
            ModelErrorKind::Truncated,
            "the answer ended before it was complete",
        )),
    }
}

fn model_error(kind: ModelErrorKind, message: &str) -> ModelError {
    ModelError {
        kind,
        message: message.to_owned(),
        retry_after: None,
        answer_began: false,
    }
}
