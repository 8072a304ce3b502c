//! The error type of handlers, and the conversion of every other error to it.
//!
//! The crates below know nothing of exit classes and next steps; each subject has a file here that
//! chooses them.

pub(crate) mod conflicts;
mod definitions;
mod execution;
mod lifecycle;
mod projects;
mod registries;
mod store;
mod trust;

use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use cleveragents_api::{ExitClass, Failure, FailureFacts, FailureKind, NextStep};
use cleveragents_domain::Plan;
use cleveragents_domain::id::PlanId;

pub use conflicts::apply_conflict_failure;
pub use execution::interrupted_failure;
pub(crate) use execution::interrupted_request_failure;
pub use lifecycle::no_model_failure;
pub use registries::{name_taken_failure, unknown_name_failure};
pub use trust::not_trusted_failure;

/// Error of a handler: a [`Failure`] that every error of the product converts to.
#[derive(Debug, Clone)]
pub struct RequestError(Box<Failure>);

impl RequestError {
    pub fn new(exit: ExitClass, what: impl Into<String>) -> Self {
        Self(Box::new(Failure {
            kind: exit.kind(),
            message: what.into(),
            causes: Vec::new(),
            next_steps: Vec::new(),
            exit,
            facts: Box::default(),
        }))
    }

    /// Returns a failure for invalid arguments or definitions.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(ExitClass::Usage, what)
    }

    #[must_use]
    pub fn kind(mut self, kind: FailureKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.0.causes.push(cause.into());
        self
    }

    /// Adds an error and its chain of sources as causes.
    #[must_use]
    pub fn caused_by(mut self, error: &dyn Error) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            self.0.causes.push(error.to_string());
            next = error.source();
        }
        self
    }

    #[must_use]
    pub fn hint(mut self, step: impl Into<NextStep>) -> Self {
        self.0.next_steps.push(step.into());
        self
    }

    #[must_use]
    pub(crate) fn hints(mut self, steps: impl IntoIterator<Item = NextStep>) -> Self {
        self.0.next_steps.extend(steps);
        self
    }

    /// Sets facts.
    #[must_use]
    pub fn with_facts(mut self, set: impl FnOnce(&mut FailureFacts)) -> Self {
        set(&mut self.0.facts);
        self
    }

    /// Sets the plan that the failure is about.
    #[must_use]
    pub fn with_plan_id(self, plan: PlanId) -> Self {
        self.with_facts(|facts| facts.plan_id = Some(plan))
    }

    /// Sets the plan that the failure is about, with its phase and state.
    #[must_use]
    pub(crate) fn with_plan(self, plan: &Plan) -> Self {
        self.with_facts(|facts| {
            facts.plan_id = Some(plan.identity.plan_id);
            facts.phase = Some(plan.position.phase());
            facts.state = Some(plan.position.state());
        })
    }

    /// Sets the names, ids or paths that the user may have meant.
    #[must_use]
    pub(crate) fn with_candidates(self, candidates: Vec<String>) -> Self {
        self.with_facts(|facts| facts.candidates = Some(candidates))
    }
}

impl Deref for RequestError {
    type Target = Failure;

    fn deref(&self) -> &Failure {
        &self.0
    }
}

impl DerefMut for RequestError {
    fn deref_mut(&mut self) -> &mut Failure {
        &mut self.0
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self(Box::new(failure))
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        *error.0
    }
}

/// Formats a path for messages; a very long one is truncated.
pub fn display_path(path: &Path) -> String {
    const MAXIMUM: usize = 500;
    shorten(&path.display().to_string(), MAXIMUM)
}

/// Truncates user input so that a message stays readable.
pub fn excerpt(text: &str) -> String {
    const MAXIMUM: usize = 60;
    shorten(text, MAXIMUM)
}

fn shorten(text: &str, maximum: usize) -> String {
    match text.char_indices().nth(maximum) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_chain_is_kept_in_order() {
        let inner = std::io::Error::other("disk on fire");
        let error = RequestError::new(ExitClass::Error, "cannot save").caused_by(&inner);
        assert_eq!(error.to_string(), "cannot save: disk on fire");
        assert_eq!(error.kind, FailureKind::Error);
    }

    #[test]
    fn excerpts_cut_between_characters() {
        let text = "ü".repeat(100);
        assert_eq!(excerpt(&text), format!("{}… (200 bytes)", "ü".repeat(60)));
        assert_eq!(excerpt("short"), "short");
    }
}
