//! JSON Schemas of types that write their own JSON.

/// Implements `JsonSchema` for a type whose schema refers to no other:
/// `fixed_schema! { Name: {"type": "string"} }`.
macro_rules! fixed_schema {
    ($name:ident: $schema:tt) => {
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($name)).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}

pub(crate) use fixed_schema;
