//! `agents verify-commit`

use std::path::PathBuf;

use clap::Args;
use cleveragents_api::verify_commit::VerifyCommit;

use super::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Check that a commit is the one that its plan's journal records
///
/// Commits of plans end with the line `Agents-Plan: PLAN@HASH`. The check passes if the plan's journal was
/// not altered, has that hash where an apply began, and this apply made exactly this commit. Exits 1
/// with the reason if not.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents verify-commit HEAD
  agents verify-commit v1.2~3 --path ~/shop --format json")]
pub struct VerifyCommitArgs {
    /// The commit, as git names it
    #[arg(value_name = "REV")]
    revision: String,

    /// A folder of the repository
    #[arg(long, value_name = "DIR", default_value = ".")]
    path: PathBuf,
}

impl VerifyCommitArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(VerifyCommit {
            revision: self.revision.clone(),
            path: context.absolute(&self.path),
        })?;
        CommandAnswer::from_reply(reply, |it| {
            let rows = [
                ("commit", ViewCell::new(it.commit.clone(), Tone::Strong)),
                ("plan", it.plan_id.short().into()),
                ("name", it.plan_name.to_string().into()),
                ("made by", it.direction.as_str().into()),
                ("journal event", it.plan_seq.to_string().into()),
                ("events", it.events.to_string().into()),
                ("journal hash", it.journal_hash.clone().into()),
            ];
            OutputView::new().panel("Commit", rows)
        })
    }
}
