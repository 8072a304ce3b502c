//! The entries of a changeset: what a plan changed.
//!
//! Paths are bytes, because file names are. In JSON and in output they are percent-encoded: every
//! name round-trips, and none can inject terminal escapes.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::ToolCallId;
use crate::name::NamespacedName;
use crate::percent;
use crate::schema::fixed_schema;

/// A path relative to its resource: no root, no `.` or `..`, no empty component.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourcePath(Vec<u8>);

/// Error of bytes that are no valid path inside a resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("a path must not be empty")]
    Empty,
    #[error("a path is relative to its resource, it must not begin with `/`")]
    Absolute,
    #[error("a path must not contain the component `{0}`")]
    Component(&'static str),
    #[error("a path must not contain an empty component (`//` or a `/` at its end)")]
    EmptyComponent,
    #[error("`%` in a path must be followed by two hexadecimal digits, at byte {at}")]
    Encoding { at: usize },
}

impl ResourcePath {
    /// Fails unless the bytes are a normalised relative path. The bytes are kept unchanged.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, PathError> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(PathError::Empty);
        }
        if bytes[0] == b'/' {
            return Err(PathError::Absolute);
        }
        for component in bytes.split(|byte| *byte == b'/') {
            match component {
                b"" => return Err(PathError::EmptyComponent),
                b"." => return Err(PathError::Component(".")),
                b".." => return Err(PathError::Component("..")),
                _ => {}
            }
        }
        Ok(Self(bytes))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Percent-encodes where needed.
impl fmt::Display for ResourcePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        percent::write(&self.0, f)
    }
}

/// Parses the percent-encoded form.
impl FromStr for ResourcePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let bytes = percent::read(text).map_err(|wrong| PathError::Encoding { at: wrong.at })?;
        Self::from_bytes(bytes)
    }
}

fixed_schema! {
    ResourcePath: {
        "description": "A percent-encoded path relative to its resource.",
        "type": "string"
    }
}

impl Serialize for ResourcePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ResourcePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The kind of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileOperation {
    Create,
    Modify,
    Delete,
    Rename {
        from: ResourcePath,
    },
    /// Only the mode changed.
    Mode,
}

/// The content and mode of a file at one point in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileState {
    /// BLAKE3 of the content, in hexadecimal.
    pub hash: String,
    pub size: u64,
    /// A git file mode: `0o100644`, `0o100755`, or `0o120000` for a symbolic link.
    pub mode: u32,
}

/// One change of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeEntry {
    /// Position in the changeset: 1, 2, 3 …
    pub sequence: i64,
    pub path: ResourcePath,
    pub operation: FileOperation,
    pub before: Option<FileState>,
    pub after: Option<FileState>,
    pub tool_call_id: ToolCallId,
    pub actor: NamespacedName,
    /// The strategy step during which the change was made, counted from 1.
    pub step: Option<u32>,
}

/// Error of an entry whose fields contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error("the change of {path} must {rule}")]
    State {
        path: ResourcePath,
        rule: &'static str,
    },
    #[error("{path} cannot be renamed to itself")]
    RenamedToItself { path: ResourcePath },
}

impl ChangeEntry {
    /// Fails if the file states before and after do not fit the operation.
    pub fn validate(&self) -> Result<(), ChangeError> {
        let (before, after) = (self.before.as_ref(), self.after.as_ref());
        let contents_agree = before.map(|state| &state.hash) == after.map(|state| &state.hash);
        let (holds, rule) = match &self.operation {
            FileOperation::Create => (
                before.is_none() && after.is_some(),
                "have a state after it and none before it",
            ),
            FileOperation::Delete => (
                before.is_some() && after.is_none(),
                "have a state before it and none after it",
            ),
            FileOperation::Modify | FileOperation::Rename { .. } => (
                before.is_some() && after.is_some(),
                "have a state before and after it",
            ),
            FileOperation::Mode => (
                before.is_some() && after.is_some() && contents_agree,
                "keep the content",
            ),
        };
        if !holds {
            let path = self.path.clone();
            return Err(ChangeError::State { path, rule });
        }
        match &self.operation {
            FileOperation::Rename { from } if *from == self.path => {
                Err(ChangeError::RenamedToItself {
                    path: self.path.clone(),
                })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(bytes: &[u8]) -> ResourcePath {
        ResourcePath::from_bytes(bytes).unwrap()
    }

    #[test]
    fn ordinary_names_stay_readable_and_odd_bytes_are_encoded() {
        for (bytes, text) in [
            (&b"src/main.rs"[..], "src/main.rs"),
            ("Grüße/漢字 .txt".as_bytes(), "Grüße/漢字 .txt"),
            (b"100%", "100%25"),
            (b"a\nb\x00\x1b[31m\x7f", "a%0Ab%00%1B[31m%7F"),
            (b"\xff/\xe9t\xe9", "%FF/%E9t%E9"),
            ("a\u{85}b".as_bytes(), "a%C2%85b"),
        ] {
            assert_eq!(path(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(path(bytes)));
        }
    }

    #[test]
    fn escaping_paths_are_refused_in_either_spelling() {
        for (text, error) in [
            ("", PathError::Empty),
            ("/etc/passwd", PathError::Absolute),
            ("%2Fetc", PathError::Absolute),
            ("a/../b", PathError::Component("..")),
            ("%2e%2e/b", PathError::Component("..")),
            ("./a", PathError::Component(".")),
            ("a//b", PathError::EmptyComponent),
            ("a/", PathError::EmptyComponent),
            ("a%2", PathError::Encoding { at: 1 }),
            ("ab%+1", PathError::Encoding { at: 2 }),
            ("%é", PathError::Encoding { at: 0 }),
        ] {
            assert_eq!(text.parse::<ResourcePath>(), Err(error), "{text:?}");
        }
        assert_eq!(path(b"...").as_bytes(), b"...");
    }

    fn entry(operation: FileOperation) -> ChangeEntry {
        let state = |hash: &str| {
            Some(FileState {
                hash: hash.to_owned(),
                size: 3,
                mode: 0o100_644,
            })
        };
        ChangeEntry {
            sequence: 1,
            path: path(b"a"),
            operation,
            before: state("b1"),
            after: state("a1"),
            tool_call_id: "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
            actor: "builtin/direct".parse().unwrap(),
            step: None,
        }
    }

    #[test]
    fn an_operation_reads_back_under_its_name() {
        for (operation, json) in [
            (FileOperation::Create, r#""create""#),
            (FileOperation::Modify, r#""modify""#),
            (FileOperation::Delete, r#""delete""#),
            (FileOperation::Mode, r#""mode""#),
            (
                FileOperation::Rename { from: path(b"%") },
                r#"{"rename":{"from":"%25"}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&operation).unwrap(), json);
            let entry = entry(operation);
            let text = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::from_str::<ChangeEntry>(&text).unwrap(), entry);
        }
    }

    #[test]
    fn the_states_must_fit_the_operation() {
        let modify = entry(FileOperation::Modify);
        assert_eq!(modify.validate(), Ok(()));
        let created = ChangeEntry {
            before: None,
            ..entry(FileOperation::Create)
        };
        assert_eq!(created.validate(), Ok(()));
        let deleted = ChangeEntry {
            after: None,
            ..entry(FileOperation::Delete)
        };
        assert_eq!(deleted.validate(), Ok(()));
        let changed_mode = ChangeEntry {
            after: modify.before.clone(),
            ..entry(FileOperation::Mode)
        };
        assert_eq!(changed_mode.validate(), Ok(()));
        for operation in [
            FileOperation::Create,
            FileOperation::Delete,
            FileOperation::Mode,
        ] {
            let error = entry(operation).validate();
            assert!(matches!(error, Err(ChangeError::State { .. })));
        }
        assert!(matches!(
            entry(FileOperation::Rename { from: path(b"a") }).validate(),
            Err(ChangeError::RenamedToItself { .. })
        ));
        let from = path(b"b");
        assert_eq!(entry(FileOperation::Rename { from }).validate(), Ok(()));
    }

    proptest! {
        #[test]
        fn every_path_of_random_bytes_reads_back(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(path) = ResourcePath::from_bytes(bytes.clone()) {
                let text = path.to_string();
                prop_assert!(!text.chars().any(char::is_control));
                let read = text.parse::<ResourcePath>().unwrap();
                prop_assert_eq!(read.as_bytes(), &bytes);
                let json = serde_json::to_string(&path).unwrap();
                prop_assert_eq!(serde_json::from_str::<ResourcePath>(&json).unwrap(), path);
            }
        }

        #[test]
        fn no_accepted_path_leaves_its_resource(text in "[./%2eEfF]{0,12}") {
            if let Ok(path) = text.parse::<ResourcePath>() {
                prop_assert!(path.as_bytes()[0] != b'/');
                let outside = path.as_bytes().split(|byte| *byte == b'/').any(|part| part == b"..");
                prop_assert!(!outside);
            }
        }
    }
}
