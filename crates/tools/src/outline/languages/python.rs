//! Python.

use tree_sitter::Node;

use crate::outline::symbols::{Found, Inside, Kind, Surroundings};

pub(crate) fn symbols(node: Node<'_>, around: &Surroundings<'_>) -> Vec<Found> {
    match node.kind() {
        "function_definition" => around.named(node, "name", around.function()),
        "class_definition" => around.named(node, "name", Kind::Class),
        "type_alias_statement" => around.named(node, "left", Kind::Type),
        "assignment" if around.inside != Inside::Function => constant(node, around),
        _ => Vec::new(),
    }
}

/// What is assigned to is a constant if it is written like one.
fn constant(node: Node<'_>, around: &Surroundings<'_>) -> Vec<Found> {
    let Some(left) = node.child_by_field_name("left") else {
        return Vec::new();
    };
    let name = around.text(left);
    let is_loud = !name.contains(char::is_lowercase) && name.contains(char::is_uppercase);
    match left.kind() == "identifier" && is_loud {
        true => around.called(name, Kind::Constant),
        false => Vec::new(),
    }
}
