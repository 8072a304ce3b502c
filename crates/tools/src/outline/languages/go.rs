//! Go.

use tree_sitter::Node;

use crate::outline::symbols::{NamedSymbol, NodeContext, SymbolKind, SymbolScope};

pub(crate) fn symbols(node: Node<'_>, context: &NodeContext<'_>) -> Vec<NamedSymbol> {
    let kind = match node.kind() {
        "function_declaration" => SymbolKind::Function,
        "method_declaration" => {
            return context.symbol_named(method_name(node, context), SymbolKind::Method);
        }
        "method_elem" => SymbolKind::Method,
        "type_spec" => match node.child_by_field_name("type").map(|it| it.kind()) {
            Some("struct_type") => SymbolKind::Struct,
            Some("interface_type") => SymbolKind::Interface,
            _ => SymbolKind::Type,
        },
        "type_alias" => SymbolKind::Type,
        "const_spec" if context.scope == SymbolScope::TopLevel => SymbolKind::Constant,
        "var_spec" if context.scope == SymbolScope::TopLevel => SymbolKind::Variable,
        _ => return Vec::new(),
    };
    context.symbols_from_field(node, "name", kind)
}

/// In Go's notation: `Type.Name` or `(*Type).Name`.
fn method_name(node: Node<'_>, context: &NodeContext<'_>) -> String {
    let Some(name) = node.child_by_field_name("name") else {
        return String::new();
    };
    let receivers = node.child_by_field_name("receiver");
    let receiver = receivers.and_then(|it| it.named_child(0));
    let of = receiver.and_then(|it| it.child_by_field_name("type"));
    let name = context.text(name);
    match of.map(|of| context.text(of)) {
        Some(of) if of.starts_with('*') => format!("({of}).{name}"),
        Some(of) => format!("{of}.{name}"),
        None => name,
    }
}
