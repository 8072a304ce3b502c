//! Warnings about a plan's result, printed before the user accepts it.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::{NamespacedName, ResourcePath};
use cleveragents_engine::execution::results::PlanDiff;
use cleveragents_engine::execution::{ResultsError, Selection};

use crate::bootstrap::AppContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel};

/// The maximum number of paths in a warning. The rest is counted.
const NAMED_MAXIMUM: usize = 5;

/// Returns one warning for each known secret that the plan wrote into a file.
pub(crate) fn secret_warnings(
    app: &AppContext<'_>,
    diff: &PlanDiff,
) -> Result<Vec<String>, CommandFailure> {
    let secrets = app.secrets()?;
    if secrets.is_empty() {
        return Ok(Vec::new());
    }
    let results = app.results()?;
    let found = app.block_on(results.secret_files(diff, &secrets))?;
    let is_single = diff.resources.len() < 2;
    let shown = |(resource, path): &(NamespacedName, ResourcePath)| {
        if is_single {
            path.to_string()
        } else {
            format!("{path} of {resource}")
        }
    };
    let warning = |(name, files): (&String, &std::collections::BTreeSet<_>)| {
        let named: Vec<String> = files.iter().take(NAMED_MAXIMUM).map(shown).collect();
        let more = match files.len().saturating_sub(NAMED_MAXIMUM) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("secret {name} is in {}{more}", named.join(", "))
    };
    Ok(found.iter().map(warning).collect())
}

/// Like [`secret_warnings`], for a plan's whole result. A removed result gives no warning: the
/// command that needs it reports the removal.
pub(crate) fn result_secret_warnings(
    app: &AppContext<'_>,
    id: PlanId,
) -> Result<Vec<String>, CommandFailure> {
    if app.secrets()?.is_empty() {
        return Ok(Vec::new());
    }
    let results = app.results()?;
    match app.block_on(results.diff(id, Selection::default())) {
        Ok(diff) => secret_warnings(app, &diff),
        Err(ResultsError::Removed { .. } | ResultsError::WrongNode { .. }) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
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
