//! `agents plan artifacts`

use clap::Args;
use cleveragents_engine::execution::results::{self, Artifact, ArtifactKind};
use serde_json::{Value, json};

use super::view::{find, projects};
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};
use crate::{changes, disk};

/// List the files a plan wrote, edited and deleted
///
/// Shows the net change, one row per file or link: a file that was created and removed again is not
/// listed, and a moved file is listed as deleted and written.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan artifacts 4k2m9x0q
  agents plan artifacts 4k2m9x0q --format json")]
pub struct PlanArtifactsArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,
}

impl PlanArtifactsArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let plan = find(&app, &self.plan)?;
        let results = app.results()?;
        let found = app.block_on(results.artifacts(plan.identity.plan_id))?;
        Ok(answer(&found))
    }
}

fn answer(found: &results::PlanArtifacts) -> CommandAnswer {
    let all = &found.artifacts;
    let count = |kind| all.iter().filter(|it| it.kind == kind).count();
    let size: u64 = all.iter().filter_map(size).sum();
    let id = found.plan.identity.plan_id;
    let data = json!({
        "plan_id": id,
        "project": projects(&found.plan),
        "artifacts": all.iter().map(data).collect::<Vec<Value>>(),
        "summary": {
            "total": all.len(),
            "writes": count(ArtifactKind::Write),
            "edits": count(ArtifactKind::Edit),
            "deletes": count(ArtifactKind::Delete),
            "total_size": disk::format_size(size),
            "total_bytes": size,
        },
        "by_plan": { "root": all.len() },
    });
    let mut resources: Vec<_> = all.iter().map(|it| &it.resource).collect();
    resources.dedup();
    let several = resources.len() > 1;
    let mut headers = vec!["path", "type", "size", "change"];
    if several {
        headers.push("resource");
    }
    let view = if all.is_empty() {
        OutputView::new()
    } else {
        OutputView::new().table("Artifacts", &headers, all.iter().map(|it| row(it, several)))
    };
    let number = i64::try_from(all.len()).unwrap_or(i64::MAX);
    let said = format!("{} listed", format_count(number, "artifact"));
    let answer = CommandAnswer::new(data, view).with_message(MessageLevel::Info, said);
    if all.is_empty() {
        answer
    } else {
        answer.with_message(MessageLevel::Hint, format!("agents plan diff {id}"))
    }
}

/// Returns the size of a file; `None` for a deleted one.
fn size(artifact: &Artifact) -> Option<u64> {
    match artifact.kind {
        ArtifactKind::Delete => None,
        ArtifactKind::Write | ArtifactKind::Edit => Some(artifact.file.as_ref()?.size),
    }
}

fn data(artifact: &Artifact) -> Value {
    let bytes = size(artifact);
    json!({
        "path": artifact.path,
        "type": artifact.kind.as_str(),
        "size": bytes.map(disk::format_size),
        "bytes": bytes,
        "mode": artifact.file.as_ref().map(|it| format!("{:o}", it.mode)),
        "hash": artifact.file.as_ref().map(|it| &it.hash),
        "change": changes::format_line_counts(artifact.lines),
        "child_plan": null,
        "resource": artifact.resource,
    })
}

fn row(artifact: &Artifact, several: bool) -> Vec<ViewCell> {
    let tone = match artifact.kind {
        ArtifactKind::Write => Tone::Good,
        ArtifactKind::Edit => Tone::Doubtful,
        ArtifactKind::Delete => Tone::Bad,
    };
    let size = size(artifact).map_or_else(|| "—".to_owned(), disk::format_size);
    let mut row = vec![
        ViewCell::new(artifact.path.to_string(), Tone::Strong),
        ViewCell::new(artifact.kind.as_str(), tone),
        size.into(),
        changes::format_line_counts(artifact.lines).into(),
    ];
    if several {
        row.push(ViewCell::new(artifact.resource.to_string(), Tone::Faint));
    }
    row
}
