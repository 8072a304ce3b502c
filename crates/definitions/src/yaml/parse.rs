//! Builds a tree from the parser's events, within limits.
//!
//! The limits turn an alias bomb, deep nesting and a flood of values into errors, long before they
//! exhaust memory or stack.

use std::collections::{HashMap, HashSet};

use serde_saphyr::granit_parser::{
    self, ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag,
};

use super::super::error::{Problem, Problems, SourcePosition};
use super::node::{ScalarOrigin, YamlEntry, YamlKind, YamlNode, YamlScalar, YamlStyle};
use super::source::{end_position, forbidden_message, is_forbidden};
use super::substitute::{
    DefinitionVariables, Substitution, SubstitutionError, SubstitutionPolicy, substitute,
};

/// Maximum nesting depth of lists and mappings.
const DEPTH_MAXIMUM: usize = 32;
/// Maximum number of values of a document; values repeated by aliases count each time.
const NODES_MAXIMUM: usize = 100_000;
/// Maximum size of all scalars in bytes, after expanding aliases and variables.
const TEXT_MAXIMUM: usize = 4 << 20;

/// Parses the only document in `text`.
pub(super) fn parse(
    text: &str,
    variables: DefinitionVariables<'_>,
    policy: SubstitutionPolicy,
) -> Result<YamlNode, Problems> {
    let mut options = granit_parser::Options::default();
    // Comments would be events between the values, and no definition uses them.
    options.set_emit_comments(false);
    let mut builder = Builder {
        events: Parser::new_from_str_with_options(text, options),
        text,
        variables,
        policy,
        anchors: HashMap::new(),
        used: NodeSize::default(),
        substitution_problems: Problems::default(),
    };
    let root = builder.document()?;
    // After the parse, so that the user sees all missing variables at once.
    if !builder.substitution_problems.is_empty() {
        return Err(builder.substitution_problems);
    }
    if root.is_null() {
        return Err(empty_file_problem().into());
    }
    Ok(root)
}

/// Size of a part of the tree.
#[derive(Debug, Clone, Copy, Default)]
struct NodeSize {
    nodes: usize,
    bytes: usize,
}

/// An anchored node and the cost of repeating it.
struct AnchoredNode {
    node: YamlNode,
    size: NodeSize,
}

struct Builder<'a, E> {
    events: E,
    text: &'a str,
    variables: DefinitionVariables<'a>,
    policy: SubstitutionPolicy,
    anchors: HashMap<usize, AnchoredNode>,
    used: NodeSize,
    /// Collected, so that the user sees all missing variables at once.
    substitution_problems: Problems,
}

impl<'a, E> Builder<'a, E>
where
    E: Iterator<Item = Result<(Event<'a>, Span), ScanError>>,
{
    fn document(&mut self) -> Result<YamlNode, Problem> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::StreamEnd => return root.ok_or_else(empty_file_problem),
                Event::DocumentStart(..) if root.is_some() => {
                    let what = "the file holds more than one document";
                    return Err(Problem::new(position(span.start), "", what)
                        .hint("write one definition per file and take the `---` away"));
                }
                Event::DocumentStart(..) => {
                    let (event, span) = self.next()?;
                    root = Some(self.node(event, span, YamlContext::ROOT)?);
                }
                other => return Err(unexpected_event_problem(&other, span)),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Problem> {
        match self.events.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(syntax_problem(&error, self.text)),
            None => Err(empty_file_problem()),
        }
    }

    fn node(
        &mut self,
        event: Event<'a>,
        span: Span,
        place: YamlContext<'_>,
    ) -> Result<YamlNode, Problem> {
        if let Event::Alias(anchor) = event {
            return self.alias(anchor, span, place);
        }
        refuse_tag(&event, span, place)?;
        let anchor = event.anchor_id();
        // The cost of this value is the difference, which each alias of it pays again.
        let before = self.used;
        let kind = match event {
            Event::Scalar(text, style, ..) => {
                YamlKind::Scalar(self.scalar(&text, style, span, place)?)
            }
            Event::SequenceStart(..) => YamlKind::Sequence(self.sequence(span, place)?),
            Event::MappingStart(..) => YamlKind::Mapping(self.mapping(span, place)?),
            other => return Err(unexpected_event_problem(&other, span)),
        };
        self.charge(NodeSize { nodes: 1, bytes: 0 }, span, place)?;
        let node = YamlNode {
            position: position(span.start),
            kind,
        };
        if let Some(anchor) = anchor {
            let size = NodeSize {
                nodes: self.used.nodes - before.nodes,
                bytes: self.used.bytes - before.bytes,
            };
            let node = node.clone();
            self.anchors.insert(anchor, AnchoredNode { node, size });
        }
        Ok(node)
    }

    fn alias(
        &mut self,
        anchor: usize,
        span: Span,
        place: YamlContext<'_>,
    ) -> Result<YamlNode, Problem> {
        let Some(size) = self.anchors.get(&anchor).map(|anchored| anchored.size) else {
            // An anchor is stored after its value is complete, so an unknown one is a cycle.
            let what = "this alias refers to a value that contains it";
            return Err(Problem::new(position(span.start), place.path, what));
        };
        // Charge the size before copying.
        self.charge(size, span, place)?;
        match self.anchors.get(&anchor) {
            Some(anchored) => Ok(anchored.node.clone()),
            None => Err(unexpected_event_problem(&Event::Alias(anchor), span)),
        }
    }

    fn charge(
        &mut self,
        size: NodeSize,
        span: Span,
        place: YamlContext<'_>,
    ) -> Result<(), Problem> {
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

    fn sequence(&mut self, span: Span, place: YamlContext<'_>) -> Result<Vec<YamlNode>, Problem> {
        place.check_depth(span)?;
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(items);
            }
            let path = format!("{}[{}]", place.path, items.len());
            items.push(self.node(event, span, place.child(&path))?);
        }
    }

    fn mapping(&mut self, span: Span, place: YamlContext<'_>) -> Result<Vec<YamlEntry>, Problem> {
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
            // YAML parsers differ in which of two equal keys wins, so neither is accepted.
            if !seen.insert(key.clone()) {
                let what = format!("duplicate key `{key}`");
                return Err(Problem::new(position, &path, what));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span, place.child(&path))?;
            entries.push(YamlEntry {
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
        place: YamlContext<'_>,
    ) -> Result<YamlScalar, Problem> {
        let (text, origin) = match substitute(written, self.variables, self.policy) {
            Ok(Substitution::Unchanged) => (written.to_owned(), ScalarOrigin::Written),
            Ok(Substitution::Unescaped(text)) => (text, ScalarOrigin::Written),
            Ok(Substitution::Filled(text)) => (text, ScalarOrigin::Substituted),
            Err(refusal) => {
                let problem = self.substitution_problem(&refusal, span, place);
                self.substitution_problems.add(problem);
                (written.to_owned(), ScalarOrigin::Substituted)
            }
        };
        // After the substitution: a variable may contain control characters too.
        if let Some(character) = text.chars().find(|c| is_forbidden(*c)) {
            let what = match place.path {
                "" => forbidden_message(character),
                path => format!("{} in `{path}`", forbidden_message(character)),
            };
            return Err(Problem::new(position(span.start), place.path, what));
        }
        let bytes = text.len();
        self.charge(NodeSize { nodes: 0, bytes }, span, place)?;
        let style = match style {
            ScalarStyle::Plain => YamlStyle::Plain,
            // Quotes mean text. The difference decides whether `true` or `1` is a string.
            _ => YamlStyle::Quoted,
        };
        Ok(YamlScalar {
            text,
            style,
            origin,
        })
    }

    fn substitution_problem(
        &self,
        refusal: &SubstitutionError,
        span: Span,
        place: YamlContext<'_>,
    ) -> Problem {
        let literal = "write `$${` for a literal `${`";
        let (name, what, hint) = match refusal {
            SubstitutionError::Unset { name } => (
                name.as_str(),
                format!("the variable `{name}` is not set and has no default"),
                format!("set it, or write `${{{name}:DEFAULT}}`; {literal}"),
            ),
            SubstitutionError::NotAName { name } => (
                name.as_str(),
                format!("`${{{name}}}` names no variable"),
                literal.to_owned(),
            ),
            SubstitutionError::Secret { name } => (
                name.as_str(),
                format!("the variable `{name}` is named like a secret, and this is stored"),
                format!("let what needs it take it from the environment itself; {literal}"),
            ),
            SubstitutionError::Untrusted { name } => (
                name.as_str(),
                format!("`${{{name}}}` is not filled in: this file belongs to a repository"),
                format!("write the value itself, or make it an argument; {literal}"),
            ),
            SubstitutionError::Unclosed => {
                ("", "`${` has no closing `}`".to_owned(), literal.to_owned())
            }
        };
        let position = self.locate(&format!("${{{name}"), span);
        Problem::new(position, place.path, what).hint(hint)
    }

    /// Returns the position of `wanted` in the source of a scalar, else the start of the scalar.
    fn locate(&self, wanted: &str, span: Span) -> SourcePosition {
        let found = span.byte_range().and_then(|range| {
            let offset = self.text.get(range.clone())?.find(wanted)?;
            self.text.get(..range.start + offset)
        });
        found.map_or_else(|| position(span.start), end_position)
    }
}

/// The builder's position in the tree.
#[derive(Clone, Copy)]
struct YamlContext<'a> {
    path: &'a str,
    depth: usize,
}

impl<'a> YamlContext<'a> {
    const ROOT: YamlContext<'static> = YamlContext { path: "", depth: 0 };

    fn child(self, path: &'a str) -> Self {
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

fn key(event: Event<'_>, span: Span, place: YamlContext<'_>) -> Result<String, Problem> {
    refuse_tag(&event, span, place)?;
    let problem = |what: &str| Problem::new(position(span.start), place.path, what);
    match event {
        Event::Scalar(key, ScalarStyle::Plain, ..) if key == "<<" => {
            Err(problem("merge keys (`<<`) are not supported")
                .hint("write the keys out, or use an alias for a whole value"))
        }
        Event::Scalar(key, ..) => match key.chars().find(|c| c.is_control()) {
            Some(character) => Err(problem(&forbidden_message(character))),
            None => Ok(key.into_owned()),
        },
        _ => Err(problem("a key must be text")),
    }
}

fn refuse_tag(event: &Event<'_>, span: Span, place: YamlContext<'_>) -> Result<(), Problem> {
    match event.tag().map(Tag::original) {
        None => Ok(()),
        Some(tag) => {
            let what = format!("the tag `{tag}` is not supported");
            let hint = "take it away; a text in quotes is always a text";
            Err(Problem::new(position(span.start), place.path, what).hint(hint))
        }
    }
}

fn empty_file_problem() -> Problem {
    Problem::new(SourcePosition::START, "", "the file is empty")
}

fn unexpected_event_problem(event: &Event<'_>, span: Span) -> Problem {
    let what = format!("the YAML parser returned {event:?} where a value was expected");
    Problem::new(position(span.start), "", what)
}

fn syntax_problem(error: &ScanError, text: &str) -> Problem {
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

fn position(marker: Marker) -> SourcePosition {
    SourcePosition {
        line: marker.line().max(1),
        column: marker.col() + 1,
    }
}

#[cfg(test)]
mod tests;
