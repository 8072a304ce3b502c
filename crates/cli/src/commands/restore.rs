//! `agents restore`

use std::path::{Path, PathBuf};

use clap::Args;
use cleveragents_engine::StoreError;
use serde_json::{Value, json};

use super::{Context, backup};
use crate::ask::{Reply, confirm};
use crate::failure::{ExitCode, Failure, shown_path};
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::progress::ProgressLine;
use crate::wiring::{Engine, Existing, Restored, Wired, Wiring, inspect_backup};

/// Restore a backup
///
/// Into an empty database, of either engine; or, with --force, instead of what is there, of which
/// a backup is written first. All or nothing: a backup that is damaged changes nothing. No other
/// process may have the database open meanwhile.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents restore agents.tar
  agents restore agents.tar --data-dir /srv/elsewhere
  agents restore agents.tar --force --yes")]
pub struct Restore {
    /// The file that `agents backup` wrote
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,

    /// Replace what is there
    #[arg(long)]
    force: bool,

    /// Do not ask before replacing
    #[arg(short, long)]
    yes: bool,
}

/// What became of the contents that were there before.
enum Before {
    Nothing,
    /// They are in this backup.
    SavedTo(PathBuf),
    /// They could not be read; the store sets the file aside.
    Unreadable(Failure),
}

impl Restore {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let file = context.absolute(&self.file);
        let wiring = context.wiring()?;
        inspect_backup(&file).map_err(|error| unusable(&file, error))?;
        let before = match self.force {
            true => self.save_what_is_there(&wiring, context)?,
            false => Before::Nothing,
        };
        let existing = match self.force {
            true => Existing::Replace,
            false => Existing::Refuse,
        };
        let line = ProgressLine::new("Restore", context.arguments, context.environment);
        let restored = wiring
            .restore(&file, existing, &line.listener())
            .map_err(|error| unusable(&file, error))
            .map_err(|failure| not_restored(failure, &file))?;
        drop(line);
        let wired = wiring.open()?;
        let verified = verify_all(&wired)?;
        Ok(answer(&file, &restored, verified, &before))
    }

    /// Backs up what `--force` is about to replace; asks first if someone is there to answer.
    fn save_what_is_there(
        &self,
        wiring: &Wiring,
        context: &Context<'_>,
    ) -> Result<Before, Failure> {
        let wired = match wiring.open() {
            Ok(wired) => wired,
            Err(error) => return self.unreadable(wiring, error, context),
        };
        let contents = match contents(&wired) {
            Ok(contents) if contents.is_empty() => return Ok(Before::Nothing),
            Ok(contents) => contents.join(", "),
            Err(error) => return self.unreadable(wiring, error, context),
        };
        self.ask(
            &format!("Replace {contents} in {}?", wired.place()),
            context,
        )?;
        let path = backup::new_file(wiring, "before-restore")?;
        let line = ProgressLine::new("Backup first", context.arguments, context.environment);
        match wired.backup(&path, line.listener()) {
            Ok(_) => Ok(Before::SavedTo(path)),
            Err(error @ StoreError::Corrupt { .. }) => {
                drop(line);
                drop(wired);
                self.unreadable(wiring, error, context)
            }
            Err(error) => Err(Failure::from(error)
                .because("what is there is backed up before it is replaced")
                .hint("agents restore FILE --data-dir ANOTHER-DIR")),
        }
    }

    /// A file nobody can read is set aside by the store; a server's database stays as it is.
    fn unreadable(
        &self,
        wiring: &Wiring,
        error: StoreError,
        context: &Context<'_>,
    ) -> Result<Before, Failure> {
        let can_be_set_aside = wiring.engine() == Engine::Sqlite
            && matches!(error, StoreError::Corrupt { .. } | StoreError::Newer { .. });
        let failure = Failure::from(error);
        if !can_be_set_aside {
            return Err(failure);
        }
        self.ask(&format!("{}. Set it aside?", failure.what), context)?;
        Ok(Before::Unreadable(failure))
    }

    fn ask(&self, question: &str, context: &Context<'_>) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        match confirm(question, context.environment) {
            Reply::Yes | Reply::Nobody => Ok(()),
            Reply::No => Err(Failure::new(ExitCode::Decision, "nothing was restored")
                .because("the question was not answered with yes")
                .hint("agents restore FILE --force --yes")),
        }
    }
}

/// The file itself may be what is wrong.
fn unusable(file: &Path, error: StoreError) -> Failure {
    match &error {
        StoreError::Corrupt { path, reason } if path == file => Failure::new(
            ExitCode::Error,
            format!("{} is not a whole backup", shown_path(file)),
        )
        .kind("backup_damaged")
        .because(reason)
        .because("nothing was changed")
        .hint("try another backup: they are written by `agents backup`"),
        StoreError::NotFound { .. } => Failure::new(
            ExitCode::NotFound,
            format!("there is no backup {}", shown_path(file)),
        )
        .hint("look into the folder `backups` of the data directory"),
        _ => error.into(),
    }
}

fn not_restored(failure: Failure, file: &Path) -> Failure {
    match failure.kind {
        "not_empty" => failure
            .because("a backup is restored into an empty database unless you insist")
            .hint(format!("agents restore '{}' --force", file.display()))
            .hint(format!(
                "agents restore '{}' --data-dir ANOTHER-DIR",
                file.display()
            )),
        _ => failure,
    }
}

/// What people would miss.
fn contents(wired: &Wired<'_>) -> Result<Vec<String>, StoreError> {
    let statistics = wired.statistics()?;
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

struct Verified {
    streams: i64,
    events: i64,
}

/// Walks every stream's chain: what was restored is what was written.
fn verify_all(wired: &Wired<'_>) -> Result<Verified, Failure> {
    let streams = wired.streams()?;
    let mut events = 0;
    for stream in &streams {
        let found = wired.verify(*stream)?.map_err(|fault| {
            Failure::new(ExitCode::Error, "the restored journal does not verify")
                .kind("journal_fault")
                .because(fault.to_string())
                .because("the backup was taken from a journal that was altered")
                .hint("agents diagnostics")
        })?;
        events += found.events;
    }
    Ok(Verified {
        streams: i64::try_from(streams.len()).unwrap_or(i64::MAX),
        events,
    })
}

fn answer(file: &Path, restored: &Restored, verified: Verified, before: &Before) -> Answer {
    let manifest = &restored.manifest;
    let (saved, note) = match before {
        Before::Nothing => (Value::Null, (Level::Info, None)),
        Before::SavedTo(path) => {
            let path = path.display().to_string();
            let note = format!("what was there before is in {path}");
            (path.into(), (Level::Info, Some(note)))
        }
        Before::Unreadable(failure) => {
            let note = format!(
                "{}; the file was kept beside the new one (*.replaced-*)",
                failure.what
            );
            (Value::Null, (Level::Warn, Some(note)))
        }
    };
    let data = json!({
        "file": file.display().to_string(),
        "place": restored.place,
        "created_at": manifest.created_at,
        "written_by": manifest.written_by,
        "contents": manifest.contents,
        "verified": {"streams": verified.streams, "events": verified.events},
        "previous_saved_to": saved,
        "previous_set_aside": matches!(before, Before::Unreadable(_)),
    });
    let rows = [
        ("file", Cell::from(file.display().to_string())),
        ("restored to", Cell::from(restored.place.as_str())),
        ("backup of", manifest.created_at.to_string().into()),
        (
            "written by",
            format!("agents {}", manifest.written_by).into(),
        ),
        (
            "verified",
            Cell::new(
                format!(
                    "{} in {}",
                    counted(verified.events, "event"),
                    counted(verified.streams, "stream")
                ),
                Tone::Good,
            ),
        ),
    ];
    let contents = backup::content_rows(manifest.contents.iter());
    let mut view = View::new().panel("Restored", rows);
    if !contents.is_empty() {
        view = view.table("Contents", &["what", "number"], contents);
    }
    let answer = Answer::new(data, view).say(Level::Info, "restored and verified");
    match note {
        (level, Some(note)) => answer.say(level, note),
        (_, None) => answer,
    }
}
