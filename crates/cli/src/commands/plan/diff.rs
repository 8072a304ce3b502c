//! `agents plan diff`

use clap::Args;
use cleveragents_domain::{NamespacedName, Phase, Plan, PlanState};
use cleveragents_engine::execution::patch::{FilePatch, PatchHunk, file_patches};
use cleveragents_engine::execution::results::{PlanDiff, ResourceDiff};
use cleveragents_engine::execution::{ResultsError, Selection};
use cleveragents_ports::sandbox::DiffStat;
use serde_json::{Value, json};

use super::result_warnings::{secret_warnings, with_warnings};
use super::view::{find, projects};
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};
use crate::{changes, names};

/// Limits of the preview: files, hunks per file and lines per hunk.
const FILES: usize = 50;
const HUNKS: usize = 20;
const LINES: usize = 50;

/// Show a plan's changes as a patch
///
/// The difference between the files at the start of the plan and its result. Your own files do not
/// change before `agents plan apply`. With --patch, stdout is exactly the patch, for `git apply`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan diff 4k2m9x0q
  agents plan diff 4k2m9x0q --stat
  agents plan diff 4k2m9x0q --file src/cart.rs docs
  agents plan diff 4k2m9x0q --patch | git apply --check
  agents plan diff 4k2m9x0q --patch --resource local/shop")]
pub struct PlanDiffArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Show only the numbers of each file
    #[arg(long, conflicts_with = "patch")]
    stat: bool,

    /// Print only the patch
    #[arg(long)]
    patch: bool,

    /// Only these files or folders
    #[arg(long = "file", value_name = "FILE", num_args = 1..)]
    files: Vec<String>,

    /// Only this resource
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
}

impl PlanDiffArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let resource = self.resource.as_deref();
        let resource = resource.map(|text| names::parse_name("resource", text));
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let plan = find(&app, &self.plan)?;
        let selection = Selection {
            resource: resource.transpose()?,
            paths: self.files.clone(),
        };
        let results = app.results()?;
        let diff = app.block_on(results.diff(plan.identity.plan_id, selection))?;
        let warnings = secret_warnings(&app, &diff)?;
        Ok(with_warnings(self.answer(&diff)?, warnings))
    }

    fn answer(&self, diff: &PlanDiff) -> Result<CommandAnswer, CommandFailure> {
        let id = diff.plan.identity.plan_id;
        let changed: Vec<&ResourceDiff> = diff
            .resources
            .iter()
            .filter(|it| !it.diff.files.is_empty())
            .collect();
        let data = data(diff, &changed)?;
        let number = changed.iter().map(|it| it.diff.files.len()).sum::<usize>();
        let answer = CommandAnswer::new(data, self.view(&changed)?);
        if number == 0 {
            return Ok(if diff.resources.is_empty() {
                answer
                    .with_message(
                        MessageLevel::Info,
                        "no changes yet: the plan has no sandbox",
                    )
                    .with_message(MessageLevel::Hint, format!("agents plan execute {id}"))
            } else {
                answer.with_message(MessageLevel::Info, "no changes")
            });
        }
        let next = next_command(&diff.plan);
        Ok(next.into_iter().fold(answer, |answer, hint| {
            answer.with_message(MessageLevel::Hint, hint)
        }))
    }

    fn view(&self, changed: &[&ResourceDiff]) -> Result<OutputView, CommandFailure> {
        if self.patch {
            return match changed {
                [] => Ok(OutputView::new()),
                [one] => Ok(OutputView::new().patch(one.diff.patch.clone())),
                several => Err(several_resources_failure(several)),
            };
        }
        let mut view = OutputView::new();
        for one in changed {
            let (title, after) = match changed {
                [_] => ("Changes".to_owned(), None),
                _ => {
                    let name = &one.sandbox.resource_name;
                    (format!("Changes of {name}"), Some(name))
                }
            };
            view = view.table(&title, &headers(after), rows(&one.diff.files, after));
            if !self.stat {
                view = view.patch(one.diff.patch.clone());
            }
        }
        Ok(view)
    }
}

fn headers(resource: Option<&NamespacedName>) -> Vec<&'static str> {
    let mut headers = vec!["path", "change", "lines"];
    headers.extend(resource.map(|_| "resource"));
    headers
}

fn rows(files: &[DiffStat], resource: Option<&NamespacedName>) -> Vec<Vec<ViewCell>> {
    let row = |file: &DiffStat| {
        let mut row = changes::row(file);
        row.extend(resource.map(|name| ViewCell::new(name.to_string(), Tone::Faint)));
        row
    };
    files.iter().map(row).collect()
}

/// Returns the failure for `--patch` with several resources: their patches do not form one patch.
fn several_resources_failure(several: &[&ResourceDiff]) -> CommandFailure {
    let names: Vec<String> = several
        .iter()
        .map(|it| it.sandbox.resource_name.to_string())
        .collect();
    let failure = CommandFailure::usage("the plan changed several resources; a patch covers one")
        .kind("several_resources")
        .because(format!("it changed {}", names.join(", ")));
    let failure = names.iter().fold(failure, |failure, name| {
        failure.hint(format!("add --resource {name}"))
    });
    failure.with("candidates", json!(names))
}

fn data(diff: &PlanDiff, changed: &[&ResourceDiff]) -> Result<Value, CommandFailure> {
    let all = || changed.iter().flat_map(|it| &it.diff.files);
    let (inserted, deleted) = changes::sum_lines(all());
    let mut listed = Vec::new();
    let mut preview = Vec::new();
    let mut resources = Vec::new();
    for one in &diff.resources {
        let name = &one.sandbox.resource_name;
        listed.extend(one.diff.files.iter().map(|file| file_data(file, name)));
        let patches = file_patches(&one.diff).map_err(ResultsError::from)?;
        let left = FILES.saturating_sub(preview.len());
        preview.extend(
            patches
                .iter()
                .take(left)
                .map(|file| file_preview(file, name)),
        );
        resources.push(resource_data(one));
    }
    Ok(json!({
        "diff_summary": {
            "plan": diff.plan.identity.plan_id,
            "project": projects(&diff.plan),
            "files_changed": listed.len(),
            "insertions": inserted,
            "deletions": deleted,
            "net_change": format_net_change(inserted, deleted),
        },
        "files_left_out_of_preview": listed.len().saturating_sub(FILES),
        "files": listed,
        "patch_preview": preview,
        "patch": match changed {
            [one] => json!(String::from_utf8_lossy(&one.diff.patch)),
            _ => Value::Null,
        },
        "resources": resources,
        // Nothing computes these yet.
        "risk_assessment": {
            "api_compatibility": null,
            "test_coverage": null,
            "breaking_changes": null,
        },
    }))
}

fn resource_data(one: &ResourceDiff) -> Value {
    let (inserted, deleted) = changes::sum_lines(&one.diff.files);
    json!({
        "resource": one.sandbox.resource_name,
        "sandbox_id": one.sandbox.id,
        "base_tree": one.sandbox.base_tree,
        "tree": one.sandbox.tree,
        "files_changed": one.diff.files.len(),
        "insertions": inserted,
        "deletions": deleted,
        "patch": String::from_utf8_lossy(&one.diff.patch),
        // JSON strings are Unicode; `--patch` writes the exact bytes.
        "patch_is_exact": std::str::from_utf8(&one.diff.patch).is_ok(),
    })
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

fn file_data(file: &DiffStat, resource: &NamespacedName) -> Value {
    json!({
        "path": file.path,
        "change": changes::format_line_counts(file.lines),
        "status": changes::change_name(file),
        "renamed_from": file.renamed_from,
        "resource": resource,
    })
}

fn file_preview(patch: &FilePatch<'_>, resource: &NamespacedName) -> Value {
    let hunks: Vec<Value> = patch.hunks.iter().take(HUNKS).map(hunk_preview).collect();
    json!({
        "file": patch.file.path,
        "resource": resource,
        "hunks_left_out": patch.hunks.len().saturating_sub(HUNKS),
        "hunks": hunks,
    })
}

fn hunk_preview(hunk: &PatchHunk<'_>) -> Value {
    let (deleted, inserted) = (hunk.deletions(), hunk.insertions());
    let left_out = |lines: &[&[u8]]| lines.len().saturating_sub(LINES);
    let shown = |lines: &[&[u8]]| -> Vec<String> {
        let lines = lines.iter().take(LINES);
        lines
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    };
    json!({
        "range": hunk.range(),
        "lines_left_out": left_out(&deleted) + left_out(&inserted),
        "deletions": shown(&deleted),
        "insertions": shown(&inserted),
    })
}

/// Returns the command that takes a plan with changes further.
fn next_command(plan: &Plan) -> Option<String> {
    let (id, at) = (plan.identity.plan_id, plan.position);
    match (at.phase(), at.state()) {
        _ if at.is_terminal() => None,
        (Phase::Execute, PlanState::Complete) | (Phase::Apply, _) => {
            Some(format!("agents plan apply {id}"))
        }
        (_, PlanState::Errored | PlanState::Constrained | PlanState::Complete) => {
            Some(format!("agents plan execute {id}"))
        }
        _ => Some(format!("agents plan status {id}")),
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
