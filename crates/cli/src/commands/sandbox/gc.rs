//! `agents sandbox gc`

use std::time::Duration;

use clap::Args;
use cleveragents_engine::applying::SweptApply;
use cleveragents_engine::sandboxes::{GcMode, GcRequest, GcVerdict, SweptSandbox};
use serde_json::{Value, json};

use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};
use crate::settings::parse_duration;

/// Remove sandboxes that are no longer needed
///
/// Removes sandboxes of plans that are applied or cancelled, sandboxes with discarded changes,
/// incomplete sandboxes of dead processes, and folders of plans deleted more than a day ago, with
/// their refs under refs/cleveragents in your repositories. Sandboxes of unfinished plans are kept,
/// and no sandbox is removed while it is in use; the output gives the reason. Also removes the data
/// of applies that were undone or are older than 30 days; until then `agents plan unapply` can undo
/// an apply.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents sandbox gc --dry-run
  agents sandbox gc
  agents sandbox gc --older-than 7d")]
pub struct SandboxGcArgs {
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,

    /// Only plans that finished at least this long ago: 30m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = parse_age, default_value = "0s")]
    older_than: Duration,
}

fn parse_age(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a number and s, m, h or d, such as 7d".to_owned())
}

impl SandboxGcArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let (_reserve, bootstrap) = context.bootstrap_for_gc()?;
        let app = bootstrap.open()?;
        let service = app.sandboxes()?;
        let request = GcRequest {
            mode: if self.dry_run {
                GcMode::DryRun
            } else {
                GcMode::Remove
            },
            older_than: self.older_than,
            actor: app.actor().to_owned(),
        };
        let swept = app.block_on(service.gc(&request))?;
        let applies = app.block_on(app.apply_service()?.collect_garbage(&request))?;
        Ok(self.answer(&swept, &applies))
    }

    fn answer(&self, swept: &[SweptSandbox], applies: &[SweptApply]) -> CommandAnswer {
        let of = |wanted: fn(&GcVerdict) -> bool| -> Vec<&SweptSandbox> {
            swept.iter().filter(|it| wanted(&it.verdict)).collect()
        };
        let removed = of(|it| matches!(it, GcVerdict::Remove(_)));
        let kept = of(|it| matches!(it, GcVerdict::Keep(_)));
        let failed = of(|it| matches!(it, GcVerdict::Failed(_)));
        let list = |some: &[&SweptSandbox]| some.iter().map(|it| data(it)).collect::<Vec<Value>>();
        let json = json!({
            "dry_run": self.dry_run,
            "removed": list(&removed),
            "kept": list(&kept),
            "failed": list(&failed),
            "applies": applies.iter().map(apply_data).collect::<Vec<Value>>(),
            "summary": {
                "removed": removed.len(),
                "kept": kept.len(),
                "failed": failed.len(),
            },
        });
        let headers = ["sandbox", "plan", "resource", "what", "because"];
        let view = if swept.is_empty() {
            OutputView::new()
        } else {
            let rows = swept.iter().map(|it| row(it, self.dry_run));
            OutputView::new().table("Sandboxes", &headers, rows)
        };
        let number = i64::try_from(removed.len()).unwrap_or(i64::MAX);
        let said = match (number, self.dry_run) {
            (0, _) => "there is nothing to remove".to_owned(),
            (_, true) => "nothing was removed: a dry run".to_owned(),
            (_, false) => format!(
                "{} removed",
                format_count(number, "sandbox").replace("xs", "xes")
            ),
        };
        let answer = CommandAnswer::new(json, view).with_message(MessageLevel::Info, said);
        let answer = add_apply_messages(answer, applies, self.dry_run);
        let answer = if self.dry_run && number > 0 {
            answer.with_message(MessageLevel::Hint, "agents sandbox gc")
        } else {
            answer
        };
        if failed.is_empty() {
            answer
        } else {
            answer
                .with_message(MessageLevel::Error, "not everything could be removed")
                .with_message(MessageLevel::Hint, "agents sandbox gc")
                .with_exit_code(ExitCode::Error)
        }
    }
}

fn reason(verdict: &GcVerdict) -> &str {
    match verdict {
        GcVerdict::Remove(why) | GcVerdict::Keep(why) | GcVerdict::Failed(why) => why,
    }
}

fn apply_data(swept: &SweptApply) -> Value {
    json!({
        "id": swept.id,
        "plan_id": swept.plan,
        "what": match swept.verdict {
            GcVerdict::Remove(_) => "removed",
            GcVerdict::Keep(_) => "kept",
            GcVerdict::Failed(_) => "failed",
        },
        "reason": reason(&swept.verdict),
    })
}

/// Adds messages about applies, if any.
fn add_apply_messages(
    answer: CommandAnswer,
    applies: &[SweptApply],
    dry_run: bool,
) -> CommandAnswer {
    let of = |wanted: fn(&GcVerdict) -> bool| {
        let number = applies.iter().filter(|it| wanted(&it.verdict)).count();
        i64::try_from(number).unwrap_or(i64::MAX)
    };
    let removed = of(|it| matches!(it, GcVerdict::Remove(_)));
    let failed = of(|it| matches!(it, GcVerdict::Failed(_)));
    let answer = match (removed, dry_run) {
        (0, _) => answer,
        (_, true) => answer.with_message(
            MessageLevel::Info,
            format!("data of {} would be removed", format_apply_count(removed)),
        ),
        (_, false) => answer.with_message(
            MessageLevel::Info,
            format!("data of {} removed", format_apply_count(removed)),
        ),
    };
    match failed {
        0 => answer,
        _ => answer.with_message(
            MessageLevel::Warn,
            format!(
                "data of {} could not be removed; the next run tries again",
                format_apply_count(failed)
            ),
        ),
    }
}

fn format_apply_count(number: i64) -> String {
    match number {
        1 => "1 finished apply".to_owned(),
        _ => format!("{number} finished applies"),
    }
}

fn data(swept: &SweptSandbox) -> Value {
    json!({
        "id": swept.sandbox.id,
        "plan_id": swept.sandbox.plan,
        "resource": swept.sandbox.resource,
        "reason": reason(&swept.verdict),
    })
}

fn row(swept: &SweptSandbox, dry_run: bool) -> Vec<ViewCell> {
    let none = || ViewCell::new("none", Tone::Faint);
    let what = match (&swept.verdict, dry_run) {
        (GcVerdict::Remove(_), false) => ViewCell::new("removed", Tone::Good),
        (GcVerdict::Remove(_), true) => ViewCell::new("would be removed", Tone::Doubtful),
        (GcVerdict::Keep(_), _) => ViewCell::new("kept", Tone::Normal),
        (GcVerdict::Failed(_), _) => ViewCell::new("failed", Tone::Bad),
    };
    let about = &swept.sandbox;
    vec![
        ViewCell::new(about.id.short(), Tone::Strong),
        about.plan.map_or_else(none, |plan| plan.short().into()),
        about
            .resource
            .as_ref()
            .map_or_else(none, |name| name.to_string().into()),
        what,
        reason(&swept.verdict).to_owned().into(),
    ]
}
