//! Ruby.

use tree_sitter::Node;

use crate::outline::symbols::{Found, Inside, Kind, Surroundings};

pub(crate) fn symbols(node: Node<'_>, around: &Surroundings<'_>) -> Vec<Found> {
    match node.kind() {
        "module" => around.named(node, "name", Kind::Module),
        "class" => around.named(node, "name", Kind::Class),
        "method" => around.named(node, "name", Kind::Method),
        "singleton_method" => around.called(of_one(node, around), Kind::Method),
        "assignment" if around.inside != Inside::Function => constant(node, around),
        _ => Vec::new(),
    }
}

/// `self.name`, or with whatever else has this method.
fn of_one(node: Node<'_>, around: &Surroundings<'_>) -> String {
    let text = |field| node.child_by_field_name(field).map(|it| around.text(it));
    let object = text("object").unwrap_or_default();
    text("name").map_or(String::new(), |name| format!("{object}.{name}"))
}

fn constant(node: Node<'_>, around: &Surroundings<'_>) -> Vec<Found> {
    match node.child_by_field_name("left") {
        Some(left) if left.kind() == "constant" => around.called(around.text(left), Kind::Constant),
        _ => Vec::new(),
    }
}
