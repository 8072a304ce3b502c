//! Reads validation files.

use cleveragents_domain::validation::{TIMEOUT_DEFAULT, TIMEOUT_MAXIMUM, WrappedTool};
use cleveragents_domain::{Validation, ValidationSource};
use serde_json::{Map, Value, json};

use super::conversion::DefinitionConversion;
use super::error::{DefinitionErrors, Problems};
use super::interpolation::{self, TemplateNames};
use super::record::{FromYaml, JsonTree, record};
use super::version::parse_versioned;
use super::yaml::{DefinitionSource, DefinitionVariables};

record! {
    /// A check of a plan's result: a command or a tool whose output decides whether it passed.
    #[schemars(
        title = "CleverAgents validation",
        extend("examples" = [example_of_a_command(), example_of_a_tool()])
    )]
    ValidationFile refusing [
        ("code", "write a command as `run`, or name a tool in `wraps`"),
        ("source", "write a command as `run`, or name a tool in `wraps`"),
        ("read_only", "a validation always only reads"),
        ("writes", "a validation always only reads"),
    ] {
        /// The version of this format; 1 if left out.
        #[schemars(range(min = 1, max = 1))]
        version: Option<u64> = "version",
        /// The validation's name, `[[server:]namespace/]name`; without a namespace it is in `local/`.
        #[schemars(length(min = 1))]
        name: String = "name",
        /// The property that it checks.
        #[schemars(length(min = 1))]
        description: String = "description",
        /// `required` blocks Apply of a plan that does not pass; `informational` only reports.
        #[schemars(extend("enum" = ["required", "informational"]))]
        mode: String = "mode",
        /// A command for `sh -c`, run in the sandbox; a template of `args`. It passes by exiting with 0, unless its last line is a JSON object with a boolean `passed`.
        #[schemars(length(min = 1))]
        run: Option<String> = "run",
        /// The tool whose output is judged, instead of `run`.
        #[schemars(length(min = 1))]
        wraps: Option<String> = "wraps",
        /// The input of the tool; strings are templates of `args`.
        input: Option<JsonTree> = "input",
        /// An expression over `output` that gives true, false, or an object with `passed`.
        #[schemars(length(min = 1))]
        transform: Option<String> = "transform",
        /// The longest it may take, in seconds; 300 if left out.
        #[schemars(range(min = 1, max = TIMEOUT_MAXIMUM))]
        timeout: Option<u64> = "timeout",
    }
}

/// Reads the validation in `source`, or returns every problem found.
pub fn read_validation(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
) -> Result<Validation, DefinitionErrors> {
    let mut problems = Problems::default();
    let validation = read(source, variables, &mut problems);
    problems.into_result(source.name, validation)
}

fn read(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
    problems: &mut Problems,
) -> Option<Validation> {
    let node = parse_versioned(source, variables, "a validation", problems)?;
    let file = ValidationFile::read(&node, "", problems)?;
    let mut conversion = DefinitionConversion {
        node: &node,
        problems,
    };
    let validation = convert_validation(&mut conversion, file)?;
    check_validation(&mut conversion, &validation);
    Some(validation)
}

fn convert_validation(
    conversion: &mut DefinitionConversion<'_>,
    file: ValidationFile,
) -> Option<Validation> {
    let name = conversion.parse("name", &file.name);
    let mode = conversion.parse("mode", &file.mode);
    let timeout = file.timeout.unwrap_or(TIMEOUT_DEFAULT);
    let description = file.description.clone();
    let source = convert_source(conversion, file);
    Some(Validation {
        name: name?,
        description,
        mode: mode?,
        source: source?,
        timeout,
    })
}

fn convert_source(
    conversion: &mut DefinitionConversion<'_>,
    file: ValidationFile,
) -> Option<ValidationSource> {
    let wrapped = match (file.run, file.wraps) {
        (Some(command), None) => {
            let unwanted = [
                ("input", file.input.is_some()),
                ("transform", file.transform.is_some()),
            ];
            for (key, _) in unwanted.into_iter().filter(|(_, given)| *given) {
                conversion.problem(key, format!("`{key}` goes with `wraps`, not with `run`"));
            }
            return Some(ValidationSource::Run(command));
        }
        (Some(_), Some(_)) => {
            conversion.problem(
                "wraps",
                "a validation has either `run` or `wraps`, not both",
            );
            return None;
        }
        (None, None) => {
            let what = "a validation needs `run`, a command, or `wraps`, the name of a tool";
            conversion.problem("", what);
            return None;
        }
        (None, Some(tool)) => tool,
    };
    let tool = conversion.parse("wraps", &wrapped);
    if file.transform.is_none() {
        let what = "the key `transform` is missing: it defines how the output of the tool is \
                    judged, such as `output.exit_code == 0`";
        conversion.problem("wraps", what);
    }
    Some(ValidationSource::Wraps(WrappedTool {
        tool: tool?,
        input: Value::Object(file.input.map_or_else(Map::new, |tree| tree.0)),
        transform: file.transform?,
    }))
}

fn check_validation(conversion: &mut DefinitionConversion<'_>, validation: &Validation) {
    for error in validation.problems() {
        conversion.problem(error.field(), error.to_string());
    }
    let arguments = TemplateNames {
        roots: &["args"],
        ..TemplateNames::default()
    };
    let mut found = Vec::new();
    match &validation.source {
        ValidationSource::Run(command) => {
            found.extend(interpolation::check_text("run", command, &arguments).err());
        }
        ValidationSource::Wraps(wrapped) => {
            found = interpolation::check("input", &wrapped.input, &arguments);
            let output = TemplateNames {
                roots: &["output", "args"],
                ..TemplateNames::default()
            };
            let judged = interpolation::check_expression("transform", &wrapped.transform, &output);
            found.extend(judged.err());
        }
    }
    for error in found {
        conversion.fill_problem(&error);
    }
}

fn example_of_a_command() -> Value {
    json!({
        "version": 1,
        "name": "local/tests",
        "description": "The tests pass",
        "mode": "required",
        "run": "cargo test --package {{ args.package }}",
        "timeout": 900,
    })
}

fn example_of_a_tool() -> Value {
    json!({
        "name": "local/no-todo",
        "description": "Nothing is left to do",
        "mode": "informational",
        "wraps": "builtin/file-search",
        "input": {"pattern": "TODO", "glob": "*.rs"},
        "transform": "{'passed': output.matches | length == 0, 'data': output.matches}",
    })
}

#[cfg(test)]
mod tests;
