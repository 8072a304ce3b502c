//! `agents restore`

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use cleveragents_domain::Timestamp;
use cleveragents_ports::StoreError;
use serde::Serialize;

use super::{CommandContext, backup};
use crate::bootstrap::{
    AlteredBackupPolicy, AppContext, Bootstrap, Engine, ExistingDataPolicy, RestoreReport,
    inspect_backup,
};
use crate::confirmation::{Confirmation, confirm};
use crate::failure::{CommandFailure, ExitCode, FailureKind, display_path};
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};
use crate::progress::ProgressLine;

/// Restore a backup
///
/// Restores into an empty database of either engine; with --force, replaces the existing data after
/// backing it up. A damaged backup, or one with an altered journal, changes nothing. No other
/// process may have the database open.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents restore agents.tar
  agents restore agents.tar --data-dir /srv/elsewhere
  agents restore agents.tar --force --yes")]
pub struct RestoreArgs {
    /// The file that `agents backup` wrote
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,

    /// Replace existing data
    #[arg(long)]
    force: bool,

    /// Restore a backup even if its journal was altered before it was written
    ///
    /// Its hash chains do not verify, so its history cannot be trusted.
    #[arg(long)]
    accept_altered: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

#[derive(Debug, Serialize)]
struct RestoreAnswer<'a> {
    file: String,
    place: &'a str,
    created_at: Timestamp,
    written_by: &'a str,
    /// The number of rows of each kind.
    contents: &'a BTreeMap<String, u64>,
    unreadable_blobs: &'a BTreeSet<String>,
    verified: &'a RestoreVerification,
    previous_saved_to: Option<String>,
    previous_set_aside: Option<String>,
}

impl RestoreArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let file = context.absolute(&self.file);
        let bootstrap = context.bootstrap()?;
        inspect_backup(&file).map_err(|error| unusable_backup_failure(&file, error))?;
        let existing = if self.force {
            self.confirm_replacement(&bootstrap, context)?;
            let saved_to = backup::unused_backup_path(&bootstrap, "before-restore")?;
            ExistingDataPolicy::Replace { saved_to }
        } else {
            ExistingDataPolicy::Refuse
        };
        let altered = if self.accept_altered {
            AlteredBackupPolicy::Accept
        } else {
            AlteredBackupPolicy::Refuse
        };
        let line = ProgressLine::new("Restore", context.arguments, context.environment);
        let restored = bootstrap
            .restore(&file, &existing, altered, &line.listener())
            .map_err(|error| unusable_backup_failure(&file, error))
            .map_err(|failure| with_saved_backup(restore_failure(failure, &file), &existing))?;
        drop(line);
        let verified = bootstrap
            .open_to_read()
            .and_then(|app| verify_all(&app))
            .map_err(|error| unverified_failure(error.into(), &restored))
            .map_err(|failure| with_saved_backup(failure, &existing))?;
        answer(&file, &restored, &verified)
    }

    /// Asks on a terminal before `--force` replaces data. The store backs up the replaced data, or
    /// sets aside a database that cannot be read. An unreadable database on a server is not
    /// touched.
    fn confirm_replacement(
        &self,
        bootstrap: &Bootstrap,
        context: &CommandContext<'_>,
    ) -> Result<(), CommandFailure> {
        let found = bootstrap
            .open_to_read()
            .and_then(|app| Ok((describe_contents(&app)?, app.database_location())));
        match found {
            Ok((contents, _)) if contents.is_empty() => Ok(()),
            Ok((contents, place)) => {
                let contents = contents.join(", ");
                self.confirm_or_fail(&format!("Replace {contents} in {place}?"), context)
            }
            Err(error @ (StoreError::Corrupt { .. } | StoreError::Newer { .. }))
                if bootstrap.engine() == Engine::Sqlite =>
            {
                let what = CommandFailure::from(error).message.clone();
                self.confirm_or_fail(&format!("{what}. Move it aside?"), context)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn confirm_or_fail(
        &self,
        question: &str,
        context: &CommandContext<'_>,
    ) -> Result<(), CommandFailure> {
        if self.yes {
            return Ok(());
        }
        match confirm(question, context.environment) {
            Confirmation::Yes | Confirmation::NoTerminal => Ok(()),
            Confirmation::No => Err(CommandFailure::new(
                ExitCode::Decision,
                "nothing was restored",
            )
            .because("not confirmed")
            .hint("agents restore FILE --force --yes")),
        }
    }
}

/// Converts the error of a restore that may be the fault of the backup file.
fn unusable_backup_failure(file: &Path, error: StoreError) -> CommandFailure {
    match &error {
        StoreError::Altered { fault, .. } => {
            let what = format!("{} holds a journal that was altered", display_path(file));
            CommandFailure::new(ExitCode::Error, what)
                .kind(FailureKind::BackupAltered)
                .because(fault)
                .because("nothing was changed")
                .hint("try an older backup")
                .hint(format!(
                    "agents restore '{}' --accept-altered",
                    file.display()
                ))
        }
        StoreError::Corrupt { path, reason } if path == file => CommandFailure::new(
            ExitCode::Error,
            format!("{} is not a complete backup", display_path(file)),
        )
        .kind(FailureKind::BackupDamaged)
        .because(reason)
        .because("nothing was changed")
        .hint("try another backup: they are written by `agents backup`"),
        StoreError::NotFound { .. } => CommandFailure::new(
            ExitCode::NotFound,
            format!("there is no backup {}", display_path(file)),
        )
        .hint("look into the folder `backups` of the data directory"),
        _ => error.into(),
    }
}

fn restore_failure(failure: CommandFailure, file: &Path) -> CommandFailure {
    match failure.kind {
        FailureKind::NotEmpty => failure
            .because("without --force a backup is restored only into an empty database")
            .hint(format!("agents restore '{}' --force", file.display()))
            .hint(format!(
                "agents restore '{}' --data-dir ANOTHER-DIR",
                file.display()
            )),
        _ => failure,
    }
}

/// Adds the path of the backup of the previous data, if it was written. The file name was unused
/// before, so an existing file means that it was.
fn with_saved_backup(failure: CommandFailure, existing: &ExistingDataPolicy) -> CommandFailure {
    match existing {
        ExistingDataPolicy::Replace { saved_to } if saved_to.exists() => {
            let path = saved_to.display().to_string();
            failure
                .because(format!("the previous data is saved in {path}"))
                .with_facts(|facts| facts.previous_saved_to = Some(path))
        }
        _ => failure,
    }
}

/// Returns the failure for a backup that was restored but could not be verified.
fn unverified_failure(failure: CommandFailure, restored: &RestoreReport) -> CommandFailure {
    let failure = failure.because("the backup was restored, but not verified");
    match &restored.set_aside {
        Some(path) => {
            let path = path.display().to_string();
            failure
                .because(format!("the previous database was moved to {path}"))
                .with_facts(|facts| facts.previous_set_aside = Some(path))
        }
        None => failure,
    }
}

/// Lists the existing data for the question.
fn describe_contents(app: &AppContext<'_>) -> Result<Vec<String>, StoreError> {
    let statistics = app.statistics()?;
    let all = [
        (statistics.events, "events"),
        (statistics.plans, "plans"),
        (statistics.actions, "actions"),
        (statistics.blobs, "blobs"),
    ];
    let found = all.into_iter().filter(|(number, _)| *number > 0);
    Ok(found
        .map(|(number, what)| format!("{number} {what}"))
        .collect())
}

#[derive(Debug, Serialize)]
struct RestoreVerification {
    streams: i64,
    events: i64,
    /// One entry per altered stream.
    faults: Vec<String>,
}

/// Verifies the chain of every stream. Only reports: the store has already decided what may be
/// restored.
fn verify_all(app: &AppContext<'_>) -> Result<RestoreVerification, StoreError> {
    let mut verified = RestoreVerification {
        streams: 0,
        events: 0,
        faults: Vec::new(),
    };
    for stream in app.streams()? {
        match app.verify(stream)? {
            Ok(found) => {
                verified.streams += 1;
                verified.events += found.events;
            }
            Err(fault) => verified.faults.push(fault.to_string()),
        }
    }
    Ok(verified)
}

impl RestoreVerification {
    fn cell(&self) -> ViewCell {
        let events = format_count(self.events, "event");
        let streams = format_count(self.streams, "stream");
        let tone = if self.faults.is_empty() {
            Tone::Good
        } else {
            Tone::Doubtful
        };
        ViewCell::new(format!("{events} in {streams}"), tone)
    }
}

fn answer(
    file: &Path,
    restored: &RestoreReport,
    verified: &RestoreVerification,
) -> Result<CommandAnswer, CommandFailure> {
    let manifest = &restored.manifest;
    let shown = |path: &PathBuf| path.display().to_string();
    let data = RestoreAnswer {
        file: file.display().to_string(),
        place: &restored.place,
        created_at: manifest.created_at,
        written_by: &manifest.written_by,
        contents: &manifest.contents,
        unreadable_blobs: &manifest.unreadable_blobs,
        verified,
        previous_saved_to: restored.saved_to.as_ref().map(shown),
        previous_set_aside: restored.set_aside.as_ref().map(shown),
    };
    let rows = [
        ("file", ViewCell::from(file.display().to_string())),
        ("restored to", ViewCell::from(restored.place.as_str())),
        (
            "backup of",
            ViewCell::time(manifest.created_at, Tone::Normal),
        ),
        (
            "written by",
            format!("agents {}", manifest.written_by).into(),
        ),
        ("verified", verified.cell()),
    ];
    let contents = backup::content_rows(manifest.contents.iter());
    let mut view = OutputView::new().panel("Restored", rows);
    if !contents.is_empty() {
        view = view.table("Contents", &["what", "number"], contents);
    }
    let answer = CommandAnswer::new(&data, view)?;
    let add = |answer: CommandAnswer, (level, text)| answer.with_message(level, text);
    Ok(remarks(restored, verified).into_iter().fold(answer, add))
}

/// Returns the messages about the result and the location of the previous data.
fn remarks(
    restored: &RestoreReport,
    verified: &RestoreVerification,
) -> Vec<(MessageLevel, String)> {
    let mut remarks = vec![match verified.faults.first() {
        None => (MessageLevel::Info, "restored and verified".to_owned()),
        Some(first) => {
            let streams = i64::try_from(verified.faults.len()).unwrap_or(i64::MAX);
            let streams = format_count(streams, "stream");
            let text = format!("restored; the journal was altered in {streams}, first: {first}");
            (MessageLevel::Warn, text)
        }
    }];
    let lost = backup::missing_blobs_warning(restored.manifest.unreadable_blobs.len());
    remarks.extend(lost.map(|warning| (MessageLevel::Warn, warning)));
    match (&restored.saved_to, &restored.set_aside) {
        (_, Some(path)) => remarks.push((
            MessageLevel::Warn,
            format!(
                "the previous database could not be read and was moved to {}",
                path.display()
            ),
        )),
        (Some(path), None) => {
            let text = format!("the previous data is in {}", path.display());
            remarks.push((MessageLevel::Info, text));
        }
        (None, None) => {}
    }
    remarks
}
