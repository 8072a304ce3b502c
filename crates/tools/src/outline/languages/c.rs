//! C and C++; the C++ grammar contains all of C.

use tree_sitter::Node;

use crate::outline::symbols::{NamedSymbol, NodeContext, SymbolKind, SymbolScope};

pub(crate) fn symbols(node: Node<'_>, context: &NodeContext<'_>) -> Vec<NamedSymbol> {
    match node.kind() {
        "function_definition" => declared_symbols(node, context, DeclarationFilter::Functions),
        "declaration" if context.scope != SymbolScope::Function => {
            declared_symbols(node, context, DeclarationFilter::Everything)
        }
        "field_declaration" => declared_symbols(node, context, DeclarationFilter::Functions),
        "type_definition" => typedef_symbols(node, context),
        "class_specifier" => defined_type(node, context, SymbolKind::Class),
        "struct_specifier" => defined_type(node, context, SymbolKind::Struct),
        "union_specifier" => defined_type(node, context, SymbolKind::Union),
        "enum_specifier" => defined_type(node, context, SymbolKind::Enum),
        "namespace_definition" => context.symbols_from_field(node, "name", SymbolKind::Module),
        "alias_declaration" | "concept_definition" => {
            context.symbols_from_field(node, "name", SymbolKind::Type)
        }
        "preproc_function_def" => context.symbols_from_field(node, "name", SymbolKind::Macro),
        "preproc_def" if node.child_by_field_name("value").is_some() => {
            context.symbols_from_field(node, "name", SymbolKind::Constant)
        }
        _ => Vec::new(),
    }
}

/// Which declarations are symbols.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeclarationFilter {
    Functions,
    Everything,
}

enum DeclaredName {
    Function(String),
    Other(String),
}

/// A type with a body. Without a body it is only a reference.
fn defined_type(node: Node<'_>, context: &NodeContext<'_>, kind: SymbolKind) -> Vec<NamedSymbol> {
    match node.child_by_field_name("body") {
        Some(_) => context.symbols_from_field(node, "name", kind),
        None => Vec::new(),
    }
}

fn declared_symbols(
    node: Node<'_>,
    context: &NodeContext<'_>,
    filter: DeclarationFilter,
) -> Vec<NamedSymbol> {
    let mut cursor = node.walk();
    let declarators = node.children_by_field_name("declarator", &mut cursor);
    let symbols = declarators.flat_map(|declarator| match declared_name(declarator, context) {
        DeclaredName::Function(name) => context.symbol_named(name, context.function_kind()),
        DeclaredName::Other(name) if filter == DeclarationFilter::Everything => {
            context.symbol_named(name, SymbolKind::Variable)
        }
        DeclaredName::Other(_) => Vec::new(),
    });
    symbols.collect()
}

/// The names that a `typedef` defines. A struct without a name gets this one.
fn typedef_symbols(node: Node<'_>, context: &NodeContext<'_>) -> Vec<NamedSymbol> {
    let of = node.child_by_field_name("type");
    let nameless = of.filter(|it| it.child_by_field_name("name").is_none());
    let kind = match nameless.map(|it| it.kind()) {
        Some("struct_specifier") => SymbolKind::Struct,
        Some("union_specifier") => SymbolKind::Union,
        Some("enum_specifier") => SymbolKind::Enum,
        _ => SymbolKind::Type,
    };
    let mut cursor = node.walk();
    let declarators = node.children_by_field_name("declarator", &mut cursor);
    let symbols = declarators.flat_map(|declarator| match declared_name(declarator, context) {
        DeclaredName::Function(name) | DeclaredName::Other(name) => {
            context.symbol_named(name, kind)
        }
    });
    symbols.collect()
}

/// Strips pointers, references, arrays and parentheses from a declarator. It declares a function if
/// parameters follow the name itself, not a pointer in parentheses.
fn declared_name(declarator: Node<'_>, context: &NodeContext<'_>) -> DeclaredName {
    let mut node = declarator;
    let mut parent_kind = "";
    loop {
        if node.kind() == "operator_cast" {
            let to = node.child_by_field_name("type").map(|it| context.text(it));
            return DeclaredName::Function(format!("operator {}", to.unwrap_or_default()));
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
        parent_kind = node.kind();
        node = inner;
    }
    let name = context.text(node);
    match parent_kind {
        "function_declarator" => DeclaredName::Function(name),
        _ => DeclaredName::Other(name),
    }
}
