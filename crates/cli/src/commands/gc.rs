//! `agents gc`

use clap::Args;
use cleveragents_domain::EventKind;
use serde_json::json;

use super::Context;
use crate::disk;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Level, Tone, View};
use crate::records::record;
use crate::wiring::{Collected, Retention};

/// Remove what nobody needs any more
///
/// Results of operations, and contents nothing refers to, once they are older than the retention
/// settings say; and what dead processes left, unless a run or lock of theirs is still to be taken
/// over. Safe while others work. Sandboxes of plans are removed by `agents sandbox gc`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents gc --dry-run
  agents gc
  agents gc --set retention.operations-days=7")]
pub struct Gc {
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

impl Gc {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let settings = context.settings()?;
        let retention = Retention {
            operations: settings.operations_retention(),
            blobs: settings.blob_grace(),
        };
        let (_reserve, wiring) = context.collecting()?;
        let wired = wiring.open()?;
        if self.dry_run {
            return Ok(self.answer(wired.collectable(retention)?));
        }
        let collected = wired.collect(retention)?;
        let mut answer = self.answer(collected);
        if !collected.is_nothing() {
            let kind = EventKind::GarbageCollected;
            if let Err(error) = record(&wired, "store.gc", kind, &collected) {
                let text = format!("removed, but it could not be put on record: {error}");
                answer = answer.say(Level::Warn, text);
            }
        }
        Ok(answer)
    }

    fn answer(&self, collected: Collected) -> Answer {
        let (title, said) = match (self.dry_run, collected.is_nothing()) {
            (true, true) => ("Would be removed", "there is nothing to remove"),
            (true, false) => ("Would be removed", "nothing was removed: a dry run"),
            (false, true) => ("Removed", "there was nothing to remove"),
            (false, false) => ("Removed", "removed"),
        };
        let rows = [
            ("results of operations", collected.operations.to_string()),
            ("blobs", collected.blobs.to_string()),
            ("size of the blobs", disk::shown(collected.blob_bytes)),
            ("stray files", collected.stray_files.to_string()),
            (
                "traces of dead processes",
                collected.dead_processes.to_string(),
            ),
        ];
        let rows = rows.map(|(what, number)| {
            let tone = match number.starts_with("0") {
                true => Tone::Faint,
                false => Tone::Strong,
            };
            vec![Cell::from(what), Cell::new(number, tone)]
        });
        let view = View::new().table(title, &["what", "number"], rows);
        let data = json!({"dry_run": self.dry_run, "collected": collected});
        let answer = Answer::new(data, view).say(Level::Info, said);
        match self.dry_run && !collected.is_nothing() {
            true => answer.say(Level::Hint, "agents gc"),
            false => answer,
        }
    }
}
