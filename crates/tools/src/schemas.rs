//! Validates inputs and outputs against their JSON schemas and reports all mismatches at once.

use cleveragents_domain::tool::ToolDefinition;
use cleveragents_ports::tools::{ToolFailure, ToolOutput};
use jsonschema::error::{ValidationError, ValidationErrorKind};
use jsonschema::{Draft, Validator};
use serde_json::Value;

/// Maximum number of mismatches reported.
const MAX_ERRORS: usize = 20;

/// Maximum characters of one mismatch, because the library repeats the value that does not match.
const MAX_ERROR_TEXT: usize = 300;

/// The compiled schemas of one tool.
#[derive(Debug)]
pub struct Schemas {
    input: Validator,
    output: Validator,
}

/// A tool's definition contains an invalid JSON schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {which} schema of {tool} cannot be used: {reason}")]
pub struct SchemaError {
    pub tool: String,
    pub which: &'static str,
    pub reason: String,
}

impl Schemas {
    /// Compiles both schemas. Nothing is ever fetched: a reference to another document is an error.
    pub fn compile(definition: &ToolDefinition) -> Result<Self, SchemaError> {
        let compile = |schema: &Value, which| {
            let options = jsonschema::options().with_draft(Draft::Draft202012);
            options.build(schema).map_err(|error| SchemaError {
                tool: definition.name.to_string(),
                which,
                reason: error.to_string(),
            })
        };
        Ok(Self {
            input: compile(&definition.input_schema, "input")?,
            output: compile(&definition.output_schema, "output")?,
        })
    }

    pub fn check_input(&self, input: &Value) -> Result<(), ToolFailure> {
        match describe_errors(&self.input, input) {
            None => Ok(()),
            Some(problems) => Err(ToolFailure::Input {
                reason: format!("the input does not match its schema: {problems}"),
            }),
        }
    }

    pub fn check_output(&self, output: &ToolOutput) -> Result<(), ToolFailure> {
        match describe_errors(&self.output, &output.data) {
            None => Ok(()),
            Some(problems) => Err(ToolFailure::Failed {
                reason: format!("the output does not match its schema: {problems}"),
                touched: output.touched.clone(),
            }),
        }
    }
}

fn describe_errors(schema: &Validator, value: &Value) -> Option<String> {
    if schema.is_valid(value) {
        return None;
    }
    let mut problems: Vec<String> = schema
        .iter_errors(value)
        .map(|it| describe_error(&it))
        .collect();
    let more = problems.len().saturating_sub(MAX_ERRORS);
    problems.truncate(MAX_ERRORS);
    if more > 0 {
        problems.push(format!("and {more} more"));
    }
    Some(problems.join("; "))
}

fn describe_error(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    let what = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names: Vec<String> = unexpected.iter().map(|name| format!("`{name}`")).collect();
            format!("{} is not expected", names.join(", "))
        }
        ValidationErrorKind::Required { property } => {
            format!("`{}` is missing", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::Type { .. } => {
            // Leave out the value: it may be long, and the caller has it.
            let text = error.to_string();
            let expected = text.rsplit(" is not of type").next().unwrap_or(&text);
            let expected = expected.trim_start_matches('s').trim().replace('"', "");
            format!("expected {expected}, found {}", json_type(error.instance()))
        }
        _ => error.to_string(),
    };
    let what = match what.char_indices().nth(MAX_ERROR_TEXT) {
        Some((at, _)) => format!("{}…", &what[..at]),
        None => what,
    };
    if path.is_empty() {
        what
    } else {
        format!("at {path}: {what}")
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::tool::Capability;
    use cleveragents_ports::sandbox::TouchedPaths;
    use serde_json::json;

    use super::*;

    fn definition(input: Value) -> ToolDefinition {
        ToolDefinition {
            name: "local/tool".parse().unwrap(),
            description: String::new(),
            input_schema: input,
            output_schema: json!({"type": "object", "required": ["done"]}),
            capability: Capability::read_only(),
            timeout_seconds: 1,
        }
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1},
                "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            },
            "required": ["path"],
            "additionalProperties": false,
        })
    }

    fn input_error(input: &Value) -> String {
        let schemas = Schemas::compile(&definition(schema())).unwrap();
        match schemas.check_input(input) {
            Err(ToolFailure::Input { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_mismatch_is_reported_with_its_path() {
        let reason = input_error(&json!({"lines": [1, 0, "x"], "pth": "a"}));
        for part in [
            "`path` is missing",
            "`pth` is not expected",
            "at /lines/1: 0 is less than the minimum of 1",
            "at /lines/2: expected integer, found string",
        ] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
        let reason = input_error(&json!(null));
        assert!(reason.ends_with("expected object, found null"), "{reason}");
        let reason = input_error(&json!({"path": ""}));
        assert!(reason.contains("at /path: "), "{reason}");
    }

    #[test]
    fn error_messages_are_bounded() {
        let long = "x".repeat(100_000);
        let many: Vec<Value> = (0..1000).map(|_| json!(long)).collect();
        let reason = input_error(&json!({"path": "a", "lines": many}));
        assert!(reason.len() < 10_000, "{}", reason.len());
        assert!(reason.contains("and 980 more"), "{reason}");
    }

    #[test]
    fn matching_values_are_accepted() {
        let schemas = Schemas::compile(&definition(schema())).unwrap();
        assert!(schemas.check_input(&json!({"path": "a"})).is_ok());
        let output = |data| ToolOutput {
            data,
            touched: TouchedPaths::Unknown,
        };
        assert!(schemas.check_output(&output(json!({"done": 1}))).is_ok());
        let failure = schemas.check_output(&output(json!({})));
        let touched = TouchedPaths::Unknown;
        assert!(
            matches!(&failure, Err(ToolFailure::Failed { touched: found, .. }) if *found == touched),
            "{failure:?}"
        );
    }

    #[test]
    fn invalid_schemas_and_external_references_are_refused() {
        for schema in [
            json!({"type": "nonsense"}),
            json!({"$ref": "https://localhost/schema.json"}),
            json!({"$ref": "file:///etc/passwd"}),
        ] {
            let error = Schemas::compile(&definition(schema.clone())).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with("the input schema of local/tool")
            );
        }
    }
}
