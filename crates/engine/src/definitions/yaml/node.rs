//! The tree of a document.

use super::super::error::Position;

/// A value of a document and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Node {
    pub(in super::super) position: Position,
    pub(in super::super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum Kind {
    Scalar(Scalar),
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Entry {
    pub(in super::super) key: String,
    pub(in super::super) position: Position,
    pub(in super::super) value: Node,
}

/// A scalar's text; what it means depends on how it was written.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Scalar {
    pub(in super::super) text: String,
    pub(in super::super) style: Style,
    pub(in super::super) origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Style {
    /// May be a number, a boolean or null.
    Plain,
    /// In quotes or a block: a text whatever it looks like.
    Quoted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Origin {
    Written,
    /// A variable's value is in it: it is what the reader wants it to be, and is not shown.
    Substituted,
}

/// What a scalar stands for by the core schema of YAML 1.2.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum Resolved {
    Null,
    Boolean(bool),
    Integer(i128),
    Float(f64),
    Text,
}

impl Scalar {
    pub(in super::super) fn resolve(&self) -> Resolved {
        match self.style {
            Style::Quoted => Resolved::Text,
            Style::Plain => resolve(trim(&self.text)),
        }
    }

    /// What it stands for where a number or a boolean is wanted. A variable's value may then be in
    /// quotes, as YAML wants it inside `{…}` and `[…]`.
    pub(in super::super) fn resolve_typed(&self) -> Resolved {
        match self.origin {
            Origin::Written => self.resolve(),
            Origin::Substituted => resolve(trim(&self.text)),
        }
    }

    /// The text, if the scalar is one: quoted, not looking like anything else, or substituted.
    pub(in super::super) fn as_text(&self) -> Option<&str> {
        match (self.origin, self.resolve()) {
            (Origin::Substituted, _) | (Origin::Written, Resolved::Text) => Some(&self.text),
            _ => None,
        }
    }

    /// Whether a variable's value is in it.
    pub(in super::super) fn is_substituted(&self) -> bool {
        self.origin == Origin::Substituted
    }

    /// Whether the scalar means that nothing is there. A variable's value never does by its
    /// wording, only by being empty.
    fn is_nothing(&self) -> bool {
        match self.origin {
            Origin::Written => self.resolve() == Resolved::Null,
            Origin::Substituted => self.style == Style::Plain && self.text.is_empty(),
        }
    }
}

/// Only what YAML takes for white space; a no-break space makes a text of a number.
fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}

fn resolve(text: &str) -> Resolved {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Resolved::Null,
        "true" | "True" | "TRUE" => Resolved::Boolean(true),
        "false" | "False" | "FALSE" => Resolved::Boolean(false),
        ".nan" | ".NaN" | ".NAN" => Resolved::Float(f64::NAN),
        _ => resolve_number(text).unwrap_or(Resolved::Text),
    }
}

fn resolve_number(text: &str) -> Option<Resolved> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Some(Resolved::Float(f64::INFINITY));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || !unsigned.contains(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    if let Ok(integer) = text.parse() {
        return Some(Resolved::Integer(integer));
    }
    text.parse().ok().map(Resolved::Float)
}

fn radix(digits: &str, base: u32) -> Option<Resolved> {
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let integer = i128::from_str_radix(digits, base).ok()?;
    Some(Resolved::Integer(integer))
}

impl Node {
    pub(in super::super) fn is_nothing(&self) -> bool {
        matches!(&self.kind, Kind::Scalar(scalar) if scalar.is_nothing())
    }

    /// What the node is, in words; a variable's value is not repeated, it may be a secret.
    pub(in super::super) fn describe(&self) -> String {
        let scalar = match &self.kind {
            Kind::Sequence(_) => return "a list".to_owned(),
            Kind::Mapping(_) => return "a mapping".to_owned(),
            Kind::Scalar(scalar) => scalar,
        };
        let kind = match scalar.resolve() {
            Resolved::Null => return "nothing".to_owned(),
            Resolved::Boolean(_) => "the boolean",
            Resolved::Integer(_) | Resolved::Float(_) => "the number",
            Resolved::Text => "the text",
        };
        match scalar.origin {
            Origin::Substituted => format!("{kind} of a variable"),
            Origin::Written => format!("{kind} {}", shown(&scalar.text)),
        }
    }

    /// Where `path`, such as `arguments[2].type`, stands; of one that is not there, where the
    /// last part that is there stands.
    pub(in super::super) fn locate(&self, path: &str) -> Position {
        let mut node = self;
        for step in steps(path) {
            let Some(child) = node.child(step) else { break };
            node = child;
        }
        node.position
    }

    /// The scalar at `path`, if there is one.
    pub(in super::super) fn scalar_at(&self, path: &str) -> Option<&Scalar> {
        match &steps(path).try_fold(self, Self::child)?.kind {
            Kind::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    fn child(&self, step: &str) -> Option<&Self> {
        match (&self.kind, step.strip_suffix(']')) {
            (Kind::Sequence(items), Some(index)) => items.get(index.parse::<usize>().ok()?),
            (Kind::Mapping(entries), None) => entries
                .iter()
                .find(|entry| entry.key == step)
                .map(|entry| &entry.value),
            _ => None,
        }
    }
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[']).filter(|step| !step.is_empty())
}

/// How much of a text is repeated to whoever wrote it.
const SHOWN_MAXIMUM: usize = 40;

/// The beginning of `text`, on one line and in quotes.
fn shown(text: &str) -> String {
    let mut beginning: String = text.chars().take(SHOWN_MAXIMUM).collect();
    if beginning.len() < text.len() {
        beginning.push('…');
    }
    format!("{beginning:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(text: &str, style: Style, origin: Origin) -> Scalar {
        Scalar {
            text: text.to_owned(),
            style,
            origin,
        }
    }

    #[test]
    fn plain_scalars_are_what_the_core_schema_says() {
        for (text, expected) in [
            ("", Resolved::Null),
            ("~", Resolved::Null),
            ("True", Resolved::Boolean(true)),
            ("yes", Resolved::Text),
            ("-7", Resolved::Integer(-7)),
            ("+7", Resolved::Integer(7)),
            ("0x1F", Resolved::Integer(31)),
            ("0o17", Resolved::Integer(15)),
            ("0x-1", Resolved::Text),
            ("1.10", Resolved::Float(1.1)),
            (".5", Resolved::Float(0.5)),
            ("1e3", Resolved::Float(1000.0)),
            ("-.inf", Resolved::Float(f64::INFINITY)),
            ("inf", Resolved::Text),
            ("nan", Resolved::Text),
            (".", Resolved::Text),
            ("-", Resolved::Text),
            ("1_000", Resolved::Text),
            ("2026-01-31", Resolved::Text),
            ("\u{a0}0", Resolved::Text),
        ] {
            let plain = scalar(text, Style::Plain, Origin::Written);
            assert_eq!(plain.resolve(), expected, "{text:?}");
            let quoted = scalar(text, Style::Quoted, Origin::Written);
            assert_eq!(quoted.resolve(), Resolved::Text, "{text:?}");
        }
    }

    #[test]
    fn a_variables_value_is_a_text_too_and_is_not_shown() {
        let number = scalar("5", Style::Plain, Origin::Substituted);
        assert_eq!(number.as_text(), Some("5"));
        assert_eq!(number.resolve(), Resolved::Integer(5));
        let node = |scalar| Node {
            position: Position::START,
            kind: Kind::Scalar(scalar),
        };
        let secret = node(scalar("sk-secret", Style::Quoted, Origin::Substituted));
        assert_eq!(secret.describe(), "the text of a variable");
        let nothing = |text, style| node(scalar(text, style, Origin::Substituted)).is_nothing();
        assert!(nothing("", Style::Plain));
        assert!(!nothing("", Style::Quoted) && !nothing("null", Style::Plain));
    }

    #[test]
    fn a_long_text_is_described_by_its_beginning() {
        let node = Node {
            position: Position::START,
            kind: Kind::Scalar(scalar(&"é".repeat(1 << 20), Style::Plain, Origin::Written)),
        };
        assert!(node.describe().len() < 120);
    }
}
