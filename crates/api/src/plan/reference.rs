//! Plans and decisions as users name them.

use std::borrow::Cow;
use std::str::FromStr;

use cleveragents_domain::NamespacedName;
use cleveragents_domain::id::{DecisionId, IdError, IdFragment, PlanId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A plan as the user names it: its id, at least four characters from either end of the id or of its
/// last eight characters, or its full name, which ends in those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanReference(pub IdFragment);

/// A decision as the user names it: its id, or at least four characters from either end of it or of
/// its last eight characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionReference(pub IdFragment);

impl FromStr for PlanReference {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // No id contains `-`, so this is a name, with or without its namespace.
        let fragment = match text.rsplit_once('-') {
            Some((_, tail)) if text.parse::<NamespacedName>().is_ok() => tail,
            _ => text,
        };
        fragment.parse().map(Self)
    }
}

impl FromStr for DecisionReference {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.parse().map(Self)
    }
}

impl From<PlanId> for PlanReference {
    fn from(id: PlanId) -> Self {
        Self(id.into())
    }
}

impl From<DecisionId> for DecisionReference {
    fn from(id: DecisionId) -> Self {
        Self(id.into())
    }
}

/// Writes a reference as text in JSON.
macro_rules! reference_as_text {
    ($name:ident, $description:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.0.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "description": $description})
            }
        }
    };
}

reference_as_text!(
    PlanReference,
    "The name or the id of a plan, or at least four characters from either end of the id or of its last eight."
);
reference_as_text!(
    DecisionReference,
    "The id of a decision, or at least four characters from either end of it or of its last eight."
);

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(text: &str) -> String {
        text.parse::<PlanReference>().unwrap().0.as_str().to_owned()
    }

    #[test]
    fn a_plan_is_named_by_its_id_a_part_of_it_or_its_name() {
        assert_eq!(fragment("00abcdef"), "00ABCDEF");
        assert_eq!(fragment("01JZZZZZZZ0000000000ABCDEF").len(), 26);
        assert_eq!(fragment("local/fix-all-00abcdef"), "00ABCDEF");
        assert_eq!(fragment("fix-all-00abcdef"), "00ABCDEF");
        assert!("abc".parse::<PlanReference>().is_err());
    }

    #[test]
    fn a_reference_reads_back_from_json() {
        let id: PlanId = "01JZZZZZZZ0000000000ABCDEF".parse().unwrap();
        let reference = PlanReference::from(id);
        let json = serde_json::to_string(&reference).unwrap();
        assert_eq!(json, "\"01JZZZZZZZ0000000000ABCDEF\"");
        assert_eq!(
            serde_json::from_str::<PlanReference>(&json).unwrap(),
            reference
        );
        let named = serde_json::from_str::<PlanReference>("\"local/fix-00abcdef\"");
        assert_eq!(named.unwrap().0.as_str(), "00ABCDEF");
    }
}
