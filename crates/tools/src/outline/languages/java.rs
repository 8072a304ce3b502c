//! Java.

use tree_sitter::Node;

use crate::outline::symbols::{Found, Kind, Surroundings};

pub(crate) fn symbols(node: Node<'_>, around: &Surroundings<'_>) -> Vec<Found> {
    let kind = match node.kind() {
        "class_declaration" | "record_declaration" => Kind::Class,
        "interface_declaration" | "annotation_type_declaration" => Kind::Interface,
        "enum_declaration" => Kind::Enum,
        "method_declaration"
        | "constructor_declaration"
        | "compact_constructor_declaration"
        | "annotation_type_element_declaration" => Kind::Method,
        _ => return Vec::new(),
    };
    around.named(node, "name", kind)
}
