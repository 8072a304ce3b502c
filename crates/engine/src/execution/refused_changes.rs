//! Changes that cannot be part of a result: files with a git filter, paths inside submodules, names
//! or a `.gitmodules` that git refuses, unreadable files, and folders nested too deep.
//!
//! Each is undone right after the call that made it, and the call fails with the path. A model may
//! finish anyway, so the end of Execute lists the changes again as a required validation that
//! fails. The plan is constrained until the user has seen the list; running it again continues
//! without them.

use std::collections::BTreeSet;

use cleveragents_domain::id::AttachmentId;
use cleveragents_domain::tool_call::{ToolCallRecord, ToolCallState};
use cleveragents_domain::validation::AttachmentScopeKind;
use cleveragents_domain::{
    NamespacedName, Plan, ResourcePath, ValidationMode, ValidationResult, ValidationSummary,
};
use serde_json::{Value, json};

use super::call_index::{CallEntry, load_calls};
use super::error::Result;
use super::plan_run::PlanRun;
use super::validate::newest_summary;
use super::workspace::{SandboxHandle, Workspace};
use cleveragents_ports::sandbox::{Capture, OmissionReason, OmittedPath};
use cleveragents_ports::{StoreError, StoreHandle};

/// The name of the list among the validations.
const REFUSALS_VALIDATION: &str = "builtin/recorded-changes";

/// Key of the refused paths in the output of a failed call.
pub(super) const REFUSED_KEY: &str = "refused";

/// Key of the number of the last listed call.
const LAST_CALL_KEY: &str = "last_call";

/// Returns the changes of a call that cannot be recorded.
pub(super) fn find_refused(capture: &Capture) -> Vec<OmittedPath> {
    let is_refused = |it: &&OmittedPath| it.why.refusal_message(&[]).is_some();
    capture.omitted.iter().filter(is_refused).cloned().collect()
}

/// Returns the error message for the actor that made the call.
pub(super) fn refusal_text(refused: &[OmittedPath]) -> String {
    let whys: BTreeSet<OmissionReason> = refused.iter().map(|it| it.why).collect();
    let of = |why: OmissionReason| {
        let paths = refused.iter().filter(|it| it.why == why);
        let paths: Vec<ResourcePath> = paths.map(|it| it.path.clone()).collect();
        why.refusal_message(&paths)
    };
    let mut sentences: Vec<String> = whys.into_iter().filter_map(of).collect();
    sentences.push("These paths are as they were before; all other changes are kept".to_owned());
    sentences.join(" ")
}

/// Returns the lists of refused changes from the newest stored validation round, one per sandbox.
pub(crate) async fn listed_refusals(
    store: &StoreHandle,
    plan: &Plan,
) -> Result<Vec<ValidationResult>> {
    let Some(summary) = newest_summary(store, plan).await? else {
        return Ok(Vec::new());
    };
    let is_list = |it: &ValidationResult| it.validation.to_string() == REFUSALS_VALIDATION;
    Ok(summary.results.into_iter().filter(is_list).collect())
}

/// Returns one result per sandbox with refused changes. It fails if there are refused changes newer
/// than the ones in `listed`.
pub(super) async fn list_refusals(
    run: &PlanRun,
    workspace: &Workspace,
    round: u32,
    listed: &[ValidationResult],
) -> Result<Vec<ValidationResult>> {
    let mut results = Vec::new();
    for handle in &workspace.sandboxes {
        let before = listed
            .iter()
            .find(|it| it.attachment_resource == handle.resource);
        let data = before.and_then(|it| it.data.as_ref());
        let last_listed = data
            .and_then(|it| it.get(LAST_CALL_KEY)?.as_i64())
            .unwrap_or(0);
        // Only a failed call can have refused changes.
        let is_new = |it: &CallEntry| {
            it.number > last_listed
                && it.attempt == run.plan.attempt
                && it.sandbox_id == handle.id
                && it.state == ToolCallState::Errored
                && it.is_valid()
        };
        let failed = run.calls.select(is_new);
        let failed = load_calls(&run.services.store, &failed).await?;
        let (last, paths) = refused_paths(&failed);
        if paths.is_empty() && before.is_none() {
            continue;
        }
        let message = (!paths.is_empty()).then(|| refusals_text(&paths));
        let data = json!({ "paths": paths, LAST_CALL_KEY: last.max(last_listed) });
        results.push(refusals_result(run, handle, round, message, data)?);
    }
    Ok(results)
}

fn refusals_result(
    run: &PlanRun,
    handle: &SandboxHandle,
    round: u32,
    message: Option<String>,
    data: Value,
) -> Result<ValidationResult> {
    let validation: NamespacedName = REFUSALS_VALIDATION.parse().map_err(StoreError::internal)?;
    Ok(ValidationResult {
        validation,
        mode: ValidationMode::Required,
        passed: message.is_none(),
        message,
        data: Some(data),
        duration_ms: 0,
        attempt: round,
        attachment_id: AttachmentId::new(run.services.ids.next()),
        attachment_resource: handle.resource.clone(),
        attachment_scope: AttachmentScopeKind::Plan,
        attachment_scope_target: Some(run.id().to_string()),
    })
}

/// Returns the number of the last of these calls with refused changes, and the paths of all such
/// calls.
fn refused_paths(calls: &[ToolCallRecord]) -> (i64, BTreeSet<String>) {
    let (mut last, mut paths) = (0, BTreeSet::new());
    for call in calls {
        let refused = call
            .output
            .as_ref()
            .and_then(|it| it.get(REFUSED_KEY)?.as_array());
        for path in refused.into_iter().flatten().filter_map(Value::as_str) {
            last = call.number;
            paths.insert(path.to_owned());
        }
    }
    (last, paths)
}

fn refusals_text(paths: &BTreeSet<String>) -> String {
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    format!(
        "changes of {} are not in the result: they were refused when they were made, for a git \
         filter, a submodule, a name or an address that git refuses, permissions, or folders too \
         deep. `agents plan execute` continues without them; to change a filtered file, allow its \
         filter (`agents config set sandbox.allow-filters NAME`) and roll the plan back",
        paths.join(", ")
    )
}

/// Whether the list of refused changes is the only required validation that fails.
pub(super) fn only_refusals_fail(summary: &ValidationSummary) -> bool {
    let fails = |it: &&ValidationResult| !it.passed && it.mode == ValidationMode::Required;
    let is_list = |it: &ValidationResult| it.validation.to_string() == REFUSALS_VALIDATION;
    summary.results.iter().filter(fails).all(is_list)
}
