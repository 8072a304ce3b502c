//! Rust.

use tree_sitter::Node;

use crate::outline::symbols::{NamedSymbol, NodeContext, SymbolKind, SymbolScope};

pub(crate) fn symbols(node: Node<'_>, context: &NodeContext<'_>) -> Vec<NamedSymbol> {
    let kind = match node.kind() {
        "function_item" | "function_signature_item" => context.function_kind(),
        "struct_item" => SymbolKind::Struct,
        "enum_item" => SymbolKind::Enum,
        "union_item" => SymbolKind::Union,
        "trait_item" => SymbolKind::Trait,
        "impl_item" => return context.symbol_named(impl_name(node, context), SymbolKind::Impl),
        "mod_item" => SymbolKind::Module,
        "macro_definition" => SymbolKind::Macro,
        "type_item" | "associated_type" => SymbolKind::Type,
        "const_item" if context.scope != SymbolScope::Function => SymbolKind::Constant,
        "static_item" if context.scope != SymbolScope::Function => SymbolKind::Variable,
        _ => return Vec::new(),
    };
    context.symbols_from_field(node, "name", kind)
}

/// `Type`, or `Trait for Type`.
fn impl_name(node: Node<'_>, context: &NodeContext<'_>) -> String {
    let text = |field| node.child_by_field_name(field).map(|it| context.text(it));
    let of = text("type").unwrap_or_default();
    match text("trait") {
        Some(implemented) => format!("{implemented} for {of}"),
        None => of,
    }
}
