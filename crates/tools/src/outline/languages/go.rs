//! Go.

use tree_sitter::Node;

use crate::outline::symbols::{Found, Inside, Kind, Surroundings};

pub(crate) fn symbols(node: Node<'_>, around: &Surroundings<'_>) -> Vec<Found> {
    let kind = match node.kind() {
        "function_declaration" => Kind::Function,
        "method_declaration" => return around.called(method(node, around), Kind::Method),
        "method_elem" => Kind::Method,
        "type_spec" => match node.child_by_field_name("type").map(|it| it.kind()) {
            Some("struct_type") => Kind::Struct,
            Some("interface_type") => Kind::Interface,
            _ => Kind::Type,
        },
        "type_alias" => Kind::Type,
        "const_spec" if around.inside == Inside::Nothing => Kind::Constant,
        "var_spec" if around.inside == Inside::Nothing => Kind::Variable,
        _ => return Vec::new(),
    };
    around.named(node, "name", kind)
}

/// As Go itself writes it: `Type.Name` or `(*Type).Name`.
fn method(node: Node<'_>, around: &Surroundings<'_>) -> String {
    let Some(name) = node.child_by_field_name("name") else {
        return String::new();
    };
    let receivers = node.child_by_field_name("receiver");
    let receiver = receivers.and_then(|it| it.named_child(0));
    let of = receiver.and_then(|it| it.child_by_field_name("type"));
    let name = around.text(name);
    match of.map(|of| around.text(of)) {
        Some(of) if of.starts_with('*') => format!("({of}).{name}"),
        Some(of) => format!("{of}.{name}"),
        None => name,
    }
}
