//! Rust.

use tree_sitter::Node;

use crate::outline::symbols::{Found, Inside, Kind, Surroundings};

pub(crate) fn symbols(node: Node<'_>, around: &Surroundings<'_>) -> Vec<Found> {
    let kind = match node.kind() {
        "function_item" | "function_signature_item" => around.function(),
        "struct_item" => Kind::Struct,
        "enum_item" => Kind::Enum,
        "union_item" => Kind::Union,
        "trait_item" => Kind::Trait,
        "impl_item" => return around.called(implementation(node, around), Kind::Impl),
        "mod_item" => Kind::Module,
        "macro_definition" => Kind::Macro,
        "type_item" | "associated_type" => Kind::Type,
        "const_item" if around.inside != Inside::Function => Kind::Constant,
        "static_item" if around.inside != Inside::Function => Kind::Variable,
        _ => return Vec::new(),
    };
    around.named(node, "name", kind)
}

/// `Type`, or `Trait for Type`.
fn implementation(node: Node<'_>, around: &Surroundings<'_>) -> String {
    let text = |field| node.child_by_field_name(field).map(|it| around.text(it));
    let of = text("type").unwrap_or_default();
    match text("trait") {
        Some(implemented) => format!("{implemented} for {of}"),
        None => of,
    }
}
