//! Converts the problems of a definition into a failure that lists them.

use cleveragents_definitions::DefinitionErrors;
use serde_json::json;

use super::RequestError;

/// Lists every problem in the file with its position.
impl From<DefinitionErrors> for RequestError {
    fn from(errors: DefinitionErrors) -> Self {
        let found = errors.as_slice();
        let source = found.first().map_or("", |one| one.source.as_str());
        let what = match found.len() {
            1 => format!("{source} has a problem"),
            number => format!("{source} has {number} problems"),
        };
        let problems: Vec<_> = found
            .iter()
            .map(|one| {
                json!({
                    "file": one.source,
                    "line": one.line,
                    "column": one.column,
                    "path": one.path,
                    "message": one.message,
                    "hint": one.hint,
                })
            })
            .collect();
        // The message is shortened for people; JSON lists every problem.
        let shown = errors.to_string();
        let failure = RequestError::usage(what).kind("definition");
        shown
            .lines()
            .fold(failure, RequestError::because)
            .with("problems", problems.into())
    }
}
