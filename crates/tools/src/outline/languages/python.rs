//! Python.

use tree_sitter::Node;

use crate::outline::symbols::{NamedSymbol, NodeContext, SymbolKind, SymbolScope};

pub(crate) fn symbols(node: Node<'_>, context: &NodeContext<'_>) -> Vec<NamedSymbol> {
    match node.kind() {
        "function_definition" => context.symbols_from_field(node, "name", context.function_kind()),
        "class_definition" => context.symbols_from_field(node, "name", SymbolKind::Class),
        "type_alias_statement" => context.symbols_from_field(node, "left", SymbolKind::Type),
        "assignment" if context.scope != SymbolScope::Function => constant(node, context),
        _ => Vec::new(),
    }
}

/// An assignment target is a constant if it is spelled like one.
fn constant(node: Node<'_>, context: &NodeContext<'_>) -> Vec<NamedSymbol> {
    let Some(left) = node.child_by_field_name("left") else {
        return Vec::new();
    };
    let name = context.text(left);
    let is_loud = !name.contains(char::is_lowercase) && name.contains(char::is_uppercase);
    if left.kind() == "identifier" && is_loud {
        context.symbol_named(name, SymbolKind::Constant)
    } else {
        Vec::new()
    }
}
