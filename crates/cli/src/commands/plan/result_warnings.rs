//! Warnings about a plan's result, printed before the user accepts it.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::sandbox::SandboxRecord;

use crate::bootstrap::AppContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel};

/// Returns one warning for each known secret in the plan's result.
pub(crate) fn result_secret_warnings(
    app: &AppContext<'_>,
    id: PlanId,
) -> Result<Vec<String>, CommandFailure> {
    app.block_on(app.app().result_secret_warnings(id))
}

/// Returns the warnings from the creation of the plan's sandboxes.
pub(crate) fn sandbox_warnings(sandboxes: &[SandboxRecord]) -> Vec<String> {
    let warnings = |sandbox: &SandboxRecord| {
        let name = sandbox.resource_name.clone();
        let warnings = sandbox.warnings.clone().into_iter();
        warnings.map(move |warning| format!("{name}: {warning}"))
    };
    sandboxes.iter().flat_map(warnings).collect()
}

pub(crate) fn with_warnings(
    answer: CommandAnswer,
    warnings: impl IntoIterator<Item = String>,
) -> CommandAnswer {
    let add = |answer: CommandAnswer, text| answer.with_message(MessageLevel::Warn, text);
    warnings.into_iter().fold(answer, add)
}
