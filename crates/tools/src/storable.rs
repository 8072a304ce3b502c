//! Rejects writes to files whose new content a plan cannot store, before anything is changed.

use cleveragents_domain::ResourcePath;
use cleveragents_ports::sandbox::OmissionReason;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation};

use crate::paths::TreePath;

/// Fails if git runs a filter on one of these paths that the user does not allow.
pub(crate) fn check_storable(
    call: &ToolInvocation<'_>,
    spots: &[&TreePath],
) -> Result<(), ToolFailure> {
    let paths: Vec<ResourcePath> = spots.iter().map(|spot| spot.path.clone()).collect();
    let paths = call.sandbox.filtered_paths(&paths)?;
    if paths.is_empty() {
        return Ok(());
    }
    let reason = OmissionReason::Filtered
        .refusal_message(&paths)
        .unwrap_or_default();
    Err(ToolFailure::Refused {
        reason: format!("{reason} Nothing was changed"),
        paths,
        output: None,
    })
}
