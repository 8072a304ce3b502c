//! `plan.diff`

use cleveragents_api::plan::diff::{
    DiffFile, DiffResource, DiffSummary, FilePreview, HunkPreview, PlanDiffAnswer, RiskAssessment,
};
use cleveragents_api::plan::summary::project_names;
use cleveragents_api::plan::{PlanDiff, PlanStatus};
use cleveragents_api::{FailureKind, NextStep, Reply};
use cleveragents_domain::{NamespacedName, Phase, Plan, PlanState};
use cleveragents_engine::execution::patch::{FilePatch, PatchHunk, file_patches};
use cleveragents_engine::execution::results::{self, ResourceDiff};
use cleveragents_engine::execution::{ResultsError, Selection};
use cleveragents_ports::sandbox::DiffStat;

use crate::app::{App, Caller, Handler};
use crate::changes::{file_status, format_line_counts, sum_lines};
use crate::failure::RequestError;
use crate::next_steps::{apply_step, execute_step};
use crate::plan::find::find_plan;
use crate::plan::result_warnings::secret_warnings;
use crate::text::format_count;

/// Limits of the preview: files, hunks per file and lines per hunk.
const FILES: usize = 50;
const HUNKS: usize = 20;
const LINES: usize = 50;

impl Handler<PlanDiff> for App {
    async fn handle(
        &self,
        request: PlanDiff,
        _: &Caller,
    ) -> Result<Reply<PlanDiffAnswer>, RequestError> {
        let plan = find_plan(&self.services, &request.plan).await?;
        let selection = Selection {
            resource: request.resource,
            paths: request.files,
        };
        let results = self.services.results()?;
        let diff = results.diff(plan.identity.plan_id, selection).await?;
        let warnings = secret_warnings(&self.services, &diff).await?;
        let answer = answer(&diff)?;
        if request.patch {
            check_single_patch(&answer)?;
        }
        let steps = messages(&diff, Reply::new(answer));
        Ok(warnings.into_iter().fold(steps, Reply::warn))
    }
}

fn messages(diff: &results::ResultDiff, reply: Reply<PlanDiffAnswer>) -> Reply<PlanDiffAnswer> {
    let id = diff.plan.identity.plan_id;
    if reply.answer.files.is_empty() {
        return if diff.resources.is_empty() {
            reply
                .info("no changes yet: the plan has no sandbox")
                .hint(execute_step(id))
        } else {
            reply.info("no changes")
        };
    }
    next_step(&diff.plan).into_iter().fold(reply, Reply::hint)
}

/// Fails if several resources changed.
fn check_single_patch(answer: &PlanDiffAnswer) -> Result<(), RequestError> {
    let changed = answer.resources.iter().filter(|it| it.files_changed > 0);
    let names: Vec<String> = changed.map(|it| it.resource.to_string()).collect();
    if names.len() < 2 {
        return Ok(());
    }
    let failure = RequestError::usage("the plan changed several resources; a patch covers one")
        .kind(FailureKind::SeveralResources)
        .because(format!("it changed {}", names.join(", ")));
    let failure = names.iter().fold(failure, |failure, name| {
        failure.hint(format!("add --resource {name}"))
    });
    Err(failure.with_candidates(names))
}

fn answer(diff: &results::ResultDiff) -> Result<PlanDiffAnswer, RequestError> {
    let mut files = Vec::new();
    let mut patch_preview = Vec::new();
    let mut resources = Vec::new();
    for one in &diff.resources {
        let name = &one.sandbox.resource_name;
        files.extend(one.diff.files.iter().map(|file| diff_file(file, name)));
        let patches = file_patches(&one.diff).map_err(ResultsError::from)?;
        let left = FILES.saturating_sub(patch_preview.len());
        let previewed = patches.iter().take(left);
        patch_preview.extend(previewed.map(|file| file_preview(file, name)));
        resources.push(diff_resource(one));
    }
    let mut changed = resources.iter().filter(|it| it.files_changed > 0);
    let patch = match (changed.next(), changed.next()) {
        (Some(one), None) => Some(one.patch.clone()),
        _ => None,
    };
    let insertions = resources.iter().map(|it| it.insertions).sum();
    let deletions = resources.iter().map(|it| it.deletions).sum();
    Ok(PlanDiffAnswer {
        diff_summary: DiffSummary {
            plan: diff.plan.identity.plan_id,
            project: project_names(&diff.plan),
            files_changed: files.len(),
            insertions,
            deletions,
            net_change: format_net_change(insertions, deletions),
        },
        files_left_out_of_preview: files.len().saturating_sub(FILES),
        files,
        patch_preview,
        patch,
        resources,
        risk_assessment: RiskAssessment::default(),
    })
}

fn diff_resource(one: &ResourceDiff) -> DiffResource {
    let (insertions, deletions) = sum_lines(&one.diff.files);
    let patch = &one.diff.patch;
    DiffResource {
        resource: one.sandbox.resource_name.clone(),
        sandbox_id: one.sandbox.id,
        base_tree: one.sandbox.base_tree.clone(),
        tree: one.sandbox.tree.clone(),
        files_changed: one.diff.files.len(),
        insertions,
        deletions,
        patch: String::from_utf8_lossy(patch).into_owned(),
        patch_is_exact: std::str::from_utf8(patch).is_ok(),
        patch_bytes: Some(patch.clone()),
    }
}

/// Returns for example `+8 lines`, `-1 line` or `0 lines`.
fn format_net_change(inserted: u64, deleted: u64) -> String {
    let sign = match inserted.cmp(&deleted) {
        std::cmp::Ordering::Less => "-",
        std::cmp::Ordering::Equal => "",
        std::cmp::Ordering::Greater => "+",
    };
    let number = i64::try_from(inserted.abs_diff(deleted)).unwrap_or(i64::MAX);
    format!("{sign}{}", format_count(number, "line"))
}

fn diff_file(file: &DiffStat, resource: &NamespacedName) -> DiffFile {
    DiffFile {
        path: file.path.clone(),
        change: format_line_counts(file.lines),
        status: file_status(file.change),
        renamed_from: file.renamed_from.clone(),
        resource: resource.clone(),
    }
}

fn file_preview(patch: &FilePatch<'_>, resource: &NamespacedName) -> FilePreview {
    FilePreview {
        file: patch.file.path.clone(),
        resource: resource.clone(),
        hunks_left_out: patch.hunks.len().saturating_sub(HUNKS),
        hunks: patch.hunks.iter().take(HUNKS).map(hunk_preview).collect(),
    }
}

fn hunk_preview(hunk: &PatchHunk<'_>) -> HunkPreview {
    let (deleted, inserted) = (hunk.deletions(), hunk.insertions());
    let left_out = |lines: &[&[u8]]| lines.len().saturating_sub(LINES);
    let shown = |lines: &[&[u8]]| -> Vec<String> {
        let lines = lines.iter().take(LINES);
        lines
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    };
    HunkPreview {
        range: hunk.range(),
        lines_left_out: left_out(&deleted) + left_out(&inserted),
        deletions: shown(&deleted),
        insertions: shown(&inserted),
    }
}

/// Returns the step that takes a plan with changes further.
fn next_step(plan: &Plan) -> Option<NextStep> {
    let (id, at) = (plan.identity.plan_id, plan.position);
    match (at.phase(), at.state()) {
        _ if at.is_terminal() => None,
        (Phase::Execute, PlanState::Complete) | (Phase::Apply, _) => Some(apply_step(plan)),
        (_, PlanState::Errored | PlanState::Constrained | PlanState::Complete) => {
            Some(execute_step(id))
        }
        _ => Some(NextStep::send(&PlanStatus { plan: id.into() })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_net_change_has_a_sign() {
        assert_eq!(format_net_change(10, 2), "+8 lines");
        assert_eq!(format_net_change(0, 1), "-1 line");
        assert_eq!(format_net_change(3, 3), "0 lines");
    }
}
