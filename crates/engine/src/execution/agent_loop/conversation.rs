//! Stores conversations: each message once, and per model call a manifest that continues the
//! previous one. So the stored size grows with the conversation, not with the number of requests.

use std::borrow::Cow;
use std::sync::Arc;

use cleveragents_domain::model::{
    ModelAnswer, ModelMessage, ModelOptions, ModelRequest, OfferedTool, RequestedToolCall,
    ToolCallPosition, ToolChoice,
};
use cleveragents_domain::model_call::{ConversationKey, ModelCallRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compaction::{WeightedMessages, compact};
use crate::decisions::ContextItem;
use crate::secrets::Secrets;
use cleveragents_ports::models::Model;
use cleveragents_ports::{BlobHash, Result, StagedBlob, StoreError, StoreHandle, Transaction};

/// The messages of one request, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ConversationManifest {
    v: u32,
    /// Hash of the manifest that this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
    /// Hashes of the messages added since the previous manifest.
    messages: Vec<String>,
    tools: String,
    tool_choice: ToolChoice,
    #[serde(default)]
    options: ModelOptions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
    /// Number of leading messages that compaction never drops.
    pinned: usize,
}

/// A request whose parts are staged as blobs.
#[derive(Debug, Clone)]
pub(super) struct StagedRequest {
    /// Sorted by hash, so that two transactions with the same blobs cannot deadlock.
    pub(super) blobs: Arc<[StagedBlob]>,
    pub(super) manifest: BlobHash,
}

/// A conversation as of the last model call.
#[derive(Debug)]
pub(super) struct SavedConversation {
    turn: u32,
    pinned: usize,
    messages: Vec<ModelMessage>,
    manifest: BlobHash,
    /// The answer, if there was one.
    answer: Option<ModelAnswer>,
}

/// Loads the messages and the answer of this call.
pub(super) fn load_conversation(
    tx: &mut dyn Transaction,
    call: &ModelCallRecord,
) -> Result<SavedConversation> {
    let manifest: BlobHash = call.call.request.parse()?;
    let mut chain: Vec<ConversationManifest> = Vec::new();
    let mut next = Some(manifest.clone());
    // A chain cannot have a cycle: each manifest contains the hash of the previous one.
    while let Some(hash) = next {
        let found: ConversationManifest = load_json(tx, &hash)?;
        next = found.previous.as_deref().map(str::parse).transpose()?;
        chain.push(found);
    }
    let mut messages = Vec::new();
    for hash in chain.iter().rev().flat_map(|it| &it.messages) {
        messages.push(load_json(tx, &hash.parse()?)?);
    }
    let answer = match call.answer.as_deref() {
        Some(hash) => Some(load_json(tx, &hash.parse()?)?),
        None => None,
    };
    Ok(SavedConversation {
        turn: call.call.turn,
        pinned: chain.first().map_or(0, |it| it.pinned),
        messages,
        manifest,
        answer,
    })
}

/// Returns what a stored request gave the model: its messages in order, and the tools that it could call.
/// `None` if a part of it is no longer kept.
pub(crate) fn request_items(
    tx: &mut dyn Transaction,
    request: &str,
) -> Result<Option<Vec<ContextItem>>> {
    let mut chain: Vec<ConversationManifest> = Vec::new();
    let mut next = Some(request.to_owned());
    while let Some(hash) = next {
        let Some(found) = find_json::<ConversationManifest>(tx, &hash)? else {
            return Ok(None);
        };
        next = found.previous.clone();
        chain.push(found);
    }
    let mut items = Vec::new();
    for (hash, number) in chain.iter().rev().flat_map(|it| &it.messages).zip(1..) {
        let Some(message) = find_json(tx, hash)? else {
            return Ok(None);
        };
        items.push(message_item(number, &message));
    }
    let tools = chain.first().map(|it| it.tools.clone()).unwrap_or_default();
    let Some(tools) = find_json::<Vec<OfferedTool>>(tx, &tools)? else {
        return Ok(None);
    };
    let names: Vec<String> = tools.iter().map(|it| it.name.to_string()).collect();
    items.push(ContextItem {
        name: "tools".to_owned(),
        text: names.join("\n"),
    });
    Ok(Some(items))
}

fn message_item(number: usize, message: &ModelMessage) -> ContextItem {
    let (role, text) = match message {
        ModelMessage::System { text } => ("system", text.clone()),
        ModelMessage::User { text } => ("user", text.clone()),
        ModelMessage::Tool { text, .. } => ("tool", text.clone()),
        ModelMessage::Assistant { text, tool_calls } => {
            let mut text = text.clone();
            for call in tool_calls {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&format!("{} {}", call.tool, call.arguments));
            }
            ("assistant", text)
        }
    };
    ContextItem {
        name: format!("{number} {role}"),
        text,
    }
}

/// Returns `None` if the blob is no longer kept.
fn find_json<T: serde::de::DeserializeOwned>(
    tx: &mut dyn Transaction,
    hash: &str,
) -> Result<Option<T>> {
    let Some(bytes) = tx.blob(&hash.parse()?)? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(StoreError::internal)
}

/// A conversation and its token counts.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) key: ConversationKey,
    /// Number of answers so far.
    pub(super) turn: u32,
    /// The actor's options. The request has the same, but perhaps a lower limit of the answer.
    pub(super) options: ModelOptions,
    request: ModelRequest,
    weights: Vec<u64>,
    /// Token count of the tool definitions.
    tools_weight: u64,
    pinned: usize,
    secrets: Secrets,
    /// The newest stored manifest, and the number of messages it covers.
    stored: Option<(BlobHash, usize)>,
}

/// Result of a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompactionStats {
    pub(super) messages_before: usize,
    pub(super) messages_after: usize,
    pub(super) tokens_before: u64,
    pub(super) tokens_after: u64,
}

/// The start of a conversation: its first messages and the tools that the model may use.
#[derive(Debug)]
pub(super) struct ConversationOpening {
    pub(super) key: ConversationKey,
    pub(super) messages: Vec<ModelMessage>,
    pub(super) tools: Vec<OfferedTool>,
    pub(super) options: ModelOptions,
}

impl Conversation {
    /// Starts a conversation with these messages, which are pinned.
    pub(super) fn begin(
        opening: ConversationOpening,
        model: &dyn Model,
        secrets: &Secrets,
    ) -> Self {
        let ConversationOpening {
            key,
            messages,
            tools,
            options,
        } = opening;
        let request = ModelRequest {
            messages: Vec::new(),
            tools,
            tool_choice: ToolChoice::Required,
            options: options.clone(),
            output_schema: None,
        };
        let mut conversation = Self {
            key,
            turn: 0,
            options,
            tools_weight: model.count_tokens(&request),
            request,
            weights: Vec::new(),
            pinned: messages.len(),
            secrets: secrets.clone(),
            stored: None,
        };
        for message in messages {
            conversation.add_message(message, model);
        }
        conversation
    }

    /// Continues a saved conversation. The tools offered now apply from here on.
    pub(super) fn resume(
        self,
        saved: SavedConversation,
        model: &dyn Model,
    ) -> (Self, Option<ModelAnswer>) {
        if saved.turn == 1 && saved.answer.is_none() {
            // There was no answer yet: use the new opening messages, and keep the user's messages.
            let mut restarted = self;
            for message in saved.messages.into_iter().skip(saved.pinned) {
                restarted.add_message(message, model);
            }
            return (restarted, None);
        }
        let mut resumed = Self {
            turn: saved.turn - 1,
            weights: Vec::new(),
            pinned: saved.pinned,
            ..self
        };
        resumed.request.messages.clear();
        for message in saved.messages {
            resumed.add_message(message, model);
        }
        resumed.stored = Some((saved.manifest, resumed.request.messages.len()));
        (resumed, saved.answer)
    }

    /// Returns the request, with an answer of at most `answer_limit` tokens.
    pub(super) fn request(&mut self, answer_limit: Option<u64>) -> &ModelRequest {
        self.request.options.max_tokens = answer_limit.or(self.options.max_tokens);
        &self.request
    }

    pub(super) fn messages(&self) -> &[ModelMessage] {
        &self.request.messages
    }

    /// Returns an upper bound of its token count.
    pub(super) fn tokens(&self) -> u64 {
        self.tools_weight + self.weights.iter().sum::<u64>()
    }

    /// Adds a message with secrets masked.
    pub(super) fn add_message(&mut self, message: ModelMessage, model: &dyn Model) {
        // The only way into the request, so no message reaches a provider or the store unmasked.
        let message = mask_message(message, &self.secrets);
        self.weights.push(count_tokens(&message, model));
        self.request.messages.push(message);
    }

    /// Adds the model's answer as the next turn and returns the calls.
    pub(super) fn add_answer(
        &mut self,
        answer: &ModelAnswer,
        model: &dyn Model,
    ) -> Vec<RequestedToolCall> {
        self.turn += 1;
        let mut calls = requested_calls(answer, self.turn);
        for call in &mut calls {
            // A model may invent any tool name, so mask secrets in it.
            call.tool = self.secrets.mask(&call.tool).into_owned();
        }
        let message = ModelMessage::Assistant {
            text: answer.text.clone(),
            tool_calls: calls.clone(),
        };
        self.add_message(message, model);
        calls
    }

    /// Compacts the conversation if it exceeds `room`. Messages that cannot be dropped stay.
    pub(super) fn compact(&mut self, room: u64, model: &dyn Model) -> Option<CompactionStats> {
        let before = WeightedMessages {
            messages: std::mem::take(&mut self.request.messages),
            weights: std::mem::take(&mut self.weights),
        };
        let room = room.saturating_sub(self.tools_weight);
        let compacted = compact(&before, self.pinned, room, &|message| {
            count_tokens(message, model)
        });
        let stats = compacted.as_ref().map(|after| CompactionStats {
            messages_before: before.messages.len(),
            messages_after: after.messages.len(),
            tokens_before: self.tools_weight + before.total(),
            tokens_after: self.tools_weight + after.total(),
        });
        if compacted.is_some() {
            // A compacted conversation continues no stored manifest, so the next one is written
            // whole.
            self.stored = None;
        }
        let WeightedMessages { messages, weights } = compacted.unwrap_or(before);
        self.request.messages = messages;
        self.weights = weights;
        stats
    }

    /// Stages the next request as blobs, so that a row can refer to them.
    pub(super) async fn stage(&self, store: &StoreHandle) -> Result<StagedRequest> {
        let (previous, known) = match &self.stored {
            Some((hash, known)) => (Some(hash.to_string()), *known),
            None => (None, 0),
        };
        let mut blobs: Vec<StagedBlob> = Vec::new();
        let mut messages = Vec::new();
        for message in &self.request.messages[known..] {
            messages.push(stage_json(store, message, &mut blobs).await?.to_string());
        }
        let manifest = ConversationManifest {
            v: 1,
            previous,
            messages,
            tools: stage_json(store, &self.request.tools, &mut blobs)
                .await?
                .to_string(),
            tool_choice: self.request.tool_choice,
            options: self.options.clone(),
            output_schema: self.request.output_schema.clone(),
            pinned: self.pinned,
        };
        let manifest = stage_json(store, &manifest, &mut blobs).await?;
        // The order of the locks on blobs.
        blobs.sort_by(|one, other| one.hash.cmp(&other.hash));
        blobs.dedup_by(|one, other| one.hash == other.hash);
        Ok(StagedRequest {
            blobs: blobs.into(),
            manifest,
        })
    }

    pub(super) fn mark_stored(&mut self, staged: &StagedRequest) {
        self.stored = Some((staged.manifest.clone(), self.request.messages.len()));
    }

    /// Returns every past call with its result, in order.
    pub(super) fn past_calls(&self) -> impl Iterator<Item = (&RequestedToolCall, &str)> {
        let mut requested: Vec<&RequestedToolCall> = Vec::new();
        self.request
            .messages
            .iter()
            .filter_map(move |message| match message {
                ModelMessage::Assistant { tool_calls, .. } => {
                    requested = tool_calls.iter().collect();
                    None
                }
                ModelMessage::Tool { call, text } => {
                    let found = requested.iter().find(|it| it.place == *call);
                    found.map(|it| (*it, text.as_str()))
                }
                _ => None,
            })
    }
}

fn mask_message(message: ModelMessage, secrets: &Secrets) -> ModelMessage {
    let mask = |text: String| match secrets.mask(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    };
    match message {
        ModelMessage::System { text } => ModelMessage::System { text: mask(text) },
        ModelMessage::User { text } => ModelMessage::User { text: mask(text) },
        ModelMessage::Tool { call, text } => ModelMessage::Tool {
            call,
            text: mask(text),
        },
        ModelMessage::Assistant { text, tool_calls } => ModelMessage::Assistant {
            text: mask(text),
            tool_calls: tool_calls
                .into_iter()
                .map(|call| RequestedToolCall {
                    arguments: mask(call.arguments),
                    ..call
                })
                .collect(),
        },
    }
}

/// Returns the calls of an answer with their positions in the conversation.
pub(super) fn requested_calls(answer: &ModelAnswer, turn: u32) -> Vec<RequestedToolCall> {
    let numbered = answer.tool_calls.iter().zip(1..);
    let calls = numbered.map(|(call, slot)| RequestedToolCall {
        place: ToolCallPosition { turn, slot },
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
    });
    calls.collect()
}

pub(super) fn count_tokens(message: &ModelMessage, model: &dyn Model) -> u64 {
    model.count_tokens(&ModelRequest {
        messages: vec![message.clone()],
        tools: Vec::new(),
        tool_choice: ToolChoice::None,
        options: ModelOptions::default(),
        output_schema: None,
    })
}

async fn stage_json<T: Serialize>(
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

fn load_json<T: serde::de::DeserializeOwned>(
    tx: &mut dyn Transaction,
    hash: &BlobHash,
) -> Result<T> {
    let bytes = tx
        .blob(hash)?
        .ok_or_else(|| StoreError::internal(format!("blob {hash} of a conversation is gone")))?;
    serde_json::from_slice(&bytes).map_err(StoreError::internal)
}
