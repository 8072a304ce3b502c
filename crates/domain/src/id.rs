//! Identifiers: ULIDs, one type per kind of entity so that they cannot be mixed up.
//!
//! The `Ids` port creates ids; this crate has no clock and no randomness. Users see the last eight
//! characters and may type any unique prefix or suffix, of those or of the whole id, of at least four
//! ([`IdFragment`]).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::schema::fixed_schema;
use crate::time::Timestamp;

/// Length of a ULID in its canonical text form.
pub const ID_LENGTH: usize = 26;
/// The number of characters of an id that users see.
pub const SHORT_LENGTH: usize = 8;
/// The minimum length of an id fragment.
pub const FRAGMENT_MINIMUM: usize = 4;

/// Error of a text that is no valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("an id is 26 characters of Crockford base 32, this one is {length} characters long")]
    Length { length: usize },
    #[error("`{text}` is not an id: use the letters and digits of Crockford base 32")]
    Characters { text: String },
    #[error("`{text}` is too short for an id: give at least {FRAGMENT_MINIMUM} characters")]
    FragmentTooShort { text: String },
}

fn parse_ulid(text: &str) -> Result<Ulid, IdError> {
    if text.len() != ID_LENGTH {
        return Err(IdError::Length {
            length: text.chars().count(),
        });
    }
    Ulid::from_string(text).map_err(|_| IdError::Characters {
        text: text.to_owned(),
    })
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Ulid);

        fixed_schema! {
            $name: { "type": "string", "pattern": "^[0-7][0-9A-HJKMNP-TV-Z]{25}$" }
        }

        impl $name {
            pub const fn new(ulid: Ulid) -> Self {
                Self(ulid)
            }

            /// The creation time in milliseconds, by the clock of the creating process.
            pub fn created_at(&self) -> Timestamp {
                let millis = i64::try_from(self.0.timestamp_ms()).unwrap_or(i64::MAX);
                Timestamp::from_micros(millis.saturating_mul(1000))
            }

            /// The last eight characters in lower case, as shown to users.
            pub fn short(&self) -> String {
                short(self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                parse_ulid(text).map(Self)
            }
        }

        /// A whole id names itself.
        impl From<$name> for IdFragment {
            fn from(id: $name) -> Self {
                Self(id.to_string())
            }
        }
    )+};
}

ids! {
    /// One use of an action.
    PlanId,
    /// A registered action.
    ActionId,
    /// A node of a plan's decision tree.
    DecisionId,
    /// An ordered record of changes.
    ChangesetId,
    /// One invocation of a tool.
    ToolCallId,
    /// One request to a model.
    ModelCallId,
    /// An entry of a plan's error history.
    ErrorId,
    /// A named set of resources.
    ProjectId,
    /// A git checkout or folder that plans work on.
    ResourceId,
    /// One attempt to change a decision.
    CorrectionId,
    /// A message to the owner of a plan.
    MessageId,
    /// A rule that plans must follow.
    InvariantId,
    /// A validation bound to a resource.
    AttachmentId,
    /// A restorable state of a plan's sandboxes.
    CheckpointId,
    /// A private copy of one resource for one plan.
    SandboxId,
    /// One attempt to apply or unapply a plan's changes.
    ApplyId,
    /// One process that may own runs and locks.
    OwnerId,
    /// A caller's id for one write. Repeating the write with the same id returns the first result.
    OperationId,
}

fn short(ulid: Ulid) -> String {
    let text = ulid.to_string().to_ascii_lowercase();
    text[ID_LENGTH - SHORT_LENGTH..].to_owned()
}

/// A prefix or suffix of an id or of its shown characters, as typed by a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IdFragment(String);

fixed_schema! {
    IdFragment: {
        "description": "An id, or at least four characters of either end of it or of its last eight.",
        "type": "string",
        "minLength": 4,
        "maxLength": 26
    }
}

impl IdFragment {
    /// The canonical, upper-case text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `id` or its shown characters begin or end with this fragment.
    pub fn matches(&self, id: &str) -> bool {
        let shown = id.get(ID_LENGTH - SHORT_LENGTH..).unwrap_or_default();
        id.starts_with(&self.0) || id.ends_with(&self.0) || shown.starts_with(&self.0)
    }
}

impl TryFrom<String> for IdFragment {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<IdFragment> for String {
    fn from(fragment: IdFragment) -> Self {
        fragment.0
    }
}

impl FromStr for IdFragment {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let length = text.chars().count();
        if length > ID_LENGTH {
            return Err(IdError::Length { length });
        }
        if length < FRAGMENT_MINIMUM {
            return Err(IdError::FragmentTooShort {
                text: text.to_owned(),
            });
        }
        let upper = text.to_ascii_uppercase();
        let legal = |c: char| c.is_ascii_alphanumeric() && !matches!(c, 'I' | 'L' | 'O' | 'U');
        if upper.chars().all(legal) {
            Ok(Self(upper))
        } else {
            Err(IdError::Characters {
                text: text.to_owned(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "01JZZZZZZZ0000000000ABCDEF";

    #[test]
    fn an_id_reads_back_and_shows_its_suffix() {
        let id: PlanId = TEXT.parse().unwrap();
        assert_eq!(id.to_string(), TEXT);
        assert_eq!(id.short(), "00abcdef");
    }

    #[test]
    fn malformed_ids_are_refused_with_a_reason() {
        assert_eq!("abc".parse::<PlanId>(), Err(IdError::Length { length: 3 }));
        assert!(matches!(
            "01JZZZZZZZ0000000000ABCDE!".parse::<PlanId>(),
            Err(IdError::Characters { .. })
        ));
        let long = "x".repeat(1 << 20);
        assert_eq!(
            long.parse::<PlanId>().unwrap_err().to_string(),
            "an id is 26 characters of Crockford base 32, this one is 1048576 characters long"
        );
    }

    #[test]
    fn a_fragment_matches_either_end_in_either_case() {
        let fragment: IdFragment = "abcdef".parse().unwrap();
        assert!(fragment.matches(TEXT));
        assert!("01jz".parse::<IdFragment>().unwrap().matches(TEXT));
        assert!(
            "00ab".parse::<IdFragment>().unwrap().matches(TEXT),
            "the shown prefix"
        );
        assert!(!"zzzz".parse::<IdFragment>().unwrap().matches(TEXT));
        assert_eq!(serde_json::to_string(&fragment).unwrap(), "\"ABCDEF\"");
        assert_eq!(
            serde_json::from_str::<IdFragment>("\"abcdef\"").unwrap(),
            fragment
        );
        assert!(serde_json::from_str::<IdFragment>("\"abc\"").is_err());
        assert!(matches!(
            "abc".parse::<IdFragment>(),
            Err(IdError::FragmentTooShort { .. })
        ));
        assert!(matches!(
            "é€漢字".parse::<IdFragment>(),
            Err(IdError::Characters { .. })
        ));
    }
}
