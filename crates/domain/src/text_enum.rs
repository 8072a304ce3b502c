//! Closed sets of words that are stored and printed.
//!
//! One list of words defines the enum, its text in both directions and its JSON, so a value has the
//! same name in domain, SQL, CLI and JSON.

/// A text that is not one of the enum's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} `{text}`: use {known}")]
pub struct UnknownValue {
    what: &'static str,
    text: String,
    known: String,
}

/// The maximum number of characters of an invalid text that an error message repeats.
const SHOWN_MAXIMUM: usize = 40;

impl UnknownValue {
    pub(crate) fn new(what: &'static str, text: &str, known: &[&str]) -> Self {
        Self {
            what,
            text: text.chars().take(SHOWN_MAXIMUM).collect(),
            known: known.join(", "),
        }
    }
}

/// `text_enum! { /// Docs. Name: "what it is called" { Variant = "word", … } }`
macro_rules! text_enum {
    ($(#[$meta:meta])* $name:ident: $what:literal {
        $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::text_enum::UnknownValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    other => Err($crate::text_enum::UnknownValue::new($what, other, &[$($text),+])),
                }
            }
        }

        $crate::schema::fixed_schema! { $name: { "type": "string", "enum": [$($text),+] } }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use text_enum;

#[cfg(test)]
mod tests {
    use crate::lifecycle::Phase;

    #[test]
    fn a_value_reads_back_as_text_and_json() {
        for phase in Phase::ALL {
            assert_eq!(phase.to_string().parse(), Ok(*phase));
            let json = serde_json::to_string(phase).unwrap();
            assert_eq!(json, format!("\"{phase}\""));
            assert_eq!(serde_json::from_str::<Phase>(&json).unwrap(), *phase);
        }
    }

    #[test]
    fn an_unknown_value_is_refused_with_known_ones() {
        assert_eq!(
            "action".parse::<Phase>().unwrap_err().to_string(),
            "invalid phase `action`: use strategize, execute, apply"
        );
        let long = "x".repeat(1 << 20);
        assert!(long.parse::<Phase>().unwrap_err().to_string().len() < 100);
        assert!(serde_json::from_str::<Phase>("\"action\"").is_err());
    }
}
