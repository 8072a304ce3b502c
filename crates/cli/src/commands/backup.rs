//! `agents backup`

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use cleveragents_domain::Timestamp;
use cleveragents_domain::event::payloads::BackupCreated;
use cleveragents_engine::journal::record_system_event;
use serde::Serialize;

use super::CommandContext;
use crate::bootstrap::{BackupReport as Written, Bootstrap};
use crate::disk;
use crate::failure::{CommandFailure, ExitCode, FailureKind, display_path};
use crate::files::{Privacy, create_directory};
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};
use crate::progress::ProgressLine;

/// Write all data to one backup file
///
/// The file is one consistent snapshot, taken while other processes keep working, and can be
/// restored on SQLite and PostgreSQL. It contains your plans' data, so keep it private. An existing
/// file is never overwritten.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents backup
  agents backup /media/usb/agents.tar
  agents backup --format json")]
pub struct BackupArgs {
    /// The file to write [default: backups/cleveragents-TIME.tar in the data directory]
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct BackupAnswer<'a> {
    path: &'a str,
    bytes: u64,
    /// The number of rows of each kind.
    contents: &'a BTreeMap<String, u64>,
    unreadable_blobs: &'a BTreeSet<String>,
}

impl BackupArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let path = match &self.file {
            Some(file) => context.absolute(file),
            None => unused_backup_path(&bootstrap, "cleveragents")?,
        };
        let app = bootstrap.open_to_read()?;
        let line = ProgressLine::new("Backup", context.arguments, context.environment);
        let written = app
            .backup(&path, line.listener())
            .map_err(|error| write_failure(&path, error.into()))?;
        drop(line);
        let created = BackupCreated {
            path: path.display().to_string(),
            bytes: written.bytes,
            contents: written.contents.clone(),
        };
        let operation = app.operation("store.backup");
        let recorded = record_system_event(app.store(), operation, app.actor(), &created);
        let recorded = app.block_on(recorded);
        let answer = answer(&written)?;
        Ok(match recorded {
            Ok(()) => answer,
            Err(error) => answer.with_message(
                MessageLevel::Warn,
                format!("the backup is complete, but could not be recorded: {error}"),
            ),
        })
    }
}

/// Returns an unused file name in the backup folder.
pub(super) fn unused_backup_path(
    bootstrap: &Bootstrap,
    prefix: &str,
) -> Result<PathBuf, CommandFailure> {
    let folder = bootstrap.directory().join("backups");
    create_directory(&folder, Privacy::Private).map_err(|error| {
        CommandFailure::new(
            ExitCode::Error,
            format!("cannot create {}", folder.display()),
        )
        .kind(FailureKind::NotWritable)
        .caused_by(&error)
        .hint("agents backup FILE")
    })?;
    let name = format!("{prefix}-{}.tar", format_compact(bootstrap.now()));
    Ok(folder.join(name))
}

/// Formats as `20260131T120000.123Z`.
fn format_compact(time: Timestamp) -> String {
    let text = time.to_string().replace(['-', ':'], "");
    match text.split_once('.') {
        Some((seconds, rest)) => format!("{seconds}.{}Z", rest.get(..3).unwrap_or("000")),
        None => text,
    }
}

fn write_failure(path: &Path, failure: CommandFailure) -> CommandFailure {
    match failure.kind {
        FailureKind::Taken => CommandFailure::new(
            ExitCode::Conflict,
            format!("{} exists already", display_path(path)),
        )
        .kind(FailureKind::Taken)
        .because("a backup never overwrites anything")
        .hint("agents backup")
        .hint("agents backup ANOTHER-FILE"),
        _ => failure,
    }
}

fn answer(written: &Written) -> Result<CommandAnswer, CommandFailure> {
    let shown = written.path.display().to_string();
    let data = BackupAnswer {
        path: &shown,
        bytes: written.bytes,
        contents: &written.contents,
        unreadable_blobs: &written.unreadable_blobs,
    };
    let rows = [
        ("file", ViewCell::new(shown.as_str(), Tone::Strong)),
        ("size", disk::format_size(written.bytes).into()),
    ];
    let contents = content_rows(written.contents.iter());
    let mut view = OutputView::new().panel("Backup", rows);
    if !contents.is_empty() {
        view = view.table("Contents", &["what", "number"], contents);
    }
    let answer = CommandAnswer::new(&data, view)?;
    let answer = answer.with_message(MessageLevel::Info, "backup written");
    let answer = match missing_blobs_warning(written.unreadable_blobs.len()) {
        Some(warning) => answer.with_message(MessageLevel::Warn, warning),
        None => answer,
    };
    Ok(answer.with_message(MessageLevel::Hint, format!("agents restore '{shown}'")))
}

/// Returns a warning if blobs are missing from the backup because they were already damaged.
pub(super) fn missing_blobs_warning(number: usize) -> Option<String> {
    let blobs = format_count(i64::try_from(number).unwrap_or(i64::MAX), "blob");
    (number > 0).then(|| format!("the backup omits {blobs} with damaged content"))
}

/// Returns the contents of a backup as table rows; kinds with a count of 0 are left out.
pub(super) fn content_rows<'a>(
    contents: impl Iterator<Item = (&'a String, &'a u64)>,
) -> Vec<Vec<ViewCell>> {
    contents
        .filter(|(_, number)| **number > 0)
        .map(|(what, number)| {
            vec![
                ViewCell::from(what.replace('_', " ")),
                ViewCell::from(number.to_string()),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_names_are_short_and_sort() {
        let time: Timestamp = "2026-01-31T12:00:00.123456Z".parse().unwrap();
        assert_eq!(format_compact(time), "20260131T120000.123Z");
        assert_eq!(format_compact(Timestamp::default()), "19700101T000000.000Z");
    }
}
