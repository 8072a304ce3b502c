//! From the parser's events to a tree, within bounds.
//!
//! The bounds make an alias bomb, a deep nest and a flood of values each an error of its own,
//! long before they cost memory or stack.

use std::collections::{HashMap, HashSet};

use serde_saphyr::granit_parser::{
    self, ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag,
};

use super::super::error::{Position, Problem, Problems};
use super::node::{Entry, Kind, Node, Origin, Scalar, Style};
use super::source::{end_of, forbidden, is_forbidden};
use super::substitute::{Fate, Refusal, Substituted, Variables, substitute};

/// How deep lists and mappings may be nested.
const DEPTH_MAXIMUM: usize = 32;
/// How many values a document may have, those repeated by aliases counted each time.
const NODES_MAXIMUM: usize = 100_000;
/// How many bytes all scalars may have, aliases repeated and variables filled in.
const TEXT_MAXIMUM: usize = 4 << 20;

/// The tree of the one document in `text`.
pub(super) fn parse(text: &str, variables: Variables<'_>, fate: Fate) -> Result<Node, Problems> {
    let mut options = granit_parser::Options::default();
    options.set_emit_comments(false);
    let mut builder = Builder {
        events: Parser::new_from_str_with_options(text, options),
        text,
        variables,
        fate,
        anchors: HashMap::new(),
        used: Size::default(),
        not_filled_in: Problems::default(),
    };
    let root = builder.document()?;
    if !builder.not_filled_in.is_empty() {
        return Err(builder.not_filled_in);
    }
    if root.is_nothing() {
        return Err(empty().into());
    }
    Ok(root)
}

/// What a part of the tree takes.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    nodes: usize,
    bytes: usize,
}

/// An anchored node and what repeating it costs.
struct Anchored {
    node: Node,
    size: Size,
}

struct Builder<'a, E> {
    events: E,
    text: &'a str,
    variables: Variables<'a>,
    fate: Fate,
    anchors: HashMap<usize, Anchored>,
    used: Size,
    /// Collected, so that a user sees every variable to set at once.
    not_filled_in: Problems,
}

impl<'a, E> Builder<'a, E>
where
    E: Iterator<Item = Result<(Event<'a>, Span), ScanError>>,
{
    fn document(&mut self) -> Result<Node, Problem> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::StreamEnd => return root.ok_or_else(empty),
                Event::DocumentStart(..) if root.is_some() => {
                    let what = "the file holds more than one document";
                    return Err(Problem::new(position(span.start), "", what)
                        .hint("write one definition per file and take the `---` away"));
                }
                Event::DocumentStart(..) => {
                    let (event, span) = self.next()?;
                    root = Some(self.node(event, span, Place::ROOT)?);
                }
                other => return Err(unexpected(&other, span)),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Problem> {
        match self.events.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(not_yaml(&error, self.text)),
            None => Err(empty()),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, place: Place<'_>) -> Result<Node, Problem> {
        if let Event::Alias(anchor) = event {
            return self.alias(anchor, span, place);
        }
        refuse_tag(&event, span, place)?;
        let anchor = event.anchor_id();
        let before = self.used;
        let kind = match event {
            Event::Scalar(text, style, ..) => Kind::Scalar(self.scalar(&text, style, span, place)?),
            Event::SequenceStart(..) => Kind::Sequence(self.sequence(span, place)?),
            Event::MappingStart(..) => Kind::Mapping(self.mapping(span, place)?),
            other => return Err(unexpected(&other, span)),
        };
        self.charge(Size { nodes: 1, bytes: 0 }, span, place)?;
        let node = Node {
            position: position(span.start),
            kind,
        };
        if let Some(anchor) = anchor {
            let size = Size {
                nodes: self.used.nodes - before.nodes,
                bytes: self.used.bytes - before.bytes,
            };
            let node = node.clone();
            self.anchors.insert(anchor, Anchored { node, size });
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, span: Span, place: Place<'_>) -> Result<Node, Problem> {
        let Some(size) = self.anchors.get(&anchor).map(|anchored| anchored.size) else {
            let what = "this alias stands inside what it repeats";
            return Err(Problem::new(position(span.start), place.path, what));
        };
        // Paid for before it is copied.
        self.charge(size, span, place)?;
        match self.anchors.get(&anchor) {
            Some(anchored) => Ok(anchored.node.clone()),
            None => Err(unexpected(&Event::Alias(anchor), span)),
        }
    }

    fn charge(&mut self, size: Size, span: Span, place: Place<'_>) -> Result<(), Problem> {
        self.used.nodes += size.nodes;
        self.used.bytes += size.bytes;
        let what = if self.used.nodes > NODES_MAXIMUM {
            format!("the document has more than {NODES_MAXIMUM} values, aliases counted each time")
        } else if self.used.bytes > TEXT_MAXIMUM {
            format!(
                "the texts of the document have more than {TEXT_MAXIMUM} bytes, \
                 aliases and variables filled in"
            )
        } else {
            return Ok(());
        };
        Err(Problem::new(position(span.start), place.path, what))
    }

    fn sequence(&mut self, span: Span, place: Place<'_>) -> Result<Vec<Node>, Problem> {
        place.check_depth(span)?;
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(items);
            }
            let path = format!("{}[{}]", place.path, items.len());
            items.push(self.node(event, span, place.below(&path))?);
        }
    }

    fn mapping(&mut self, span: Span, place: Place<'_>) -> Result<Vec<Entry>, Problem> {
        place.check_depth(span)?;
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(entries);
            }
            let key = key(event, span, place)?;
            let path = match place.path {
                "" => key.clone(),
                above => format!("{above}.{key}"),
            };
            let position = position(span.start);
            if !seen.insert(key.clone()) {
                let what = format!("the key `{key}` is there twice");
                return Err(Problem::new(position, &path, what));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span, place.below(&path))?;
            entries.push(Entry {
                key,
                position,
                value,
            });
        }
    }

    fn scalar(
        &mut self,
        written: &str,
        style: ScalarStyle,
        span: Span,
        place: Place<'_>,
    ) -> Result<Scalar, Problem> {
        let (text, origin) = match substitute(written, self.variables, self.fate) {
            Ok(Substituted::Unchanged) => (written.to_owned(), Origin::Written),
            Ok(Substituted::Unescaped(text)) => (text, Origin::Written),
            Ok(Substituted::Filled(text)) => (text, Origin::Substituted),
            Err(refusal) => {
                let problem = self.not_filled_in(&refusal, span, place);
                self.not_filled_in.add(problem);
                (written.to_owned(), Origin::Substituted)
            }
        };
        if let Some(character) = text.chars().find(|c| is_forbidden(*c)) {
            let what = match place.path {
                "" => forbidden(character),
                path => format!("{} in `{path}`", forbidden(character)),
            };
            return Err(Problem::new(position(span.start), place.path, what));
        }
        let bytes = text.len();
        self.charge(Size { nodes: 0, bytes }, span, place)?;
        let style = match style {
            ScalarStyle::Plain => Style::Plain,
            _ => Style::Quoted,
        };
        Ok(Scalar {
            text,
            style,
            origin,
        })
    }

    fn not_filled_in(&self, refusal: &Refusal, span: Span, place: Place<'_>) -> Problem {
        let literal = "write `$${` for a literal `${`";
        let (name, what, hint) = match refusal {
            Refusal::Unset { name } => (
                name.as_str(),
                format!("the variable `{name}` is not set and has no default"),
                format!("set it, or write `${{{name}:DEFAULT}}`; {literal}"),
            ),
            Refusal::NotAName { name } => (
                name.as_str(),
                format!("`${{{name}}}` names no variable"),
                literal.to_owned(),
            ),
            Refusal::Secret { name } => (
                name.as_str(),
                format!("the variable `{name}` is named like a secret, and this is stored"),
                format!("let what needs it take it from the environment itself; {literal}"),
            ),
            Refusal::Untrusted { name } => (
                name.as_str(),
                format!("`${{{name}}}` is not filled in: this file belongs to a repository"),
                format!("write the value itself, or make it an argument; {literal}"),
            ),
            Refusal::Unclosed => ("", "`${` has no closing `}`".to_owned(), literal.to_owned()),
        };
        let position = self.find(&format!("${{{name}"), span);
        Problem::new(position, place.path, what).hint(hint)
    }

    /// Where `wanted` stands in the source of a scalar, else where the scalar begins.
    fn find(&self, wanted: &str, span: Span) -> Position {
        let found = span.byte_range().and_then(|range| {
            let offset = self.text.get(range.clone())?.find(wanted)?;
            self.text.get(..range.start + offset)
        });
        found.map_or_else(|| position(span.start), end_of)
    }
}

/// Where in the tree the builder is.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    depth: usize,
}

impl<'a> Place<'a> {
    const ROOT: Place<'static> = Place { path: "", depth: 0 };

    fn below(self, path: &'a str) -> Self {
        let depth = self.depth + 1;
        Self { path, depth }
    }

    fn check_depth(self, span: Span) -> Result<(), Problem> {
        if self.depth < DEPTH_MAXIMUM {
            return Ok(());
        }
        let what = format!("lists and mappings are nested deeper than {DEPTH_MAXIMUM}");
        Err(Problem::new(position(span.start), self.path, what))
    }
}

fn key(event: Event<'_>, span: Span, place: Place<'_>) -> Result<String, Problem> {
    refuse_tag(&event, span, place)?;
    let problem = |what: &str| Problem::new(position(span.start), place.path, what);
    match event {
        Event::Scalar(key, ScalarStyle::Plain, ..) if key == "<<" => {
            Err(problem("merge keys (`<<`) are not supported")
                .hint("write the keys out, or use an alias for a whole value"))
        }
        Event::Scalar(key, ..) => match key.chars().find(|c| c.is_control()) {
            Some(character) => Err(problem(&forbidden(character))),
            None => Ok(key.into_owned()),
        },
        _ => Err(problem("a key must be a word")),
    }
}

fn refuse_tag(event: &Event<'_>, span: Span, place: Place<'_>) -> Result<(), Problem> {
    match event.tag().map(Tag::original) {
        None => Ok(()),
        Some(tag) => {
            let what = format!("the tag `{tag}` is not supported");
            let hint = "take it away; a text in quotes is always a text";
            Err(Problem::new(position(span.start), place.path, what).hint(hint))
        }
    }
}

fn empty() -> Problem {
    Problem::new(Position::START, "", "the file is empty")
}

fn unexpected(event: &Event<'_>, span: Span) -> Problem {
    let what = format!("the YAML parser said {event:?} where a value was expected");
    Problem::new(position(span.start), "", what)
}

fn not_yaml(error: &ScanError, text: &str) -> Problem {
    let position = position(*error.marker());
    let problem = Problem::new(position, "", format!("this is not YAML: {}", error.info()));
    match error.kind() {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart => problem.hint("indent with spaces, not with tabs"),
        ErrorKind::RecursionLimitExceeded => Problem::new(
            position,
            "",
            format!("lists and mappings are nested deeper than {DEPTH_MAXIMUM}"),
        ),
        _ => match text.lines().nth(position.line - 1) {
            Some(line) if line.contains("${") => {
                problem.hint("inside `{…}` and `[…]` put `${VAR}` in quotes")
            }
            _ => problem,
        },
    }
}

fn position(marker: Marker) -> Position {
    Position {
        line: marker.line().max(1),
        column: marker.col() + 1,
    }
}

#[cfg(test)]
mod tests;
