//! Problems of a definition, with their positions.

use std::fmt;

/// Maximum number of problems shown per file; the rest is counted.
const SHOWN_MAXIMUM: usize = 20;

/// A position in a source; lines and columns start at 1, columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourcePosition {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl SourcePosition {
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

/// One problem of a definition, displayed as `FILE:LINE:COLUMN: what (hint)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionError {
    /// The name of the source, as given by the caller.
    pub source: String,
    pub line: usize,
    pub column: usize,
    /// The path in the document, such as `arguments[2].type`; empty for the document itself.
    pub path: String,
    pub message: String,
    pub hint: Option<String>,
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            line,
            column,
            message: what,
            hint,
            ..
        } = self;
        write!(f, "{source}:{line}:{column}: {what}")?;
        match hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for DefinitionError {}

/// Every problem found in one definition, in the order of the file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionErrors(Vec<DefinitionError>);

impl DefinitionErrors {
    pub fn as_slice(&self) -> &[DefinitionError] {
        &self.0
    }
}

impl fmt::Display for DefinitionErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().take(SHOWN_MAXIMUM).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            error.fmt(f)?;
        }
        match self.0.len().saturating_sub(SHOWN_MAXIMUM) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for DefinitionErrors {}

/// A problem without the name of its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) position: SourcePosition,
    pub(super) path: String,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Problem {
    pub(super) fn new(position: SourcePosition, path: &str, what: impl Into<String>) -> Self {
        Self {
            position,
            path: path.to_owned(),
            message: what.into(),
            hint: None,
        }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// The problems found so far. Reading continues after a problem, so that the user sees all of them
/// at once.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn add(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    pub(super) fn add_all(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `value`, or the problems. A missing value always has a problem recorded.
    pub(super) fn into_result<T>(
        self,
        source: &str,
        value: Option<T>,
    ) -> Result<T, DefinitionErrors> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self.into_errors(source)),
        }
    }

    fn into_errors(mut self, source: &str) -> DefinitionErrors {
        // The sort is stable: problems at one position stay in the order in which they were found.
        self.0.sort_by_key(|problem| problem.position);
        let name = |problem: Problem| DefinitionError {
            source: source.to_owned(),
            line: problem.position.line,
            column: problem.position.column,
            path: problem.path,
            message: problem.message,
            hint: problem.hint,
        };
        DefinitionErrors(self.0.into_iter().map(name).collect())
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: usize, what: &str) -> Problem {
        Problem::new(SourcePosition { line, column: 3 }, "a.b", what)
    }

    #[test]
    fn a_problem_shows_its_position_and_hint() {
        let mut problems = Problems::default();
        problems.add(problem(7, "later"));
        problems.add(problem(2, "sooner").hint("do this"));
        let errors = problems.into_result("x.yaml", Some(())).unwrap_err();
        assert_eq!(
            errors.to_string(),
            "x.yaml:2:3: sooner (do this)\nx.yaml:7:3: later"
        );
        assert_eq!(errors.as_slice()[0].path, "a.b");
    }

    #[test]
    fn many_problems_are_counted_not_shown() {
        let mut problems = Problems::default();
        for line in 0..10_000 {
            problems.add(problem(line, "wrong"));
        }
        let shown = problems
            .into_result::<()>("x.yaml", None)
            .unwrap_err()
            .to_string();
        assert_eq!(shown.lines().count(), SHOWN_MAXIMUM + 1);
        assert!(shown.ends_with("and 9980 more"), "{shown}");
    }

    #[test]
    fn without_a_problem_there_is_a_value() {
        assert_eq!(Problems::default().into_result("x.yaml", Some(1)), Ok(1));
    }
}
