//! `agents sandbox gc`

use clap::Args;
use cleveragents_api::TimeSpan;
use cleveragents_api::sandbox::{CollectedSandbox, SandboxGc, SandboxesCollected};

use crate::argument_types::parse_value;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

const HEADERS: [&str; 5] = ["sandbox", "plan", "resource", "what", "because"];

/// Remove sandboxes that are no longer needed
///
/// Removes sandboxes of plans that are applied or cancelled, sandboxes with discarded changes,
/// incomplete sandboxes of dead processes, and folders of plans deleted more than a day ago, with
/// their refs under refs/cleveragents in your repositories. Sandboxes of unfinished plans are kept,
/// and no sandbox is removed while it is in use; the output gives the reason. Also removes the data
/// of applies that were undone or are older than 30 days; until then `agents plan unapply` can undo
/// an apply.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents sandbox gc --dry-run
  agents sandbox gc
  agents sandbox gc --older-than 7d")]
pub struct SandboxGcArgs {
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,

    /// Only plans that finished at least this long ago: 30m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = parse_value::<TimeSpan>, default_value = "0s")]
    older_than: TimeSpan,
}

impl SandboxGcArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_gc(SandboxGc {
            dry_run: self.dry_run,
            older_than: Some(self.older_than),
        })?;
        CommandAnswer::from_reply(reply, table)
    }
}

fn table(collected: &SandboxesCollected) -> OutputView {
    let removed = if collected.dry_run {
        ViewCell::new("would be removed", Tone::Doubtful)
    } else {
        ViewCell::new("removed", Tone::Good)
    };
    let groups = [
        (&collected.removed, removed),
        (&collected.kept, ViewCell::new("kept", Tone::Normal)),
        (&collected.failed, ViewCell::new("failed", Tone::Bad)),
    ];
    let rows: Vec<Vec<ViewCell>> = groups
        .iter()
        .flat_map(|(sandboxes, what)| sandboxes.iter().map(|it| row(it, what)))
        .collect();
    match rows.len() {
        0 => OutputView::new(),
        _ => OutputView::new().table("Sandboxes", &HEADERS, rows),
    }
}

fn row(sandbox: &CollectedSandbox, what: &ViewCell) -> Vec<ViewCell> {
    let none = || ViewCell::new("none", Tone::Faint);
    let resource = sandbox.resource.as_ref();
    vec![
        ViewCell::new(sandbox.id.short(), Tone::Strong),
        sandbox
            .plan_id
            .map_or_else(none, |plan| plan.short().into()),
        resource.map_or_else(none, |name| name.to_string().into()),
        what.clone(),
        sandbox.reason.clone().into(),
    ]
}
