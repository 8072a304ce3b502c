//! Converts the problems of a definition into a failure that lists them.

use cleveragents_api::FailureKind;
use cleveragents_api::failure_facts::DefinitionProblem;
use cleveragents_definitions::{DefinitionError, DefinitionErrors};

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
        let problems = found.iter().map(problem).collect();
        // The message is shortened for people; JSON lists every problem.
        let shown = errors.to_string();
        let failure = RequestError::usage(what).kind(FailureKind::Definition);
        shown
            .lines()
            .fold(failure, RequestError::because)
            .with_facts(|facts| facts.problems = Some(problems))
    }
}

fn problem(error: &DefinitionError) -> DefinitionProblem {
    DefinitionProblem {
        file: error.source.clone(),
        line: error.line,
        column: error.column,
        path: error.path.clone(),
        message: error.message.clone(),
        hint: error.hint.clone(),
    }
}
