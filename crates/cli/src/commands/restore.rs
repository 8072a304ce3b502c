//! `agents restore`

use std::path::{Path, PathBuf};

use clap::Args;
use cleveragents_engine::StoreError;
use serde_json::json;

use super::{Context, backup};
use crate::ask::{Reply, confirm};
use crate::failure::{ExitCode, Failure, shown_path};
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::progress::ProgressLine;
use crate::wiring::{Altered, Engine, Existing, Restored, Wired, Wiring, inspect_backup};

/// Restore a backup
///
/// Into an empty database, of either engine; or, with --force, instead of what is there, of which
/// a backup is written first. All or nothing: a backup that is damaged, or whose journal was
/// altered, changes nothing. No other process may have the database open meanwhile.
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

    /// Restore also a backup whose journal was altered before it was written
    ///
    /// Its hash chains do not hold, so what it says of the past cannot be trusted; sometimes it is
    /// all there is.
    #[arg(long)]
    accept_altered: bool,

    /// Do not ask before replacing
    #[arg(short, long)]
    yes: bool,
}

impl Restore {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let file = context.absolute(&self.file);
        let wiring = context.wiring()?;
        inspect_backup(&file).map_err(|error| unusable(&file, error))?;
        let existing = match self.force {
            true => {
                self.ask_about_what_is_there(&wiring, context)?;
                let saved_to = backup::new_file(&wiring, "before-restore")?;
                Existing::Replace { saved_to }
            }
            false => Existing::Refuse,
        };
        let altered = match self.accept_altered {
            true => Altered::Accept,
            false => Altered::Refuse,
        };
        let line = ProgressLine::new("Restore", context.arguments, context.environment);
        let restored = wiring
            .restore(&file, &existing, altered, &line.listener())
            .map_err(|error| unusable(&file, error))
            .map_err(|failure| saved(not_restored(failure, &file), &existing))?;
        drop(line);
        let verified = wiring
            .open_to_read()
            .and_then(|wired| verify_all(&wired))
            .map_err(|error| restored_but(error.into(), &restored))
            .map_err(|failure| saved(failure, &existing))?;
        Ok(answer(&file, &restored, &verified))
    }

    /// Names what `--force` is about to replace, if someone is there to answer. The store saves it,
    /// or sets aside what cannot be read; a server's database that cannot be read stays as it is.
    fn ask_about_what_is_there(
        &self,
        wiring: &Wiring,
        context: &Context<'_>,
    ) -> Result<(), Failure> {
        let found = wiring
            .open_to_read()
            .and_then(|wired| Ok((contents(&wired)?, wired.place())));
        match found {
            Ok((contents, _)) if contents.is_empty() => Ok(()),
            Ok((contents, place)) => {
                let contents = contents.join(", ");
                self.ask(&format!("Replace {contents} in {place}?"), context)
            }
            Err(error @ (StoreError::Corrupt { .. } | StoreError::Newer { .. }))
                if wiring.engine() == Engine::Sqlite =>
            {
                let what = Failure::from(error).what;
                self.ask(&format!("{what}. Set it aside?"), context)
            }
            Err(error) => Err(error.into()),
        }
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
        StoreError::Altered { fault, .. } => {
            let what = format!("{} holds a journal that was altered", shown_path(file));
            Failure::new(ExitCode::Error, what)
                .kind("backup_altered")
                .because(fault)
                .because("nothing was changed")
                .hint("try an older backup")
                .hint(format!(
                    "agents restore '{}' --accept-altered",
                    file.display()
                ))
        }
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

/// Names the backup of what was there, once it is written: its name was nobody's before.
fn saved(failure: Failure, existing: &Existing) -> Failure {
    match existing {
        Existing::Replace { saved_to } if saved_to.exists() => {
            let path = saved_to.display().to_string();
            failure
                .because(format!("what was there before is saved in {path}"))
                .with("previous_saved_to", path.into())
        }
        _ => failure,
    }
}

/// The backup is in, but could not be looked at.
fn restored_but(failure: Failure, restored: &Restored) -> Failure {
    let failure = failure.because("the backup was restored, but not verified");
    match &restored.set_aside {
        Some(path) => {
            let path = path.display().to_string();
            failure
                .because(format!(
                    "the database that was there was set aside as {path}"
                ))
                .with("previous_set_aside", path.into())
        }
        None => failure,
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

#[derive(Debug)]
struct Verified {
    streams: i64,
    events: i64,
    /// What was altered, stream by stream.
    faults: Vec<String>,
}

/// Walks every stream's chain and reports: what may be restored was decided by the store.
fn verify_all(wired: &Wired<'_>) -> Result<Verified, StoreError> {
    let mut verified = Verified {
        streams: 0,
        events: 0,
        faults: Vec::new(),
    };
    for stream in wired.streams()? {
        match wired.verify(stream)? {
            Ok(found) => {
                verified.streams += 1;
                verified.events += found.events;
            }
            Err(fault) => verified.faults.push(fault.to_string()),
        }
    }
    Ok(verified)
}

impl Verified {
    fn cell(&self) -> Cell {
        let events = counted(self.events, "event");
        let streams = counted(self.streams, "stream");
        let tone = match self.faults.is_empty() {
            true => Tone::Good,
            false => Tone::Doubtful,
        };
        Cell::new(format!("{events} in {streams}"), tone)
    }
}

fn answer(file: &Path, restored: &Restored, verified: &Verified) -> Answer {
    let manifest = &restored.manifest;
    let shown = |path: &PathBuf| path.display().to_string();
    let data = json!({
        "file": file.display().to_string(),
        "place": restored.place,
        "created_at": manifest.created_at,
        "written_by": manifest.written_by,
        "contents": manifest.contents,
        "unreadable_blobs": manifest.unreadable_blobs,
        "verified": {
            "streams": verified.streams,
            "events": verified.events,
            "faults": verified.faults,
        },
        "previous_saved_to": restored.saved_to.as_ref().map(shown),
        "previous_set_aside": restored.set_aside.as_ref().map(shown),
    });
    let rows = [
        ("file", Cell::from(file.display().to_string())),
        ("restored to", Cell::from(restored.place.as_str())),
        ("backup of", manifest.created_at.to_string().into()),
        (
            "written by",
            format!("agents {}", manifest.written_by).into(),
        ),
        ("verified", verified.cell()),
    ];
    let contents = backup::content_rows(manifest.contents.iter());
    let mut view = View::new().panel("Restored", rows);
    if !contents.is_empty() {
        view = view.table("Contents", &["what", "number"], contents);
    }
    remarks(restored, verified)
        .into_iter()
        .fold(Answer::new(data, view), |answer, (level, text)| {
            answer.say(level, text)
        })
}

/// How it went, and where what was there before is now.
fn remarks(restored: &Restored, verified: &Verified) -> Vec<(Level, String)> {
    let mut remarks = vec![match verified.faults.first() {
        None => (Level::Info, "restored and verified".to_owned()),
        Some(first) => {
            let streams = i64::try_from(verified.faults.len()).unwrap_or(i64::MAX);
            let streams = counted(streams, "stream");
            let text = format!("restored; the journal was altered in {streams}, first: {first}");
            (Level::Warn, text)
        }
    }];
    let lost = backup::without_blobs(restored.manifest.unreadable_blobs.len());
    remarks.extend(lost.map(|warning| (Level::Warn, warning)));
    match (&restored.saved_to, &restored.set_aside) {
        (_, Some(path)) => remarks.push((
            Level::Warn,
            format!(
                "the database that was there could not be used and was set aside as {}",
                path.display()
            ),
        )),
        (Some(path), None) => {
            let text = format!("what was there before is in {}", path.display());
            remarks.push((Level::Info, text));
        }
        (None, None) => {}
    }
    remarks
}
