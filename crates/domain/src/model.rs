//! Conversations with models: requests, answers and cost.
//!
//! All types are vendor-neutral and stored as they are. They contain nothing that differs between
//! two runs: no vendor ids, no times, no keys. A tool call is identified by its position in the
//! conversation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::name::NamespacedName;
use crate::text_enum::text_enum;

/// A model and its provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ModelChoice {
    /// The name under which the provider is configured, such as `openai`, `anthropic`, `scripted`.
    pub provider: String,
    /// The provider's name for the model; the path of the script for `scripted`.
    pub model: String,
}

impl std::fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// Error of a text that is no valid `provider/model`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a model is written PROVIDER/MODEL, such as `openai/gpt-5-mini`")]
pub struct ModelChoiceError;

impl std::str::FromStr for ModelChoice {
    type Err = ModelChoiceError;

    /// Splits at the first `/`, because model names of some providers contain more of them.
    fn from_str(text: &str) -> Result<Self, ModelChoiceError> {
        let is_printable = |part: &&str| !part.is_empty() && !part.contains(char::is_control);
        let (provider, model) = text.split_once('/').ok_or(ModelChoiceError)?;
        if [provider, model].iter().all(is_printable) {
            Ok(Self {
                provider: provider.to_owned(),
                model: model.to_owned(),
            })
        } else {
            Err(ModelChoiceError)
        }
    }
}

/// A complete request to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    pub messages: Vec<ModelMessage>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<OfferedTool>,
    pub tool_choice: ToolChoice,
    #[serde(default)]
    pub options: ModelOptions,
    /// The JSON Schema that the text of the answer must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ModelMessage {
    System {
        text: String,
    },
    User {
        text: String,
    },
    Assistant {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<RequestedToolCall>,
    },
    /// The result of one of the tool calls of the last assistant turn.
    Tool {
        call: ToolCallPosition,
        text: String,
    },
}

/// The position of a tool call in a conversation: the turn that requested it and the call within
/// that turn, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ToolCallPosition {
    pub turn: u32,
    pub slot: u32,
}

/// A tool call as the model requested it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedToolCall {
    pub place: ToolCallPosition,
    /// The name of the tool in this program, not the vendor's spelling. The tool need not exist:
    /// models invent names.
    pub tool: String,
    /// The arguments as the model wrote them. They may be invalid JSON.
    pub arguments: String,
}

/// A tool offered to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfferedTool {
    pub name: NamespacedName,
    pub description: String,
    pub input_schema: Value,
}

text_enum! {
    /// Whether the model must call a tool.
    ToolChoice: "choice of tools" {
        Auto = "auto",
        Required = "required",
        None = "none",
    }
}

/// Parameters of the answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelOptions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The maximum number of tokens of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

/// A complete answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswer {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<AnswerToolCall>,
    pub finish: FinishReason,
    #[serde(default)]
    pub usage: Usage,
}

/// A tool call in an answer. Its slot is its index in the list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerToolCall {
    pub tool: String,
    pub arguments: String,
}

text_enum! {
    /// A model's reason to stop generating.
    #[derive(Default)]
    FinishReason: "reason to finish" {
        #[default]
        Stop = "stop",
        ToolCalls = "tool_calls",
        /// The answer reached its token limit.
        Length = "length",
        /// The vendor withheld the answer.
        Refused = "refused",
        Other = "other",
    }
}

/// Token usage of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// All input tokens, cached or not.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Input tokens read from the vendor's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Input tokens written to the vendor's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_written_tokens: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// In US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// For input read from the vendor's cache; `None` means the normal input price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
    /// For input written to the vendor's cache; `None` means the normal input price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl Price {
    /// Returns the cost in US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let plain = usage
            .input_tokens
            .saturating_sub(usage.cached_tokens)
            .saturating_sub(usage.cache_written_tokens);
        let parts = [
            (plain, self.input),
            (usage.cached_tokens, self.cached_input.unwrap_or(self.input)),
            (
                usage.cache_written_tokens,
                self.cache_write.unwrap_or(self.input),
            ),
            (usage.output_tokens, self.output),
        ];
        #[expect(clippy::cast_precision_loss, reason = "no answer has 2^52 tokens")]
        let dollars = |(tokens, price): (u64, f64)| tokens as f64 * price / 1e6;
        parts.into_iter().map(dollars).sum()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cached_tokens_have_their_own_price() {
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            cached_tokens: 400_000,
            cache_written_tokens: 100_000,
        };
        let flat = Price {
            input: 2.0,
            output: 10.0,
            cached_input: None,
            cache_write: None,
        };
        assert!((flat.cost(&usage) - 3.0).abs() < 1e-9);
        let cached = Price {
            cached_input: Some(0.5),
            cache_write: Some(3.0),
            ..flat
        };
        assert!((cached.cost(&usage) - (1.0 + 0.2 + 0.3 + 1.0)).abs() < 1e-9);
    }

    #[test]
    fn a_choice_reads_back() {
        for text in [
            "openai/gpt-5",
            "openrouter/meta/llama-3",
            "scripted//tmp/a b.yaml",
        ] {
            assert_eq!(text.parse::<ModelChoice>().unwrap().to_string(), text);
        }
        for text in ["", "gpt-5", "/gpt-5", "openai/", "a/b\n"] {
            assert_eq!(text.parse::<ModelChoice>(), Err(ModelChoiceError));
        }
    }

    #[test]
    fn messages_read_back() {
        let messages = json!([
            {"role": "system", "text": "Be brief."},
            {"role": "user", "text": "Hello"},
            {"role": "assistant", "tool_calls": [
                {"place": {"turn": 1, "slot": 1}, "tool": "builtin/file-read", "arguments": "{}"}
            ]},
            {"role": "tool", "call": {"turn": 1, "slot": 1}, "text": "no"},
        ]);
        let read: Vec<ModelMessage> = serde_json::from_value(messages.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), messages);
    }
}
