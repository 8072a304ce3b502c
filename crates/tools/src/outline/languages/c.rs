//! C and C++, whose grammar has all of the other and more.

use tree_sitter::Node;

use crate::outline::symbols::{Found, Inside, Kind, Surroundings};

pub(crate) fn symbols(node: Node<'_>, around: &Surroundings<'_>) -> Vec<Found> {
    match node.kind() {
        "function_definition" => declared(node, around, Wanted::Functions),
        "declaration" if around.inside != Inside::Function => {
            declared(node, around, Wanted::Everything)
        }
        "field_declaration" => declared(node, around, Wanted::Functions),
        "type_definition" => types(node, around),
        "class_specifier" => defined(node, around, Kind::Class),
        "struct_specifier" => defined(node, around, Kind::Struct),
        "union_specifier" => defined(node, around, Kind::Union),
        "enum_specifier" => defined(node, around, Kind::Enum),
        "namespace_definition" => around.named(node, "name", Kind::Module),
        "alias_declaration" | "concept_definition" => around.named(node, "name", Kind::Type),
        "preproc_function_def" => around.named(node, "name", Kind::Macro),
        "preproc_def" if node.child_by_field_name("value").is_some() => {
            around.named(node, "name", Kind::Constant)
        }
        _ => Vec::new(),
    }
}

/// What of a declaration is a symbol.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Functions,
    Everything,
}

/// What a declarator declares.
enum Declared {
    Function(String),
    Other(String),
}

/// A type with a body; without one it is only mentioned.
fn defined(node: Node<'_>, around: &Surroundings<'_>, kind: Kind) -> Vec<Found> {
    match node.child_by_field_name("body") {
        Some(_) => around.named(node, "name", kind),
        None => Vec::new(),
    }
}

fn declared(node: Node<'_>, around: &Surroundings<'_>, wanted: Wanted) -> Vec<Found> {
    let mut cursor = node.walk();
    let declarators = node.children_by_field_name("declarator", &mut cursor);
    let symbols = declarators.flat_map(|declarator| match innermost(declarator, around) {
        Declared::Function(name) => around.called(name, around.function()),
        Declared::Other(name) if wanted == Wanted::Everything => {
            around.called(name, Kind::Variable)
        }
        Declared::Other(_) => Vec::new(),
    });
    symbols.collect()
}

/// The names a `typedef` gives; a struct without a name of its own has this one.
fn types(node: Node<'_>, around: &Surroundings<'_>) -> Vec<Found> {
    let of = node.child_by_field_name("type");
    let nameless = of.filter(|it| it.child_by_field_name("name").is_none());
    let kind = match nameless.map(|it| it.kind()) {
        Some("struct_specifier") => Kind::Struct,
        Some("union_specifier") => Kind::Union,
        Some("enum_specifier") => Kind::Enum,
        _ => Kind::Type,
    };
    let mut cursor = node.walk();
    let declarators = node.children_by_field_name("declarator", &mut cursor);
    let symbols = declarators.flat_map(|declarator| match innermost(declarator, around) {
        Declared::Function(name) | Declared::Other(name) => around.called(name, kind),
    });
    symbols.collect()
}

/// Peels pointers, references, arrays and parentheses off a declarator. It is a function's if
/// parameters follow the name itself, not a pointer in parentheses.
fn innermost(declarator: Node<'_>, around: &Surroundings<'_>) -> Declared {
    let mut node = declarator;
    let mut around_it = "";
    loop {
        if node.kind() == "operator_cast" {
            let to = node.child_by_field_name("type").map(|it| around.text(it));
            return Declared::Function(format!("operator {}", to.unwrap_or_default()));
        }
        let inner = match node.kind() {
            "reference_declarator" | "parenthesized_declarator" | "attributed_declarator" => {
                node.named_child(0)
            }
            _ => node.child_by_field_name("declarator"),
        };
        let Some(inner) = inner else {
            break;
        };
        around_it = node.kind();
        node = inner;
    }
    let name = around.text(node);
    match around_it {
        "function_declarator" => Declared::Function(name),
        _ => Declared::Other(name),
    }
}
