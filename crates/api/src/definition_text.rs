//! The text of a definition that the caller sends.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A definition in YAML, as the caller read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionText {
    /// The name of the file in messages.
    pub name: String,
    /// The caller's name of the file in a next step: its path, or `-` for standard input.
    pub argument: String,
    #[serde(with = "bytes_as_text")]
    #[schemars(with = "String")]
    pub content: Vec<u8>,
    /// The base of relative paths in the file.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// The values of the variables that the text names as `${NAME}`.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    #[serde(default)]
    pub owner: DefinitionOwner,
}

/// The author of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DefinitionOwner {
    #[default]
    User,
    /// The file is part of a repository: `${NAME}` is not expanded, and built-in names cannot be
    /// defined.
    Repository,
}

/// The content is bytes, because a file that is not UTF-8 is a problem that the handler reports
/// like any other. Only valid UTF-8 can be sent to another process.
mod bytes_as_text {
    use serde::{Deserialize, Deserializer, Serializer, ser};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let text = std::str::from_utf8(bytes).map_err(ser::Error::custom)?;
        serializer.serialize_str(text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        String::deserialize(deserializer).map(String::into_bytes)
    }
}
