//! Walks a syntax tree in order and collects its symbols.

use cleveragents_ports::StopSignal;
use cleveragents_ports::tools::ToolFailure;
use serde_json::{Value, json};
use tree_sitter::{Node, Tree as Syntax, TreeCursor};

use super::language::SourceLanguage;
use crate::builtin::stopped;
use crate::excerpt::truncate_str;

/// Maximum length of a name in bytes.
const MAX_NAME: usize = 120;

/// The stop signal is checked after this many nodes.
const STOP_CHECK_INTERVAL: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolKind {
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

impl SymbolKind {
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

    pub(super) fn names() -> [&'static str; 14] {
        Self::ALL.map(Self::name)
    }

    /// Returns the scope of nodes inside such a symbol, if the symbol itself is in scope `outside`.
    const fn inner_scope(self, outside: SymbolScope) -> SymbolScope {
        match self {
            Self::Module => outside,
            Self::Constant | Self::Variable | Self::Macro => SymbolScope::TopLevel,
            Self::Function | Self::Method => SymbolScope::Function,
            Self::Class
            | Self::Struct
            | Self::Enum
            | Self::Union
            | Self::Interface
            | Self::Trait
            | Self::Impl
            | Self::Type => SymbolScope::Type,
        }
    }

    const fn name(self) -> &'static str {
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

#[derive(Debug)]
pub(super) struct NamedSymbol {
    pub(super) kind: SymbolKind,
    pub(super) name: String,
}

/// The kind of the nearest enclosing symbol, not counting modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolScope {
    TopLevel,
    Type,
    Function,
}

#[derive(Debug)]
pub(super) struct NodeContext<'a> {
    content: &'a [u8],
    pub(super) scope: SymbolScope,
    /// Kinds of the enclosing nodes, the root first.
    ancestors: &'a [&'a str],
}

impl NodeContext<'_> {
    /// Returns the kind of the ancestor this many levels up; 1 is the parent.
    pub(super) fn ancestor_kind(&self, levels: usize) -> &str {
        let at = self.ancestors.len().checked_sub(levels);
        at.map_or("", |at| self.ancestors[at])
    }

    /// Returns the text of a node on one line, truncated and without control characters that could
    /// affect a terminal.
    pub(super) fn text(&self, node: Node<'_>) -> String {
        let bytes = self.content.get(node.byte_range()).unwrap_or_default();
        // Everything cut off here would also be cut off below.
        let some = &bytes[..bytes.len().min(8 * MAX_NAME)];
        let text = String::from_utf8_lossy(some);
        let words: Vec<&str> = text.split_whitespace().collect();
        shorten_name(&words.join(" ").replace(char::is_control, "\u{fffd}"))
    }

    /// Returns one symbol for each name in this field of a node.
    pub(super) fn symbols_from_field(
        &self,
        node: Node<'_>,
        field: &str,
        kind: SymbolKind,
    ) -> Vec<NamedSymbol> {
        let mut cursor = node.walk();
        let names = node.children_by_field_name(field, &mut cursor);
        // With several names the field also contains the commas.
        let names = names.filter(Node::is_named);
        names
            .flat_map(|name| self.symbol_named(self.text(name), kind))
            .collect()
    }

    /// Returns a symbol of this name. After error recovery of the parser the name may be empty.
    pub(super) fn symbol_named(&self, name: String, kind: SymbolKind) -> Vec<NamedSymbol> {
        if name.is_empty() {
            Vec::new()
        } else {
            vec![NamedSymbol { kind, name }]
        }
    }

    /// A function that belongs to a type is a method.
    pub(super) fn function_kind(&self) -> SymbolKind {
        match self.scope {
            SymbolScope::Type => SymbolKind::Method,
            SymbolScope::TopLevel | SymbolScope::Function => SymbolKind::Function,
        }
    }
}

fn shorten_name(name: &str) -> String {
    let short = truncate_str(name, MAX_NAME);
    let more = if short.len() < name.len() { "…" } else { "" };
    format!("{short}{more}")
}

/// A symbol with its location.
#[derive(Debug)]
struct Symbol {
    named: NamedSymbol,
    line: usize,
    end_line: usize,
    depth: usize,
}

#[derive(Debug)]
pub(super) struct Symbols(Vec<Symbol>);

/// An enclosing node that is a symbol.
struct EnclosingSymbol {
    level: usize,
    /// The scope of nodes inside it.
    scope: SymbolScope,
}

impl Symbols {
    pub(super) fn collect(
        syntax: &Syntax,
        language: SourceLanguage,
        content: &[u8],
        stop: &StopSignal,
    ) -> Result<Self, ToolFailure> {
        let mut symbols = Self(Vec::new());
        let mut enclosing: Vec<EnclosingSymbol> = Vec::new();
        let mut ancestors = Vec::new();
        let mut cursor = syntax.walk();
        let mut nodes = 0_usize;
        loop {
            if nodes.is_multiple_of(STOP_CHECK_INTERVAL) {
                stop.check().map_err(stopped)?;
            }
            nodes += 1;
            let node = cursor.node();
            if node.is_named() {
                let context = NodeContext {
                    content,
                    scope: current_scope(&enclosing),
                    ancestors: &ancestors,
                };
                let found = language.symbols(node, &context);
                let level = ancestors.len();
                let first = found.first().map(|it| it.kind);
                symbols.push(node, found, enclosing.len());
                let inside = first.map(|kind| kind.inner_scope(current_scope(&enclosing)));
                enclosing.extend(inside.map(|inside| EnclosingSymbol {
                    level,
                    scope: inside,
                }));
            }
            ancestors.push(node.kind());
            if !advance(&mut cursor, &mut ancestors) {
                return Ok(symbols);
            }
            let level = ancestors.len();
            while enclosing.last().is_some_and(|it| it.level >= level) {
                enclosing.pop();
            }
        }
    }

    fn push(&mut self, node: Node<'_>, found: Vec<NamedSymbol>, depth: usize) {
        let (start, end) = (node.start_position(), node.end_position());
        // Some nodes extend to the start of the next line.
        let is_past = end.column == 0 && end.row > start.row;
        self.0.extend(found.into_iter().map(|found| Symbol {
            named: found,
            line: start.row + 1,
            end_line: end.row + usize::from(!is_past),
            depth,
        }));
    }

    /// Returns up to `most` symbols in file order. Outer symbols take precedence.
    pub(super) fn into_output(self, most: usize) -> Value {
        let left_out = self.0.len().saturating_sub(most);
        let mut kept: Vec<(usize, Symbol)> = self.0.into_iter().enumerate().collect();
        kept.sort_by_key(|(place, symbol)| (symbol.depth, *place));
        kept.truncate(most);
        kept.sort_by_key(|(place, _)| *place);
        let symbols = kept.into_iter().map(|(_, symbol)| {
            json!({
                "kind": symbol.named.kind.name(),
                "name": symbol.named.name,
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

/// Moves to the next node. `ancestors` must end with the node at the cursor. Returns `false` at the
/// end.
fn advance(cursor: &mut TreeCursor<'_>, ancestors: &mut Vec<&str>) -> bool {
    if cursor.goto_first_child() {
        return true;
    }
    loop {
        ancestors.pop();
        if cursor.goto_next_sibling() {
            return true;
        }
        if !cursor.goto_parent() {
            return false;
        }
    }
}

/// Returns the scope of a node with these enclosing symbols.
fn current_scope(enclosing: &[EnclosingSymbol]) -> SymbolScope {
    enclosing
        .last()
        .map_or(SymbolScope::TopLevel, |it| it.scope)
}
