//! The tree of a document.

use super::super::error::SourcePosition;

/// A value of a document and its start position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlNode {
    pub(crate) position: SourcePosition,
    pub(crate) kind: YamlKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum YamlKind {
    Scalar(YamlScalar),
    Sequence(Vec<YamlNode>),
    Mapping(Vec<YamlEntry>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlEntry {
    pub(crate) key: String,
    pub(crate) position: SourcePosition,
    pub(crate) value: YamlNode,
}

/// A scalar's text; its meaning depends on how it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlScalar {
    pub(crate) text: String,
    pub(crate) style: YamlStyle,
    pub(crate) origin: ScalarOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum YamlStyle {
    /// May be a number, a boolean or null.
    Plain,
    /// In quotes or a block: always a string.
    Quoted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarOrigin {
    Written,
    /// It contains a variable's value: it takes the type the reader wants, and is not shown in
    /// messages.
    Substituted,
}

/// The value of a scalar in the core schema of YAML 1.2.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ResolvedScalar {
    Null,
    Boolean(bool),
    Integer(i128),
    Float(f64),
    Text,
}

impl YamlScalar {
    pub(crate) fn resolve(&self) -> ResolvedScalar {
        match self.style {
            YamlStyle::Quoted => ResolvedScalar::Text,
            YamlStyle::Plain => resolve(trim(&self.text)),
        }
    }

    /// Returns the value where a number or a boolean is wanted. A variable's value may be quoted
    /// then, because YAML requires quotes inside `{…}` and `[…]`.
    pub(crate) fn resolve_typed(&self) -> ResolvedScalar {
        match self.origin {
            ScalarOrigin::Written => self.resolve(),
            ScalarOrigin::Substituted => resolve(trim(&self.text)),
        }
    }

    /// Returns the text, if the scalar is a string: quoted, not resolving to another type, or
    /// substituted.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match (self.origin, self.resolve()) {
            (ScalarOrigin::Substituted, _) | (ScalarOrigin::Written, ResolvedScalar::Text) => {
                Some(&self.text)
            }
            _ => None,
        }
    }

    /// Whether it contains a variable's value.
    pub(crate) fn is_substituted(&self) -> bool {
        self.origin == ScalarOrigin::Substituted
    }

    /// Whether the scalar is null. A substituted scalar is null only if it is unquoted and empty; a
    /// value such as `null` does not count.
    fn is_null(&self) -> bool {
        match self.origin {
            ScalarOrigin::Written => self.resolve() == ResolvedScalar::Null,
            ScalarOrigin::Substituted => self.style == YamlStyle::Plain && self.text.is_empty(),
        }
    }
}

/// Trims only YAML white space; a no-break space turns a number into a string.
fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}

fn resolve(text: &str) -> ResolvedScalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => ResolvedScalar::Null,
        "true" | "True" | "TRUE" => ResolvedScalar::Boolean(true),
        "false" | "False" | "FALSE" => ResolvedScalar::Boolean(false),
        ".nan" | ".NaN" | ".NAN" => ResolvedScalar::Float(f64::NAN),
        _ => resolve_number(text).unwrap_or(ResolvedScalar::Text),
    }
}

fn resolve_number(text: &str) -> Option<ResolvedScalar> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Some(ResolvedScalar::Float(f64::INFINITY));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return parse_radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return parse_radix(digits, 8);
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || !unsigned.contains(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    if let Ok(integer) = text.parse() {
        return Some(ResolvedScalar::Integer(integer));
    }
    text.parse().ok().map(ResolvedScalar::Float)
}

fn parse_radix(digits: &str, base: u32) -> Option<ResolvedScalar> {
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let integer = i128::from_str_radix(digits, base).ok()?;
    Some(ResolvedScalar::Integer(integer))
}

impl YamlNode {
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.kind, YamlKind::Scalar(scalar) if scalar.is_null())
    }

    /// Describes the node in words. Does not quote a variable's value, which may be a secret.
    pub(crate) fn describe(&self) -> String {
        let scalar = match &self.kind {
            YamlKind::Sequence(_) => return "a list".to_owned(),
            YamlKind::Mapping(_) => return "a mapping".to_owned(),
            YamlKind::Scalar(scalar) => scalar,
        };
        let kind = match scalar.resolve() {
            ResolvedScalar::Null => return "nothing".to_owned(),
            ResolvedScalar::Boolean(_) => "the boolean",
            ResolvedScalar::Integer(_) | ResolvedScalar::Float(_) => "the number",
            ResolvedScalar::Text => "the text",
        };
        match scalar.origin {
            ScalarOrigin::Substituted => format!("{kind} of a variable"),
            ScalarOrigin::Written => format!("{kind} {}", abbreviate(&scalar.text)),
        }
    }

    /// Returns the position of `path`, such as `arguments[2].type`, or of its last part that
    /// exists.
    pub(crate) fn locate(&self, path: &str) -> SourcePosition {
        let mut node = self;
        for step in path_steps(path) {
            let Some(child) = node.child(step) else { break };
            node = child;
        }
        node.position
    }

    /// Returns the scalar at `path`, if there is one.
    pub(crate) fn scalar_at(&self, path: &str) -> Option<&YamlScalar> {
        match &path_steps(path).try_fold(self, Self::child)?.kind {
            YamlKind::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    fn child(&self, step: &str) -> Option<&Self> {
        match (&self.kind, step.strip_suffix(']')) {
            (YamlKind::Sequence(items), Some(index)) => items.get(index.parse::<usize>().ok()?),
            (YamlKind::Mapping(entries), None) => entries
                .iter()
                .find(|entry| entry.key == step)
                .map(|entry| &entry.value),
            _ => None,
        }
    }
}

fn path_steps(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[']).filter(|step| !step.is_empty())
}

/// Maximum length of text quoted in a message.
const SHOWN_MAXIMUM: usize = 40;

/// Returns the beginning of `text`, on one line and in quotes.
fn abbreviate(text: &str) -> String {
    let mut beginning: String = text.chars().take(SHOWN_MAXIMUM).collect();
    if beginning.len() < text.len() {
        beginning.push('…');
    }
    format!("{beginning:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(text: &str, style: YamlStyle, origin: ScalarOrigin) -> YamlScalar {
        YamlScalar {
            text: text.to_owned(),
            style,
            origin,
        }
    }

    #[test]
    fn plain_scalars_are_what_the_core_schema_says() {
        for (text, expected) in [
            ("", ResolvedScalar::Null),
            ("~", ResolvedScalar::Null),
            ("True", ResolvedScalar::Boolean(true)),
            ("yes", ResolvedScalar::Text),
            ("-7", ResolvedScalar::Integer(-7)),
            ("+7", ResolvedScalar::Integer(7)),
            ("0x1F", ResolvedScalar::Integer(31)),
            ("0o17", ResolvedScalar::Integer(15)),
            ("0x-1", ResolvedScalar::Text),
            ("1.10", ResolvedScalar::Float(1.1)),
            (".5", ResolvedScalar::Float(0.5)),
            ("1e3", ResolvedScalar::Float(1000.0)),
            ("-.inf", ResolvedScalar::Float(f64::INFINITY)),
            ("inf", ResolvedScalar::Text),
            ("nan", ResolvedScalar::Text),
            (".", ResolvedScalar::Text),
            ("-", ResolvedScalar::Text),
            ("1_000", ResolvedScalar::Text),
            ("2026-01-31", ResolvedScalar::Text),
            ("\u{a0}0", ResolvedScalar::Text),
        ] {
            let plain = scalar(text, YamlStyle::Plain, ScalarOrigin::Written);
            assert_eq!(plain.resolve(), expected, "{text:?}");
            let quoted = scalar(text, YamlStyle::Quoted, ScalarOrigin::Written);
            assert_eq!(quoted.resolve(), ResolvedScalar::Text, "{text:?}");
        }
    }

    #[test]
    fn a_substituted_value_is_text_and_hidden() {
        let number = scalar("5", YamlStyle::Plain, ScalarOrigin::Substituted);
        assert_eq!(number.as_text(), Some("5"));
        assert_eq!(number.resolve(), ResolvedScalar::Integer(5));
        let node = |scalar| YamlNode {
            position: SourcePosition::START,
            kind: YamlKind::Scalar(scalar),
        };
        let secret = node(scalar(
            "sk-secret",
            YamlStyle::Quoted,
            ScalarOrigin::Substituted,
        ));
        assert_eq!(secret.describe(), "the text of a variable");
        let nothing = |text, style| node(scalar(text, style, ScalarOrigin::Substituted)).is_null();
        assert!(nothing("", YamlStyle::Plain));
        assert!(!nothing("", YamlStyle::Quoted) && !nothing("null", YamlStyle::Plain));
    }

    #[test]
    fn a_long_text_is_described_by_its_beginning() {
        let node = YamlNode {
            position: SourcePosition::START,
            kind: YamlKind::Scalar(scalar(
                &"é".repeat(1 << 20),
                YamlStyle::Plain,
                ScalarOrigin::Written,
            )),
        };
        assert!(node.describe().len() < 120);
    }
}
