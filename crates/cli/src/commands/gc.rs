//! `agents gc`

use clap::Args;
use cleveragents_domain::event::payloads::GarbageCollected;
use serde_json::json;

use super::CommandContext;
use crate::bootstrap::{CollectionReport, Retention};
use crate::disk;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};
use crate::system_journal::record;

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
        let settings = context.settings()?;
        let retention = Retention {
            operations: settings.operations_retention(),
            blobs: settings.blob_grace(),
        };
        let (_reserve, bootstrap) = context.bootstrap_for_gc()?;
        let app = bootstrap.open()?;
        if self.dry_run {
            return Ok(self.answer(app.collectable(retention)?));
        }
        let collected = app.collect(retention)?;
        let mut answer = self.answer(collected);
        if !collected.is_empty() {
            let event = GarbageCollected {
                operations: collected.operations,
                blobs: collected.blobs,
                blob_bytes: collected.blob_bytes,
                stray_files: collected.stray_files,
                dead_processes: collected.dead_processes,
            };
            if let Err(error) = record(&app, "store.gc", &event) {
                let text = format!("removed, but the removal could not be recorded: {error}");
                answer = answer.with_message(MessageLevel::Warn, text);
            }
        }
        Ok(answer)
    }

    fn answer(&self, collected: CollectionReport) -> CommandAnswer {
        let (title, said) = match (self.dry_run, collected.is_empty()) {
            (true, true) => ("Would be removed", "there is nothing to remove"),
            (true, false) => ("Would be removed", "nothing was removed: a dry run"),
            (false, true) => ("Removed", "there was nothing to remove"),
            (false, false) => ("Removed", "removed"),
        };
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
        let view = OutputView::new().table(title, &["what", "number"], rows);
        let data = json!({"dry_run": self.dry_run, "collected": collected});
        let answer = CommandAnswer::new(data, view).with_message(MessageLevel::Info, said);
        if self.dry_run && !collected.is_empty() {
            answer.with_message(MessageLevel::Hint, "agents gc")
        } else {
            answer
        }
    }
}
