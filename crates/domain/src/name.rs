//! Namespaced names: `[[server:]namespace/]name`. A bare name belongs to `local/`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schema::fixed_schema;

/// The namespace of a name written without one.
pub const DEFAULT_NAMESPACE: &str = "local";
/// The maximum length of a server, namespace or name, in characters.
pub const PART_MAXIMUM: usize = 100;
/// The maximum length of a name that is made of words, in characters.
const WORDS_MAXIMUM: usize = 32;

/// A validated `[[server:]namespace/]name` with its namespace filled in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacedName {
    server: Option<String>,
    namespace: String,
    name: String,
}

/// Error of a text that is no valid namespaced name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("the {part} of a name must not be empty; names are written [[server:]namespace/]name")]
    Empty { part: &'static str },
    #[error("the {part} of a name may be {PART_MAXIMUM} characters long, this one has {length}")]
    TooLong { part: &'static str, length: usize },
    #[error(
        "`{character}` is not allowed in the {part} of a name: \
         use letters, digits, `-`, `_` and `.`, beginning with a letter or digit"
    )]
    Character { part: &'static str, character: char },
}

impl NamespacedName {
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The last part, without namespace and server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A name in the `builtin` namespace. The caller guarantees that it is legal.
    pub fn built_in(name: &'static str) -> Self {
        Self::in_namespace("builtin", name)
    }

    /// A name in `namespace`. The caller guarantees that both parts are legal.
    pub fn in_namespace(namespace: &'static str, name: &'static str) -> Self {
        Self {
            server: None,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Returns the legal name closest to `text`, in the default namespace. Illegal characters
    /// become `-`, characters that cannot begin a name are dropped, and long names are truncated.
    /// Returns `unnamed` if nothing is left.
    pub fn sanitize(text: &str) -> Self {
        Self {
            server: None,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            name: sanitize_part(text),
        }
    }

    /// Like [`Self::sanitize`], with a sanitized namespace.
    pub fn sanitize_in(namespace: &str, text: &str) -> Self {
        Self {
            server: None,
            namespace: sanitize_part(namespace),
            name: sanitize_part(text),
        }
    }

    /// Returns the `number`th variant of a name that is taken: the name itself, `name-2`, `name-3`
    /// …
    #[must_use]
    pub fn with_number(&self, number: u32) -> Self {
        match number {
            0 | 1 => self.clone(),
            number => Self {
                server: self.server.clone(),
                ..self.with_id(&number.to_string())
            },
        }
    }

    /// Returns a name of the first words of a text, in the default namespace, such as
    /// `local/add-version-flag`. Returns `None` if the text has no letters or digits that a name may
    /// have.
    pub fn from_words(text: &str) -> Option<Self> {
        let lower = text.to_lowercase();
        let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
        let mut name = String::new();
        for word in words.filter(|it| !it.is_empty()) {
            if name.is_empty() {
                name.extend(word.chars().take(WORDS_MAXIMUM));
            } else if name.len() + 1 + word.len() <= WORDS_MAXIMUM {
                name.push('-');
                name.push_str(word);
            } else {
                break;
            }
        }
        (!name.is_empty()).then(|| Self {
            server: None,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            name,
        })
    }

    /// Returns `namespace/name-suffix`. A long name is truncated so that the result stays legal.
    /// The suffix is the tail of an id, so names stay distinct.
    pub(crate) fn with_id(&self, suffix: &str) -> Self {
        let room = PART_MAXIMUM.saturating_sub(suffix.len() + 1);
        let kept: String = self.name.chars().take(room).collect();
        Self {
            server: None,
            namespace: self.namespace.clone(),
            name: format!("{kept}-{suffix}"),
        }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            write!(f, "{server}:")?;
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for NamespacedName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (path, name) = match text.split_once('/') {
            Some((path, name)) => (Some(path), name),
            None => (None, text),
        };
        let (server, namespace) = match path.map(|path| path.split_once(':').ok_or(path)) {
            None => (None, DEFAULT_NAMESPACE),
            Some(Ok((server, namespace))) => (Some(server), namespace),
            Some(Err(namespace)) => (None, namespace),
        };
        if let Some(server) = server {
            check_part("server", server)?;
        }
        check_part("namespace", namespace)?;
        check_part("last part", name)?;
        Ok(Self {
            server: server.map(str::to_owned),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

fn sanitize_part(text: &str) -> String {
    let legal = |c: char| if is_legal(c) { c } else { '-' };
    let part: String = text
        .chars()
        .map(legal)
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .take(PART_MAXIMUM)
        .collect();
    if part.is_empty() {
        "unnamed".to_owned()
    } else {
        part
    }
}

/// Returns whether a text is a legal server, namespace or name.
pub fn is_name_part(text: &str) -> bool {
    check_part("part", text).is_ok()
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn check_part(part: &'static str, text: &str) -> Result<(), NameError> {
    let first = text.chars().next().ok_or(NameError::Empty { part })?;
    let length = text.chars().count();
    if length > PART_MAXIMUM {
        return Err(NameError::TooLong { part, length });
    }
    let wrong = if first.is_ascii_alphanumeric() {
        text.chars().find(|c| !is_legal(*c))
    } else {
        Some(first)
    };
    match wrong {
        Some(character) => Err(NameError::Character { part, character }),
        None => Ok(()),
    }
}

fixed_schema! {
    NamespacedName: {
        "description": "A name, written `[[server:]namespace/]name`.",
        "type": "string"
    }
}

impl Serialize for NamespacedName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NamespacedName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NamespacedName, NameError> {
        text.parse()
    }

    #[test]
    fn a_bare_name_is_local() {
        let name = parse("code-coverage").unwrap();
        assert_eq!(name.to_string(), "local/code-coverage");
        assert_eq!(name.server(), None);
    }

    #[test]
    fn server_and_namespace_are_kept() {
        let name = parse("prod:team/lint").unwrap();
        assert_eq!(
            (name.server(), name.namespace(), name.name()),
            (Some("prod"), "team", "lint")
        );
        assert_eq!(name.to_string(), "prod:team/lint");
    }

    #[test]
    fn a_name_with_an_id_is_always_a_legal_name() {
        let short = parse("prod:team/lint").unwrap().with_id("00abcdef");
        assert_eq!(short.to_string(), "team/lint-00abcdef");
        let long = parse(&"n".repeat(PART_MAXIMUM))
            .unwrap()
            .with_id("00abcdef");
        assert_eq!(parse(&long.to_string()), Ok(long.clone()));
        assert!(long.name().ends_with("n-00abcdef"));
    }

    #[test]
    fn a_name_of_words_has_the_first_whole_words_of_a_text() {
        for (text, name) in [
            ("Add a --version flag", Some("local/add-a-version-flag")),
            ("  «fix» src/cart.rs! ", Some("local/fix-src-cart-rs")),
            (
                "Rename every internal function of the parser",
                Some("local/rename-every-internal-function"),
            ),
            ("Größe", Some("local/gr-e")),
            ("漢字 …", None),
            ("", None),
        ] {
            let found = NamespacedName::from_words(text);
            assert_eq!(found.as_ref().map(ToString::to_string).as_deref(), name);
            assert!(found.is_none_or(|it| parse(&it.to_string()) == Ok(it)));
        }
        let long = NamespacedName::from_words(&"x".repeat(500)).unwrap();
        assert_eq!(long.name().len(), WORDS_MAXIMUM);
    }

    #[test]
    fn a_sanitized_name_is_legal_and_can_be_numbered() {
        for (text, nearest) in [
            ("shop", "local/shop"),
            ("my shop (2)", "local/my-shop--2-"),
            (".config", "local/config"),
            ("--x", "local/x"),
            ("\u{fffd}t\u{e9}", "local/t-"),
            ("a/b\n", "local/a-b-"),
            ("\u{4e2d}\u{6587}", "local/unnamed"),
            ("", "local/unnamed"),
        ] {
            let name = NamespacedName::sanitize(text);
            assert_eq!(name.to_string(), nearest);
            assert_eq!(parse(nearest), Ok(name));
        }
        let long = NamespacedName::sanitize(&"n".repeat(500));
        assert_eq!(long.with_number(1), long);
        let numbered = long.with_number(12);
        assert!(numbered.name().ends_with("n-12"));
        assert_eq!(parse(&numbered.to_string()), Ok(numbered));
        let served = parse("prod:team/x").unwrap().with_number(3);
        assert_eq!(served.to_string(), "prod:team/x-3");
    }

    #[test]
    fn every_malformed_name_is_refused_with_its_part() {
        for (text, part) in [
            ("", "last part"),
            ("/x", "namespace"),
            ("a/", "last part"),
            (":a/x", "server"),
            ("a/b/c", "last part"),
            ("-x", "last part"),
            ("a b/x", "namespace"),
            ("../x", "namespace"),
            ("x\0", "last part"),
            ("s:x", "last part"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
        let long = "n".repeat(1 << 20);
        assert_eq!(
            parse(&long),
            Err(NameError::TooLong {
                part: "last part",
                length: 1 << 20
            })
        );
    }
}
