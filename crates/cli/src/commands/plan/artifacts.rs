//! `agents plan artifacts`

use clap::Args;
use cleveragents_api::plan::PlanArtifacts;
use cleveragents_api::plan::artifacts::{ArtifactKind, PlanArtifact};

use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

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
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,
}

impl PlanArtifactsArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_plan(&self.plan, |plan| PlanArtifacts { plan })?;
        CommandAnswer::from_reply(reply, |page| view(&page.artifacts))
    }
}

fn view(artifacts: &[PlanArtifact]) -> OutputView {
    if artifacts.is_empty() {
        return OutputView::new();
    }
    let mut resources: Vec<_> = artifacts.iter().map(|it| &it.resource).collect();
    resources.dedup();
    let several = resources.len() > 1;
    let mut headers = vec!["path", "type", "size", "change"];
    if several {
        headers.push("resource");
    }
    let rows = artifacts.iter().map(|it| row(it, several));
    OutputView::new().table("Artifacts", &headers, rows)
}

fn row(artifact: &PlanArtifact, several: bool) -> Vec<ViewCell> {
    let tone = match artifact.kind {
        ArtifactKind::Write => Tone::Good,
        ArtifactKind::Edit => Tone::Doubtful,
        ArtifactKind::Delete => Tone::Bad,
    };
    let size = artifact.size.clone().unwrap_or_else(|| "—".to_owned());
    let mut row = vec![
        ViewCell::new(artifact.path.to_string(), Tone::Strong),
        ViewCell::new(artifact.kind.as_str(), tone),
        size.into(),
        artifact.change.clone().into(),
    ];
    if several {
        row.push(ViewCell::new(artifact.resource.to_string(), Tone::Faint));
    }
    row
}
