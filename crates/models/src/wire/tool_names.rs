//! Encodes tool names as vendors allow them: letters, digits, `_` and `-`, at most 64 characters.
//!
//! `/` becomes `__`. Every other illegal character becomes `_-` and the two hexadecimal digits of
//! each of its bytes; so does a `_` that would be read as the start of such a sequence. The
//! encoding is therefore unique and reversible. An encoded name that would be too long ends in
//! `_-x` and a hash instead; such names are looked up in the request.

use std::collections::HashMap;

use cleveragents_domain::model::{ModelMessage, ModelRequest};

/// The maximum length that vendors accept.
const MAX_NAME_LENGTH: usize = 64;
/// The number of hexadecimal digits of the hash that replaces the end of a long name.
const HASH_DIGITS: usize = 12;

/// The names of one request, in both directions.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolNames {
    /// Encoded names that cannot be decoded because they were shortened.
    shortened: HashMap<String, String>,
}

impl ToolNames {
    /// Collects the names in a request: those of the offered tools and of earlier calls.
    pub(crate) fn from_request(request: &ModelRequest) -> Self {
        let offered = request.tools.iter().map(|tool| tool.name.to_string());
        let called = request.messages.iter().flat_map(|message| match message {
            ModelMessage::Assistant { tool_calls, .. } => &tool_calls[..],
            _ => &[],
        });
        let called = called.map(|call| call.tool.clone());
        let mut names = Self::default();
        for name in offered.chain(called) {
            let spelling = Self::encode(&name);
            if decode_plain(&spelling) != name {
                names.shortened.insert(spelling, name);
            }
        }
        names
    }

    /// Encodes a name as vendors allow it.
    pub(crate) fn encode(name: &str) -> String {
        let spelling = escape(name);
        if !spelling.is_empty() && spelling.len() <= MAX_NAME_LENGTH {
            return spelling;
        }
        let hash = blake3::hash(name.as_bytes()).to_hex();
        let ending = format!("_-x{}", &hash[..HASH_DIGITS]);
        let kept = spelling.len().min(MAX_NAME_LENGTH - ending.len());
        format!("{}{ending}", &spelling[..kept])
    }

    /// Decodes a name. It may be unknown, because models call tools that were never offered.
    pub(crate) fn decode(&self, spelling: &str) -> String {
        match self.shortened.get(spelling) {
            Some(name) => name.clone(),
            None => decode_plain(spelling),
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn escape(name: &str) -> String {
    let bytes = name.as_bytes();
    let mut spelling = String::with_capacity(bytes.len() + 8);
    for (index, byte) in bytes.iter().copied().enumerate() {
        // Before anything but a letter or digit, a `_` would be read as the start of a sequence.
        let is_separate = bytes.get(index + 1).is_none_or(u8::is_ascii_alphanumeric);
        match byte {
            byte if is_plain(byte) => spelling.push(char::from(byte)),
            b'_' if is_separate => spelling.push('_'),
            b'/' => spelling.push_str("__"),
            byte => spelling.push_str(&format!("_-{byte:02x}")),
        }
    }
    spelling
}

fn decode_plain(spelling: &str) -> String {
    let mut bytes = Vec::with_capacity(spelling.len());
    let mut rest = spelling.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'_', [b'_', after @ ..]) => {
                bytes.push(b'/');
                rest = after;
            }
            (b'_', [b'-', high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high << 4 | low);
                    rest = after;
                }
                _ => bytes.push(b'_'),
            },
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Accepts lower case only, so that each byte has one encoding.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::model::{RequestedToolCall, ToolCallPosition, ToolChoice};
    use proptest::prelude::*;

    use super::*;

    fn request_with_call(tool: &str) -> ModelRequest {
        ModelRequest {
            messages: vec![ModelMessage::Assistant {
                text: String::new(),
                tool_calls: vec![RequestedToolCall {
                    place: ToolCallPosition { turn: 1, slot: 1 },
                    tool: tool.to_owned(),
                    arguments: "{}".to_owned(),
                }],
            }],
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            options: Default::default(),
            output_schema: None,
        }
    }

    #[test]
    fn ordinary_names_have_readable_encodings() {
        for (name, spelling) in [
            ("builtin/file-read", "builtin__file-read"),
            ("local/my_tool", "local__my_tool"),
            ("local/a__b", "local__a_-5f_b"),
            ("local/a_-b", "local__a_-5f-b"),
            ("local/a_", "local__a_"),
            ("a_/b", "a_-5f__b"),
            ("a/_b", "a___b"),
            ("server:ns/name.v2", "server_-3ans__name_-2ev2"),
            ("a b", "a_-20b"),
            ("é", "_-c3_-a9"),
        ] {
            assert_eq!(ToolNames::encode(name), spelling);
            assert_eq!(ToolNames::default().decode(spelling), name);
        }
    }

    #[test]
    fn invented_names_are_decoded_leniently() {
        for (spelling, name) in [
            ("__", "/"),
            ("_", "_"),
            ("_-", "_-"),
            ("_-zz", "_-zz"),
            ("_-2E", "_-2E"),
            ("builtin.file", "builtin.file"),
            ("builtin/file", "builtin/file"),
        ] {
            assert_eq!(ToolNames::default().decode(spelling), name);
        }
    }

    #[test]
    fn long_or_empty_names_are_resolved_from_the_request() {
        let long = format!("{}/{}", "n".repeat(100), "m.".repeat(50));
        for name in [long.as_str(), ""] {
            let spelling = ToolNames::encode(name);
            assert!(!spelling.is_empty() && spelling.len() <= MAX_NAME_LENGTH);
            assert_eq!(
                ToolNames::from_request(&request_with_call(name)).decode(&spelling),
                name
            );
        }
        let other = long.replace('m', "k");
        assert_ne!(ToolNames::encode(&long), ToolNames::encode(&other));
    }

    proptest! {
        #[test]
        fn every_name_round_trips(name in "[a-zA-Z0-9_./:é-]{1,80}") {
            let spelling = ToolNames::encode(&name);
            let is_allowed = |byte: u8| is_plain(byte) || byte == b'_';
            prop_assert!(spelling.bytes().all(is_allowed));
            prop_assert!((1..=MAX_NAME_LENGTH).contains(&spelling.len()));
            prop_assert_eq!(ToolNames::from_request(&request_with_call(&name)).decode(&spelling), name);
        }
    }
}
