//! Projects and their resources: the targets of plans.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::automation::ProfileName;
use crate::id::{ProjectId, ResourceId};
use crate::name::NamespacedName;
use crate::percent;
use crate::schema::fixed_schema;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

/// A named set of resources. The store keeps the links to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Project {
    pub id: ProjectId,
    pub name: NamespacedName,
    pub description: Option<String>,
    /// The default for plans whose action and caller name no profile.
    pub automation_profile: Option<ProfileName>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Assigned by the store and checked on every update.
    pub version: i64,
}

/// A path on this machine that plans may work on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resource {
    pub id: ResourceId,
    pub name: NamespacedName,
    pub resource_type: ResourceType,
    pub path: AbsolutePath,
    pub created_at: Timestamp,
    /// Assigned by the store and checked on every update.
    pub version: i64,
}

text_enum! {
    /// The type of a resource. It determines how the resource is sandboxed and how changes are
    /// applied.
    ResourceType: "resource type" {
        GitCheckout = "git-checkout",
        FsDirectory = "fs-directory",
    }
}

/// A normalised absolute path: no `.` or `..`, no empty component, no NUL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AbsolutePath(Vec<u8>);

/// Error of bytes that are no valid resource path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AbsolutePathError {
    #[error("the path of a resource must begin with `/`")]
    Relative,
    #[error("the path of a resource must not contain the component `{0}`")]
    Component(&'static str),
    #[error("the path of a resource must not contain `//` or end in `/`")]
    EmptyComponent,
    #[error("a path must not contain a NUL")]
    Nul,
    #[error("`%` in a path must be followed by two hexadecimal digits, at byte {at}")]
    Encoding { at: usize },
}

const ROOT: &[u8] = b"/";

impl AbsolutePath {
    /// Fails unless the bytes are a normalised absolute path. The bytes are kept unchanged.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, AbsolutePathError> {
        let bytes = bytes.into();
        if bytes.contains(&0) {
            return Err(AbsolutePathError::Nul);
        }
        let Some((b'/', components)) = bytes.split_first() else {
            return Err(AbsolutePathError::Relative);
        };
        if bytes == ROOT {
            return Ok(Self(bytes));
        }
        for component in components.split(|byte| *byte == b'/') {
            match component {
                b"" => return Err(AbsolutePathError::EmptyComponent),
                b"." => return Err(AbsolutePathError::Component(".")),
                b".." => return Err(AbsolutePathError::Component("..")),
                _ => {}
            }
        }
        Ok(Self(bytes))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The last component; empty for the root.
    pub fn last_component(&self) -> &[u8] {
        self.0
            .rsplit(|byte| *byte == b'/')
            .next()
            .unwrap_or_default()
    }

    /// Returns the folder that contains this path; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let end = self.0.iter().rposition(|byte| *byte == b'/')?;
        match (end, self.0.len()) {
            (0, 1) => None,
            (0, _) => Some(Self(ROOT.to_vec())),
            (end, _) => Some(Self(self.0[..end].to_vec())),
        }
    }

    /// Returns whether this path equals `other` or is inside it.
    pub fn is_within(&self, other: &Self) -> bool {
        match self.0.strip_prefix(other.0.as_slice()) {
            Some(rest) => rest.is_empty() || rest[0] == b'/' || other.0 == ROOT,
            None => false,
        }
    }
}

/// Percent-encodes where needed.
impl fmt::Display for AbsolutePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        percent::write(&self.0, f)
    }
}

/// Parses the percent-encoded form.
impl FromStr for AbsolutePath {
    type Err = AbsolutePathError;

    fn from_str(text: &str) -> Result<Self, AbsolutePathError> {
        let bytes =
            percent::read(text).map_err(|wrong| AbsolutePathError::Encoding { at: wrong.at })?;
        Self::from_bytes(bytes)
    }
}

fixed_schema! {
    AbsolutePath: {
        "description": "A percent-encoded absolute path.",
        "type": "string"
    }
}

impl Serialize for AbsolutePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AbsolutePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01JZZZZZZZ0000000000ABCDEF";

    fn path(bytes: &[u8]) -> AbsolutePath {
        AbsolutePath::from_bytes(bytes).unwrap()
    }

    #[test]
    fn a_path_reads_back_with_any_bytes() {
        for (bytes, text) in [
            (&b"/"[..], "/"),
            (b"/srv/shop", "/srv/shop"),
            (b"/srv/\xff\n%", "/srv/%FF%0A%25"),
            ("/Grüße/…/a b".as_bytes(), "/Grüße/…/a b"),
        ] {
            assert_eq!(path(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(path(bytes)));
        }
    }

    #[test]
    fn a_path_has_one_spelling() {
        for (text, error) in [
            ("", AbsolutePathError::Relative),
            ("srv", AbsolutePathError::Relative),
            ("//", AbsolutePathError::EmptyComponent),
            ("/srv/", AbsolutePathError::EmptyComponent),
            ("/srv//shop", AbsolutePathError::EmptyComponent),
            ("/srv/./shop", AbsolutePathError::Component(".")),
            ("/srv/%2e%2E", AbsolutePathError::Component("..")),
            ("/srv%00", AbsolutePathError::Nul),
            ("/srv%0", AbsolutePathError::Encoding { at: 4 }),
        ] {
            assert_eq!(text.parse::<AbsolutePath>(), Err(error), "{text:?}");
        }
    }

    #[test]
    fn within_counts_whole_components() {
        assert!(path(b"/srv/shop").is_within(&path(b"/srv")));
        assert!(path(b"/srv").is_within(&path(b"/srv")));
        assert!(path(b"/srv").is_within(&path(b"/")));
        assert!(!path(b"/srv2").is_within(&path(b"/srv")));
        assert!(!path(b"/srv").is_within(&path(b"/srv/shop")));
    }

    #[test]
    fn projects_and_resources_read_back() {
        let project = Project {
            id: ID.parse().unwrap(),
            name: "team/shop".parse().unwrap(),
            description: None,
            automation_profile: Some("cautious".parse().unwrap()),
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            version: 1,
        };
        let json = serde_json::to_string(&project).unwrap();
        assert_eq!(serde_json::from_str::<Project>(&json).unwrap(), project);
        let resource = Resource {
            id: ID.parse().unwrap(),
            name: "local/shop".parse().unwrap(),
            resource_type: ResourceType::GitCheckout,
            path: path(b"/srv/\xe9"),
            created_at: Timestamp::default(),
            version: 1,
        };
        let json = serde_json::to_value(&resource).unwrap();
        assert_eq!(json["resource_type"], "git-checkout");
        assert_eq!(json["path"], "/srv/%E9");
        assert_eq!(serde_json::from_value::<Resource>(json).unwrap(), resource);
    }
}
