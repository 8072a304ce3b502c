//! JavaScript and TypeScript, whose grammar has all of the other and more.

use tree_sitter::Node;

use crate::outline::symbols::{Found, Inside, Kind, Surroundings};

pub(crate) fn symbols(node: Node<'_>, around: &Surroundings<'_>) -> Vec<Found> {
    let kind = match node.kind() {
        "function_declaration" | "generator_function_declaration" | "function_signature" => {
            Kind::Function
        }
        "class_declaration" | "abstract_class_declaration" => Kind::Class,
        "method_definition" | "method_signature" | "abstract_method_signature" => Kind::Method,
        "interface_declaration" => Kind::Interface,
        "type_alias_declaration" => Kind::Type,
        "enum_declaration" => Kind::Enum,
        "internal_module" | "module" => Kind::Module,
        "variable_declarator" => return variable(node, around),
        "assignment_expression" => return value_of(node, "right", "left", around),
        "field_definition" => return field(node, "property", around),
        "public_field_definition" => return field(node, "name", around),
        _ => return Vec::new(),
    };
    around.named(node, "name", kind)
}

/// What a value makes of the name it is given to.
fn kind_of_value(node: Node<'_>, field: &str) -> Option<Kind> {
    match node.child_by_field_name(field)?.kind() {
        "arrow_function" | "function_expression" | "generator_function" => Some(Kind::Function),
        "class" => Some(Kind::Class),
        _ => None,
    }
}

/// A function or a class by whatever it is assigned to.
fn value_of(node: Node<'_>, value: &str, name: &str, around: &Surroundings<'_>) -> Vec<Found> {
    match kind_of_value(node, value) {
        Some(kind) => around.named(node, name, kind),
        None => Vec::new(),
    }
}

/// Functions and classes anywhere; other values only in the outermost scope, and only by a name.
fn variable(node: Node<'_>, around: &Surroundings<'_>) -> Vec<Found> {
    let name = node.child_by_field_name("name");
    if name.is_none_or(|name| name.kind() != "identifier") {
        return Vec::new();
    }
    if let Some(kind) = kind_of_value(node, "value") {
        return around.named(node, "name", kind);
    }
    let is_outermost = match around.outer(2) {
        "program" => true,
        "export_statement" | "ambient_declaration" => around.inside == Inside::Nothing,
        _ => false,
    };
    match is_outermost {
        true => around.named(node, "name", Kind::Variable),
        false => Vec::new(),
    }
}

/// A field is a method if it holds a function, else it is no symbol.
fn field(node: Node<'_>, name: &str, around: &Surroundings<'_>) -> Vec<Found> {
    match kind_of_value(node, "value") {
        Some(Kind::Function) => around.named(node, name, Kind::Method),
        _ => Vec::new(),
    }
}
