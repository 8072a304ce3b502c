//! A conversation as it is kept: each message once, and for each time the model was asked a list
//! that goes on where the one before ended. So what is stored grows with what was said, however
//! often it was sent.

use std::borrow::Cow;
use std::sync::Arc;

use cleveragents_domain::model::{
    CallPlace, ModelAnswer, ModelMessage, ModelOptions, ModelRequest, OfferedTool, RequestedCall,
    ToolChoice,
};
use cleveragents_domain::model_call::{ConversationKey, ModelCallRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compaction::{Weighed, compact};
use crate::ports::models::Model;
use crate::ports::{BlobHash, Result, StagedBlob, StoreError, StoreHandle, Unit};
use crate::secrets::Secrets;

/// What was sent, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Manifest {
    v: u32,
    /// The list that this one goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
    /// The messages after those of the list before, by their hashes.
    messages: Vec<String>,
    tools: String,
    tool_choice: ToolChoice,
    #[serde(default)]
    options: ModelOptions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
    /// How many of the first messages never make room.
    pinned: usize,
}

/// A request whose parts can be named by a row.
#[derive(Debug, Clone)]
pub(super) struct Staged {
    /// In the order of their hashes, so that two who keep the same cannot wait in a circle.
    pub(super) blobs: Arc<[StagedBlob]>,
    pub(super) manifest: BlobHash,
}

/// A conversation as it was when the model was asked last.
#[derive(Debug)]
pub(super) struct Saved {
    turn: u32,
    pinned: usize,
    messages: Vec<ModelMessage>,
    manifest: BlobHash,
    /// What it answered, if it did.
    answer: Option<ModelAnswer>,
}

/// What was said in this call, and the answer.
pub(super) fn saved(unit: &mut dyn Unit, call: &ModelCallRecord) -> Result<Saved> {
    let manifest: BlobHash = call.call.request.parse()?;
    let mut chain: Vec<Manifest> = Vec::new();
    let mut next = Some(manifest.clone());
    while let Some(hash) = next {
        let found: Manifest = load(unit, &hash)?;
        next = found.previous.as_deref().map(str::parse).transpose()?;
        chain.push(found);
    }
    let mut messages = Vec::new();
    for hash in chain.iter().rev().flat_map(|it| &it.messages) {
        messages.push(load(unit, &hash.parse()?)?);
    }
    let answer = match call.answer.as_deref() {
        Some(hash) => Some(load(unit, &hash.parse()?)?),
        None => None,
    };
    Ok(Saved {
        turn: call.call.turn,
        pinned: chain.first().map_or(0, |it| it.pinned),
        messages,
        manifest,
        answer,
    })
}

/// What was said so far, and what it weighs.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) key: ConversationKey,
    /// How often the model has answered.
    pub(super) turn: u32,
    request: ModelRequest,
    weights: Vec<u64>,
    /// What the tools weigh.
    fixed: u64,
    pinned: usize,
    secrets: Secrets,
    /// The newest list that is stored, and how many messages it ends with.
    stored: Option<(BlobHash, usize)>,
}

/// What compaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Compacted {
    pub(super) messages_before: usize,
    pub(super) messages_after: usize,
    pub(super) tokens_before: u64,
    pub(super) tokens_after: u64,
}

impl Conversation {
    /// A conversation that begins with these messages, which never make room.
    pub(super) fn begin(
        key: ConversationKey,
        opening: Vec<ModelMessage>,
        tools: Vec<OfferedTool>,
        options: ModelOptions,
        (model, secrets): (&dyn Model, &Secrets),
    ) -> Self {
        let request = ModelRequest {
            messages: Vec::new(),
            tools,
            tool_choice: ToolChoice::Required,
            options,
            output_schema: None,
        };
        let mut conversation = Self {
            key,
            turn: 0,
            fixed: model.count(&request),
            request,
            weights: Vec::new(),
            pinned: opening.len(),
            secrets: secrets.clone(),
            stored: None,
        };
        for message in opening {
            conversation.say(message, model);
        }
        conversation
    }

    /// Goes on with what was said before. What is offered now is what counts from here on.
    pub(super) fn resume(self, saved: Saved, model: &dyn Model) -> (Self, Option<ModelAnswer>) {
        if saved.turn == 1 && saved.answer.is_none() {
            // Nothing was answered yet, so how it begins now counts, and what humans said then.
            let mut begun = self;
            for message in saved.messages.into_iter().skip(saved.pinned) {
                begun.say(message, model);
            }
            return (begun, None);
        }
        let mut resumed = Self {
            turn: saved.turn - 1,
            weights: Vec::new(),
            pinned: saved.pinned,
            ..self
        };
        resumed.request.messages.clear();
        for message in saved.messages {
            resumed.say(message, model);
        }
        resumed.stored = Some((saved.manifest, resumed.request.messages.len()));
        (resumed, saved.answer)
    }

    pub(super) fn request(&self) -> &ModelRequest {
        &self.request
    }

    /// How many tokens it has at most.
    pub(super) fn tokens(&self) -> u64 {
        self.fixed + self.weights.iter().sum::<u64>()
    }

    /// Adds a message, without what no model and no store may know.
    pub(super) fn say(&mut self, message: ModelMessage, model: &dyn Model) {
        let message = hidden(message, &self.secrets);
        self.weights.push(weigh(&message, model));
        self.request.messages.push(message);
    }

    /// Takes the model's answer as the next turn, and says where its calls stand.
    pub(super) fn answer(&mut self, answer: &ModelAnswer, model: &dyn Model) -> Vec<RequestedCall> {
        self.turn += 1;
        let turn = self.turn;
        let calls: Vec<RequestedCall> = answer
            .tool_calls
            .iter()
            .zip(1..)
            .map(|(call, slot)| RequestedCall {
                place: CallPlace { turn, slot },
                // A name that a model made up may be anything.
                tool: self.secrets.hide(&call.tool).into_owned(),
                arguments: call.arguments.clone(),
            })
            .collect();
        let said = ModelMessage::Assistant {
            text: answer.text.clone(),
            tool_calls: calls.clone(),
        };
        self.say(said, model);
        calls
    }

    /// Makes room if there is more than `room`; what cannot go stays.
    pub(super) fn make_room(&mut self, room: u64, model: &dyn Model) -> Option<Compacted> {
        let before = Weighed {
            messages: std::mem::take(&mut self.request.messages),
            weights: std::mem::take(&mut self.weights),
        };
        let room = room.saturating_sub(self.fixed);
        let compacted = compact(&before, self.pinned, room, &|message| weigh(message, model));
        let told = compacted.as_ref().map(|after| Compacted {
            messages_before: before.messages.len(),
            messages_after: after.messages.len(),
            tokens_before: self.fixed + before.total(),
            tokens_after: self.fixed + after.total(),
        });
        if compacted.is_some() {
            self.stored = None;
        }
        let Weighed { messages, weights } = compacted.unwrap_or(before);
        self.request.messages = messages;
        self.weights = weights;
        told
    }

    /// Makes what is sent next durable enough to be named.
    pub(super) async fn stage(&self, store: &StoreHandle) -> Result<Staged> {
        let (previous, known) = match &self.stored {
            Some((hash, known)) => (Some(hash.to_string()), *known),
            None => (None, 0),
        };
        let mut blobs: Vec<StagedBlob> = Vec::new();
        let mut messages = Vec::new();
        for message in &self.request.messages[known..] {
            messages.push(stage(store, message, &mut blobs).await?.to_string());
        }
        let manifest = Manifest {
            v: 1,
            previous,
            messages,
            tools: stage(store, &self.request.tools, &mut blobs)
                .await?
                .to_string(),
            tool_choice: self.request.tool_choice,
            options: self.request.options.clone(),
            output_schema: self.request.output_schema.clone(),
            pinned: self.pinned,
        };
        let manifest = stage(store, &manifest, &mut blobs).await?;
        blobs.sort_by(|one, other| one.hash.cmp(&other.hash));
        blobs.dedup_by(|one, other| one.hash == other.hash);
        Ok(Staged {
            blobs: blobs.into(),
            manifest,
        })
    }

    /// What was staged is on record.
    pub(super) fn is_stored(&mut self, staged: &Staged) {
        self.stored = Some((staged.manifest.clone(), self.request.messages.len()));
    }

    /// Every call with what it gave, in their order.
    pub(super) fn past_calls(&self) -> impl Iterator<Item = (&RequestedCall, &str)> {
        let mut asked: Vec<&RequestedCall> = Vec::new();
        self.request
            .messages
            .iter()
            .filter_map(move |message| match message {
                ModelMessage::Assistant { tool_calls, .. } => {
                    asked = tool_calls.iter().collect();
                    None
                }
                ModelMessage::Tool { call, text } => {
                    let found = asked.iter().find(|it| it.place == *call);
                    found.map(|it| (*it, text.as_str()))
                }
                _ => None,
            })
    }
}

fn hidden(message: ModelMessage, secrets: &Secrets) -> ModelMessage {
    let hide = |text: String| match secrets.hide(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    };
    match message {
        ModelMessage::System { text } => ModelMessage::System { text: hide(text) },
        ModelMessage::User { text } => ModelMessage::User { text: hide(text) },
        ModelMessage::Tool { call, text } => ModelMessage::Tool {
            call,
            text: hide(text),
        },
        ModelMessage::Assistant { text, tool_calls } => ModelMessage::Assistant {
            text: hide(text),
            tool_calls: tool_calls
                .into_iter()
                .map(|call| RequestedCall {
                    arguments: hide(call.arguments),
                    ..call
                })
                .collect(),
        },
    }
}

fn weigh(message: &ModelMessage, model: &dyn Model) -> u64 {
    model.count(&ModelRequest {
        messages: vec![message.clone()],
        tools: Vec::new(),
        tool_choice: ToolChoice::None,
        options: ModelOptions::default(),
        output_schema: None,
    })
}

async fn stage<T: Serialize>(
    store: &StoreHandle,
    value: &T,
    blobs: &mut Vec<StagedBlob>,
) -> Result<BlobHash> {
    let bytes = serde_json::to_vec(value).map_err(StoreError::internal)?;
    let blob = store.stage_blob(bytes).await?;
    let hash = blob.hash.clone();
    blobs.push(blob);
    Ok(hash)
}

fn load<T: serde::de::DeserializeOwned>(unit: &mut dyn Unit, hash: &BlobHash) -> Result<T> {
    let bytes = unit
        .blob(hash)?
        .ok_or_else(|| StoreError::internal(format!("blob {hash} of a conversation is gone")))?;
    serde_json::from_slice(&bytes).map_err(StoreError::internal)
}
