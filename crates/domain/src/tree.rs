//! The id of a captured tree.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schema::fixed_schema;

/// Identifies a captured tree: the git tree of its files and, if there are any, the list of its
/// empty directories, which git cannot store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreeId {
    files: String,
    empty_directories: Option<String>,
}

/// A text that is not a tree id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the id of a git object")]
pub struct TreeIdError {
    text: String,
}

impl TreeId {
    /// Builds the id from the object ids of a git tree and of a list of empty directories.
    pub fn new(files: &str, empty_directories: Option<&str>) -> Result<Self, TreeIdError> {
        for id in [Some(files), empty_directories].into_iter().flatten() {
            let digits = id.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !digits || ![40, 64].contains(&id.len()) {
                return Err(TreeIdError {
                    text: id.to_owned(),
                });
            }
        }
        Ok(Self {
            files: files.to_ascii_lowercase(),
            empty_directories: empty_directories.map(str::to_ascii_lowercase),
        })
    }

    /// The git tree of the files.
    pub fn files(&self) -> &str {
        &self.files
    }

    /// The blob that lists the empty directories.
    pub fn empty_directories(&self) -> Option<&str> {
        self.empty_directories.as_deref()
    }
}

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.files)?;
        match &self.empty_directories {
            Some(list) => write!(f, "+{list}"),
            None => Ok(()),
        }
    }
}

impl FromStr for TreeId {
    type Err = TreeIdError;

    fn from_str(text: &str) -> Result<Self, TreeIdError> {
        match text.split_once('+') {
            Some((files, list)) => Self::new(files, Some(list)),
            None => Self::new(text, None),
        }
    }
}

fixed_schema! {
    TreeId: {
        "description": "A captured tree: a git tree and, after a `+`, a list of its empty directories.",
        "type": "string"
    }
}

impl Serialize for TreeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TreeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_reads_back_with_and_without_empty_directories() {
        let (files, list) = ("a1".repeat(20), "b2".repeat(32));
        for text in [files.clone(), format!("{files}+{list}")] {
            let tree: TreeId = text.parse().unwrap();
            assert_eq!(tree.to_string(), text);
            let json = serde_json::to_string(&tree).unwrap();
            assert_eq!(serde_json::from_str::<TreeId>(&json).unwrap(), tree);
        }
        assert_eq!(files.parse::<TreeId>().unwrap().empty_directories(), None);
    }

    #[test]
    fn an_invalid_object_id_is_refused() {
        let id = "a1".repeat(20);
        for text in [
            "",
            "HEAD",
            "--all",
            &id[1..],
            &format!("{id}+"),
            &format!("{id}+x"),
        ] {
            assert!(text.parse::<TreeId>().is_err(), "{text}");
        }
    }
}
