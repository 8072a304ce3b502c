//! JavaScript and TypeScript; the TypeScript grammar contains all of JavaScript.

use tree_sitter::Node;

use crate::outline::symbols::{NamedSymbol, NodeContext, SymbolKind, SymbolScope};

pub(crate) fn symbols(node: Node<'_>, context: &NodeContext<'_>) -> Vec<NamedSymbol> {
    let kind = match node.kind() {
        "function_declaration" | "generator_function_declaration" | "function_signature" => {
            SymbolKind::Function
        }
        "class_declaration" | "abstract_class_declaration" => SymbolKind::Class,
        "method_definition" | "method_signature" | "abstract_method_signature" => {
            SymbolKind::Method
        }
        "interface_declaration" => SymbolKind::Interface,
        "type_alias_declaration" => SymbolKind::Type,
        "enum_declaration" => SymbolKind::Enum,
        "internal_module" | "module" => SymbolKind::Module,
        "variable_declarator" => return variable(node, context),
        "assignment_expression" => return assigned_value(node, "right", "left", context),
        "field_definition" => return field(node, "property", context),
        "public_field_definition" => return field(node, "name", context),
        _ => return Vec::new(),
    };
    context.symbols_from_field(node, "name", kind)
}

/// Returns the kind of symbol that a value gives to its name.
fn kind_of_value(node: Node<'_>, field: &str) -> Option<SymbolKind> {
    match node.child_by_field_name(field)?.kind() {
        "arrow_function" | "function_expression" | "generator_function" => {
            Some(SymbolKind::Function)
        }
        "class" => Some(SymbolKind::Class),
        _ => None,
    }
}

/// A function or class, named by what it is assigned to.
fn assigned_value(
    node: Node<'_>,
    value: &str,
    name: &str,
    context: &NodeContext<'_>,
) -> Vec<NamedSymbol> {
    match kind_of_value(node, value) {
        Some(kind) => context.symbols_from_field(node, name, kind),
        None => Vec::new(),
    }
}

/// Functions and classes anywhere. Other values only at the top level, and only with a plain name.
fn variable(node: Node<'_>, context: &NodeContext<'_>) -> Vec<NamedSymbol> {
    let name = node.child_by_field_name("name");
    if name.is_none_or(|name| name.kind() != "identifier") {
        return Vec::new();
    }
    if let Some(kind) = kind_of_value(node, "value") {
        return context.symbols_from_field(node, "name", kind);
    }
    let is_outermost = match context.ancestor_kind(2) {
        "program" => true,
        "export_statement" | "ambient_declaration" => context.scope == SymbolScope::TopLevel,
        _ => false,
    };
    if is_outermost {
        context.symbols_from_field(node, "name", SymbolKind::Variable)
    } else {
        Vec::new()
    }
}

/// A field that holds a function is a method. Other fields are no symbols.
fn field(node: Node<'_>, name: &str, context: &NodeContext<'_>) -> Vec<NamedSymbol> {
    match kind_of_value(node, "value") {
        Some(SymbolKind::Function) => context.symbols_from_field(node, name, SymbolKind::Method),
        _ => Vec::new(),
    }
}
