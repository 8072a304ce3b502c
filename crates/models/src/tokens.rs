//! How many tokens a request has at most, found without asking anybody.
//!
//! The vocabulary of OpenAI's newer models is public and counted exactly. Others' count is that
//! one's with a margin for what they are known to cut smaller: a second vocabulary would be another
//! 15 MB of the program. No tokenizer makes more tokens than there
//! are bytes, so that is the bound of every bound.

use bpe_openai::Tokenizer;
use cleveragents_domain::model::{ModelMessage, ModelRequest};

/// What a request costs beside everything in it: templates of some models greet in their own way.
const REQUEST_OVERHEAD: u64 = 64;
/// What a message, or a call, costs beside its text.
const MESSAGE_OVERHEAD: u64 = 8;
/// What a tool costs beside its name, description and schema.
const TOOL_OVERHEAD: u64 = 16;
/// What tools cost at all: vendors explain how to call them.
const TOOLS_OVERHEAD: u64 = 400;

/// How a model cuts text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vocabulary {
    /// OpenAI's newer models.
    O200k,
    /// Another, or nobody told.
    Unknown,
    /// Bytes are enough: nobody pays for a script.
    Rough,
}

impl Vocabulary {
    /// The vocabulary of a model of OpenAI's; whoever else uses its names is believed too.
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

    /// The most tokens a text may be.
    pub(crate) fn count(self, text: &str) -> u64 {
        let exact = |tokenizer: &Tokenizer| to_u64(tokenizer.count(text));
        match self {
            Self::O200k => exact(bpe_openai::o200k_base()),
            Self::Unknown => with_margin(text, exact(bpe_openai::o200k_base())),
            Self::Rough => to_u64(text.len()).div_ceil(3),
        }
    }

    /// The most tokens a request may be.
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
        let tools: u64 = match request.tools.is_empty() {
            true => 0,
            false => TOOLS_OVERHEAD + tools.sum::<u64>(),
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

/// Four tenths more, a token for each digit (many cut numbers digit by digit) and one for each byte
/// that is no ASCII (small vocabularies fall back to bytes).
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
