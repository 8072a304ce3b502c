//! A syntax tree walked from its first node to its last, and the symbols met on the way.

use cleveragents_engine::ports::Stop;
use cleveragents_engine::ports::tools::ToolFailure;
use serde_json::{Value, json};
use tree_sitter::{Node, Tree as Syntax, TreeCursor};

use super::language::Language;
use crate::builtin::stopped;
use crate::excerpt::beginning;

/// The most bytes of a name.
const MOST_NAME: usize = 120;

/// After how many nodes the word to stop is looked for.
const NODES_A_LOOK: usize = 4096;

/// What a symbol is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Module,
    Class,
    Struct,
    Enum,
    Union,
    Interface,
    Trait,
    Impl,
    Type,
    Function,
    Method,
    Macro,
    Constant,
    Variable,
}

impl Kind {
    const ALL: [Self; 14] = [
        Self::Module,
        Self::Class,
        Self::Struct,
        Self::Enum,
        Self::Union,
        Self::Interface,
        Self::Trait,
        Self::Impl,
        Self::Type,
        Self::Function,
        Self::Method,
        Self::Macro,
        Self::Constant,
        Self::Variable,
    ];

    pub(super) fn words() -> [&'static str; 14] {
        Self::ALL.map(Self::word)
    }

    /// Where the nodes in such a symbol are, if it is itself in this.
    const fn leaves(self, outside: Inside) -> Inside {
        match self {
            Self::Module => outside,
            Self::Constant | Self::Variable | Self::Macro => Inside::Nothing,
            Self::Function | Self::Method => Inside::Function,
            Self::Class
            | Self::Struct
            | Self::Enum
            | Self::Union
            | Self::Interface
            | Self::Trait
            | Self::Impl
            | Self::Type => Inside::Type,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Module => "module",
            Self::Class => "class",
            Self::Struct => "struct",
            Self::Enum => "enum",
            Self::Union => "union",
            Self::Interface => "interface",
            Self::Trait => "trait",
            Self::Impl => "impl",
            Self::Type => "type",
            Self::Function => "function",
            Self::Method => "method",
            Self::Macro => "macro",
            Self::Constant => "constant",
            Self::Variable => "variable",
        }
    }
}

/// A symbol that a node stands for.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) name: String,
}

/// What the nearest symbol around a node is, modules not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    Nothing,
    Type,
    Function,
}

/// What is known of the place where a node is.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    content: &'a [u8],
    pub(super) inside: Inside,
    /// Kinds of the nodes around it, the root first.
    outer: &'a [&'a str],
}

impl Surroundings<'_> {
    /// The kind of the node this many levels further out; 1 is the one directly around.
    pub(super) fn outer(&self, levels: usize) -> &str {
        let at = self.outer.len().checked_sub(levels);
        at.map_or("", |at| self.outer[at])
    }

    /// The text of a node on one line, cut if it is long and with nothing in it that plays tricks
    /// on a terminal.
    pub(super) fn text(&self, node: Node<'_>) -> String {
        let bytes = self.content.get(node.byte_range()).unwrap_or_default();
        // Whatever is cut off here would be cut off below.
        let some = &bytes[..bytes.len().min(8 * MOST_NAME)];
        let text = String::from_utf8_lossy(some);
        let words: Vec<&str> = text.split_whitespace().collect();
        shortened(&words.join(" ").replace(char::is_control, "\u{fffd}"))
    }

    /// One symbol for each name in this field of a node.
    pub(super) fn named(&self, node: Node<'_>, field: &str, kind: Kind) -> Vec<Found> {
        let mut cursor = node.walk();
        let names = node.children_by_field_name(field, &mut cursor);
        // Between several names the grammar counts the commas as well.
        let names = names.filter(Node::is_named);
        names
            .flat_map(|name| self.called(self.text(name), kind))
            .collect()
    }

    /// A symbol of this name; a parser that guessed may have found an empty one.
    pub(super) fn called(&self, name: String, kind: Kind) -> Vec<Found> {
        match name.is_empty() {
            true => Vec::new(),
            false => vec![Found { kind, name }],
        }
    }

    /// A function is a method where it belongs to a type.
    pub(super) fn function(&self) -> Kind {
        match self.inside {
            Inside::Type => Kind::Method,
            Inside::Nothing | Inside::Function => Kind::Function,
        }
    }
}

fn shortened(name: &str) -> String {
    let short = beginning(name, MOST_NAME);
    let more = if short.len() < name.len() { "…" } else { "" };
    format!("{short}{more}")
}

/// A symbol with its place.
#[derive(Debug)]
struct Symbol {
    found: Found,
    line: usize,
    end_line: usize,
    depth: usize,
}

/// All symbols of a file.
#[derive(Debug)]
pub(super) struct Symbols(Vec<Symbol>);

/// A node that is around the one the walk is at and is a symbol.
struct Around {
    level: usize,
    /// Where that leaves the nodes in it.
    inside: Inside,
}

impl Symbols {
    pub(super) fn of(
        syntax: &Syntax,
        language: Language,
        content: &[u8],
        stop: &Stop,
    ) -> Result<Self, ToolFailure> {
        let mut symbols = Self(Vec::new());
        let mut around: Vec<Around> = Vec::new();
        let mut outer = Vec::new();
        let mut cursor = syntax.walk();
        let mut nodes = 0_usize;
        loop {
            if nodes.is_multiple_of(NODES_A_LOOK) {
                stop.check().map_err(stopped)?;
            }
            nodes += 1;
            let node = cursor.node();
            if node.is_named() {
                let surroundings = Surroundings {
                    content,
                    inside: inside(&around),
                    outer: &outer,
                };
                let found = language.symbols(node, &surroundings);
                let level = outer.len();
                let first = found.first().map(|it| it.kind);
                symbols.take(node, found, around.len());
                let inside = first.map(|kind| kind.leaves(inside(&around)));
                around.extend(inside.map(|inside| Around { level, inside }));
            }
            outer.push(node.kind());
            if !step(&mut cursor, &mut outer) {
                return Ok(symbols);
            }
            let level = outer.len();
            while around.last().is_some_and(|it| it.level >= level) {
                around.pop();
            }
        }
    }

    fn take(&mut self, node: Node<'_>, found: Vec<Found>, depth: usize) {
        let (start, end) = (node.start_position(), node.end_position());
        // Some nodes reach up to the beginning of the line after them.
        let is_past = end.column == 0 && end.row > start.row;
        self.0.extend(found.into_iter().map(|found| Symbol {
            found,
            line: start.row + 1,
            end_line: end.row + usize::from(!is_past),
            depth,
        }));
    }

    /// As many as fit, the outer ones first, in the order of the file.
    pub(super) fn tell(self, most: usize) -> Value {
        let left_out = self.0.len().saturating_sub(most);
        let mut kept: Vec<(usize, Symbol)> = self.0.into_iter().enumerate().collect();
        kept.sort_by_key(|(place, symbol)| (symbol.depth, *place));
        kept.truncate(most);
        kept.sort_by_key(|(place, _)| *place);
        let symbols = kept.into_iter().map(|(_, symbol)| {
            json!({
                "kind": symbol.found.kind.word(),
                "name": symbol.found.name,
                "line": symbol.line,
                "end_line": symbol.end_line,
                "depth": symbol.depth,
            })
        });
        json!({
            "symbols": symbols.collect::<Vec<Value>>(),
            "left_out": left_out,
        })
    }
}

/// Goes to the next node, `outer` ending with the one the cursor is at; says whether there is one.
fn step(cursor: &mut TreeCursor<'_>, outer: &mut Vec<&str>) -> bool {
    if cursor.goto_first_child() {
        return true;
    }
    loop {
        outer.pop();
        if cursor.goto_next_sibling() {
            return true;
        }
        if !cursor.goto_parent() {
            return false;
        }
    }
}

/// Where a node is that has these symbols around it.
fn inside(around: &[Around]) -> Inside {
    around.last().map_or(Inside::Nothing, |it| it.inside)
}
