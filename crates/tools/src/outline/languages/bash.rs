//! Bash, and shells like it.

use tree_sitter::Node;

use crate::outline::symbols::{Found, Kind, Surroundings};

pub(crate) fn symbols(node: Node<'_>, around: &Surroundings<'_>) -> Vec<Found> {
    match node.kind() {
        "function_definition" => around.named(node, "name", Kind::Function),
        _ => Vec::new(),
    }
}
