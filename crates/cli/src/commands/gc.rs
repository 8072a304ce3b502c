//! `agents gc`

use clap::Args;
use cleveragents_api::gc::{Gc, GcAnswer};

use super::CommandContext;
use crate::disk;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Remove data that is no longer needed
///
/// Removes results of operations and unreferenced blobs that are older than the retention settings,
/// and files of dead processes, except runs and locks that are still to be taken over. Safe to run
/// while other processes work. To remove sandboxes of plans, use `agents sandbox gc`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents gc --dry-run
  agents gc
  agents gc --set retention.operations-days=7")]
pub struct GcArgs {
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
}

impl GcArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_gc(Gc {
            dry_run: self.dry_run,
        })?;
        CommandAnswer::from_reply(reply, table)
    }
}

fn table(answer: &GcAnswer) -> OutputView {
    let collected = &answer.collected;
    let rows = [
        ("results of operations", collected.operations.to_string()),
        ("blobs", collected.blobs.to_string()),
        ("size of the blobs", disk::format_size(collected.blob_bytes)),
        ("stray files", collected.stray_files.to_string()),
        (
            "traces of dead processes",
            collected.dead_processes.to_string(),
        ),
    ];
    let rows = rows.map(|(what, number)| {
        let tone = if number.starts_with("0") {
            Tone::Faint
        } else {
            Tone::Strong
        };
        vec![ViewCell::from(what), ViewCell::new(number, tone)]
    });
    let title = if answer.dry_run {
        "Would be removed"
    } else {
        "Removed"
    };
    OutputView::new().table(title, &["what", "number"], rows)
}
