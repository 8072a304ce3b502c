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
        let line = ProgressLine::new("Restore", context.arguments, context.environment);
        let restored = wiring
            .restore(&file, &existing, &line.listener())
            .map_err(|error| unusable(&file, error))
            .map_err(|failure| not_restored(failure, &file))?;
        drop(line);
        let wired = wiring.open()?;
        let verified = verify_all(&wired)?;
        Ok(answer(&file, &restored, verified))
    }

    /// Names what `--force` is about to replace, if someone is there to answer. The store saves it,
    /// or sets aside what cannot be read; a server's database that cannot be read stays as it is.
    fn ask_about_what_is_there(
        &self,
        wiring: &Wiring,
        context: &Context<'_>,
    ) -> Result<(), Failure> {
        let found = wiring
            .open()
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

fn answer(file: &Path, restored: &Restored, verified: Verified) -> Answer {
    let manifest = &restored.manifest;
    let shown = |path: &PathBuf| path.display().to_string();
    let saved_to = restored.saved_to.as_ref().map(shown);
    let set_aside = restored.set_aside.as_ref().map(shown);
    let data = json!({
        "file": file.display().to_string(),
        "place": restored.place,
        "created_at": manifest.created_at,
        "written_by": manifest.written_by,
        "contents": manifest.contents,
        "verified": {"streams": verified.streams, "events": verified.events},
        "previous_saved_to": saved_to,
        "previous_set_aside": set_aside,
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
    match (saved_to, set_aside) {
        (_, Some(path)) => answer.say(
            Level::Warn,
            format!("the database that was there could not be used and was set aside as {path}"),
        ),
        (Some(path), None) => {
            answer.say(Level::Info, format!("what was there before is in {path}"))
        }
        (None, None) => answer,
    }
}
