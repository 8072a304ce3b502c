//! Warnings about a plan's result, for the user to see before they accept it.

use std::collections::BTreeSet;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{NamespacedName, ResourcePath};
use cleveragents_engine::execution::results::ResultDiff;
use cleveragents_engine::execution::{ResultsError, Selection};

use crate::failure::RequestError;
use crate::services::Services;

/// The maximum number of paths in a warning. The rest is counted.
const NAMED_MAXIMUM: usize = 5;

/// Returns one warning for each known secret that the plan wrote into a file.
pub(crate) async fn secret_warnings(
    services: &Services,
    diff: &ResultDiff,
) -> Result<Vec<String>, RequestError> {
    let secrets = services.secrets()?;
    if secrets.is_empty() {
        return Ok(Vec::new());
    }
    let found = services.results()?.secret_files(diff, &secrets).await?;
    let is_single = diff.resources.len() < 2;
    let shown = |(resource, path): &(NamespacedName, ResourcePath)| {
        if is_single {
            path.to_string()
        } else {
            format!("{path} of {resource}")
        }
    };
    let warning = |(name, files): (&String, &BTreeSet<_>)| {
        let named: Vec<String> = files.iter().take(NAMED_MAXIMUM).map(shown).collect();
        let more = match files.len().saturating_sub(NAMED_MAXIMUM) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("secret {name} is in {}{more}", named.join(", "))
    };
    Ok(found.iter().map(warning).collect())
}

/// Returns one warning for each known secret in a plan's whole result. A removed result gives no
/// warning: the request that needs it reports the removal.
pub(crate) async fn result_secret_warnings(
    services: &Services,
    id: PlanId,
) -> Result<Vec<String>, RequestError> {
    if services.secrets()?.is_empty() {
        return Ok(Vec::new());
    }
    match services.results()?.diff(id, Selection::default()).await {
        Ok(diff) => secret_warnings(services, &diff).await,
        Err(ResultsError::Removed { .. } | ResultsError::WrongNode { .. }) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
