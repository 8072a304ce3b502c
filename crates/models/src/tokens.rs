//! Upper bounds for the number of tokens of a request, computed offline.
//!
//! The vocabulary of OpenAI's newer models is public and counted exactly (`o200k`, after `pieces`
//! has split the text). For other models the same count is used with a margin for their finer
//! tokenizers. No tokenizer produces more tokens than bytes, so that limits every bound.

mod o200k;
mod pieces;

use cleveragents_domain::model::{ModelMessage, ModelRequest};

/// Tokens of a request beside its contents: the templates of some models add their own preamble.
const REQUEST_OVERHEAD: u64 = 64;
/// Tokens of a message, or a call, beside its text.
const MESSAGE_OVERHEAD: u64 = 8;
/// Tokens of a tool beside its name, description and schema.
const TOOL_OVERHEAD: u64 = 16;
/// Tokens for using tools at all: vendors add instructions for calling them.
const TOOLS_OVERHEAD: u64 = 400;

/// The tokenizer of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vocabulary {
    /// OpenAI's newer models.
    O200k,
    /// Another tokenizer, or an unknown one.
    Unknown,
    /// Byte counts are sufficient, because scripts cost nothing.
    Rough,
}

impl Vocabulary {
    /// Returns the tokenizer of an OpenAI model. Other providers that use the same names are
    /// assumed to use the same tokenizer.
    pub(crate) fn for_openai_model(model: &str) -> Self {
        let is_older = ["gpt-4-", "gpt-3.5"].iter().any(|it| model.starts_with(it));
        let is_newer = ["gpt-", "o1", "o3", "o4", "chatgpt-"];
        match model {
            "gpt-4" => Self::Unknown,
            _ if is_older => Self::Unknown,
            _ if is_newer.iter().any(|it| model.starts_with(it)) => Self::O200k,
            _ => Self::Unknown,
        }
    }

    /// The maximum number of tokens of a text.
    pub(crate) fn count(self, text: &str) -> u64 {
        match self {
            Self::O200k => to_u64(o200k::count(text)),
            Self::Unknown => with_margin(text, to_u64(o200k::count(text))),
            Self::Rough => to_u64(text.len()).div_ceil(3),
        }
    }

    /// The maximum number of tokens of a request.
    pub(crate) fn count_request(self, request: &ModelRequest) -> u64 {
        let messages: u64 = request
            .messages
            .iter()
            .map(|it| self.count_message(it))
            .sum();
        let tools = request.tools.iter().map(|tool| {
            let texts = [
                tool.name.to_string(),
                tool.description.clone(),
                tool.input_schema.to_string(),
            ];
            TOOL_OVERHEAD + texts.iter().map(|text| self.count(text)).sum::<u64>()
        });
        let tools: u64 = if request.tools.is_empty() {
            0
        } else {
            TOOLS_OVERHEAD + tools.sum::<u64>()
        };
        let schema = request.output_schema.as_ref();
        let schema = schema.map_or(0, |it| TOOLS_OVERHEAD + self.count(&it.to_string()));
        REQUEST_OVERHEAD + messages + tools + schema
    }

    fn count_message(self, message: &ModelMessage) -> u64 {
        let text = match message {
            ModelMessage::System { text }
            | ModelMessage::User { text }
            | ModelMessage::Tool { text, .. } => self.count(text),
            ModelMessage::Assistant { text, tool_calls } => {
                let calls = tool_calls.iter().map(|call| {
                    TOOL_OVERHEAD + self.count(&call.tool) + self.count(&call.arguments)
                });
                self.count(text) + calls.sum::<u64>()
            }
        };
        MESSAGE_OVERHEAD + text
    }
}

/// Adds 40 %, one token per digit (many tokenizers split numbers into digits) and one per non-ASCII
/// byte (small vocabularies fall back to bytes).
fn with_margin(text: &str, count: u64) -> u64 {
    let is_costly = |byte: &u8| byte.is_ascii_digit() || !byte.is_ascii();
    let costly = to_u64(text.bytes().filter(is_costly).count());
    (count + (count * 4).div_ceil(10) + costly).min(to_u64(text.len()))
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_have_known_counts() {
        assert_eq!(Vocabulary::O200k.count("hello world"), 2);
        assert_eq!(Vocabulary::O200k.count(""), 0);
        assert_eq!(Vocabulary::Rough.count("hello world"), 4);
    }

    #[test]
    fn models_have_vocabularies() {
        for (model, vocabulary) in [
            ("gpt-5-mini", Vocabulary::O200k),
            ("gpt-4o", Vocabulary::O200k),
            ("o3", Vocabulary::O200k),
            ("gpt-4", Vocabulary::Unknown),
            ("gpt-4-turbo", Vocabulary::Unknown),
            ("gpt-3.5-turbo", Vocabulary::Unknown),
            ("qwen3-coder", Vocabulary::Unknown),
        ] {
            assert_eq!(Vocabulary::for_openai_model(model), vocabulary, "{model}");
        }
    }

    #[test]
    fn unknown_vocabularies_count_more_but_never_above_bytes() {
        for text in [
            "",
            "fn main() {}",
            "1234567890",
            "日本語のテキスト",
            "word ".repeat(500).as_str(),
        ] {
            let (known, unknown) = (
                Vocabulary::O200k.count(text),
                Vocabulary::Unknown.count(text),
            );
            assert!(known <= unknown && unknown <= to_u64(text.len()), "{text}");
        }
    }
}
