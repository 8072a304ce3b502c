//! `agents backup`

use std::path::{Path, PathBuf};

use clap::Args;
use cleveragents_domain::{EventKind, Timestamp};
use serde_json::json;

use super::Context;
use crate::disk;
use crate::failure::{ExitCode, Failure, shown_path};
use crate::files::{Privacy, create_directory};
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::progress::ProgressLine;
use crate::records::record;
use crate::wiring::{Backup as Written, Wiring};

/// Write everything to one file
///
/// The file is one consistent state, taken while others go on working, and can be restored on
/// SQLite and PostgreSQL alike. It holds what your plans hold, so keep it as private as them. An
/// existing file is never overwritten.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents backup
  agents backup /media/usb/agents.tar
  agents backup --format json")]
pub struct Backup {
    /// The file to write [default: backups/cleveragents-TIME.tar in the data directory]
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,
}

impl Backup {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let path = match &self.file {
            Some(file) => context.absolute(file),
            None => new_file(&wiring, "cleveragents")?,
        };
        let wired = wiring.open_to_read()?;
        let line = ProgressLine::new("Backup", context.arguments, context.environment);
        let written = wired
            .backup(&path, line.listener())
            .map_err(|error| cannot_write(&path, error.into()))?;
        drop(line);
        let recorded = record(
            &wired,
            "store.backup",
            EventKind::BackupCreated,
            &json!({
                "path": path.display().to_string(),
                "bytes": written.bytes,
                "contents": written.contents,
            }),
        );
        let answer = answer(&written);
        Ok(match recorded {
            Ok(()) => answer,
            Err(error) => answer.say(
                Level::Warn,
                format!("the backup is whole, but could not be put on record: {error}"),
            ),
        })
    }
}

/// A name nobody has yet, in the folder of backups.
pub(super) fn new_file(wiring: &Wiring, prefix: &str) -> Result<PathBuf, Failure> {
    let folder = wiring.directory().join("backups");
    create_directory(&folder, Privacy::Private).map_err(|error| {
        Failure::new(ExitCode::Error, format!("cannot make {}", folder.display()))
            .kind("not_writable")
            .caused_by(&error)
            .hint("agents backup FILE")
    })?;
    let name = format!("{prefix}-{}.tar", compact(wiring.now()));
    Ok(folder.join(name))
}

/// `20260131T120000.123Z`
fn compact(time: Timestamp) -> String {
    let text = time.to_string().replace(['-', ':'], "");
    match text.split_once('.') {
        Some((seconds, rest)) => format!("{seconds}.{}Z", rest.get(..3).unwrap_or("000")),
        None => text,
    }
}

fn cannot_write(path: &Path, failure: Failure) -> Failure {
    match failure.kind {
        "taken" => Failure::new(
            ExitCode::Conflict,
            format!("{} exists already", shown_path(path)),
        )
        .kind("taken")
        .because("a backup never overwrites anything")
        .hint("agents backup")
        .hint("agents backup ANOTHER-FILE"),
        _ => failure,
    }
}

fn answer(written: &Written) -> Answer {
    let shown = written.path.display().to_string();
    let data = json!({
        "path": shown,
        "bytes": written.bytes,
        "contents": written.contents,
        "unreadable_blobs": written.unreadable_blobs,
    });
    let rows = [
        ("file", Cell::new(shown.as_str(), Tone::Strong)),
        ("size", disk::shown(written.bytes).into()),
    ];
    let contents = content_rows(written.contents.iter());
    let mut view = View::new().panel("Backup", rows);
    if !contents.is_empty() {
        view = view.table("Contents", &["what", "number"], contents);
    }
    let answer = Answer::new(data, view).say(Level::Info, "backup written");
    let answer = match without_blobs(written.unreadable_blobs.len()) {
        Some(warning) => answer.say(Level::Warn, warning),
        None => answer,
    };
    answer.say(Level::Hint, format!("agents restore '{shown}'"))
}

/// What is missing from a backup because it was damaged before.
pub(super) fn without_blobs(number: usize) -> Option<String> {
    let blobs = counted(i64::try_from(number).unwrap_or(i64::MAX), "blob");
    (number > 0).then(|| format!("the backup is without {blobs} whose content is damaged"))
}

/// What a backup holds, without what it has none of.
pub(super) fn content_rows<'a>(
    contents: impl Iterator<Item = (&'a String, &'a u64)>,
) -> Vec<Vec<Cell>> {
    contents
        .filter(|(_, number)| **number > 0)
        .map(|(what, number)| {
            vec![
                Cell::from(what.replace('_', " ")),
                Cell::from(number.to_string()),
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
        assert_eq!(compact(time), "20260131T120000.123Z");
        assert_eq!(compact(Timestamp::default()), "19700101T000000.000Z");
    }
}
