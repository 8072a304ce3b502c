//! `agents sandbox gc`

use std::time::Duration;

use clap::Args;
use cleveragents_engine::applying::SweptApply;
use cleveragents_engine::sandboxes::{GcAsk, Mode, Swept, Verdict};
use serde_json::{Value, json};

use crate::commands::Context;
use crate::failure::{ExitCode, Failure};
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::settings::parse_duration;

/// Remove sandboxes nobody needs any more
///
/// Those of plans that are applied or cancelled, those whose changes are not wanted, what a dead
/// process left half-made, and folders of plans that were deleted more than a day ago; with what
/// was kept of them under refs/cleveragents in your repositories. A plan that is still to be worked
/// on keeps its sandboxes, and nothing is removed while somebody works in it. What is kept is told
/// with the reason. With them goes what was kept of applies that were taken back, or are older than
/// 30 days: so long `agents plan unapply` can take one back.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents sandbox gc --dry-run
  agents sandbox gc
  agents sandbox gc --older-than 7d")]
pub struct Gc {
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,

    /// Only of plans that were finished at least this long ago: 30m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s")]
    older_than: Duration,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a number and s, m, h or d, such as 7d".to_owned())
}

impl Gc {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let (_reserve, wiring) = context.collecting()?;
        let wired = wiring.open()?;
        let service = wired.sandboxes()?;
        let ask = GcAsk {
            mode: match self.dry_run {
                true => Mode::Look,
                false => Mode::Remove,
            },
            older_than: self.older_than,
            actor: wired.actor().to_owned(),
        };
        let swept = wired.wait(service.gc(&ask))?;
        let applies = wired.wait(wired.applies()?.collect(&ask))?;
        Ok(self.answer(&swept, &applies))
    }

    fn answer(&self, swept: &[Swept], applies: &[SweptApply]) -> Answer {
        let of = |wanted: fn(&Verdict) -> bool| -> Vec<&Swept> {
            swept.iter().filter(|it| wanted(&it.verdict)).collect()
        };
        let removed = of(|it| matches!(it, Verdict::Remove(_)));
        let kept = of(|it| matches!(it, Verdict::Keep(_)));
        let failed = of(|it| matches!(it, Verdict::Failed(_)));
        let list = |some: &[&Swept]| some.iter().map(|it| data(it)).collect::<Vec<Value>>();
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
        let view = match swept.is_empty() {
            true => View::new(),
            false => {
                let rows = swept.iter().map(|it| row(it, self.dry_run));
                View::new().table("Sandboxes", &headers, rows)
            }
        };
        let number = i64::try_from(removed.len()).unwrap_or(i64::MAX);
        let said = match (number, self.dry_run) {
            (0, _) => "there is nothing to remove".to_owned(),
            (_, true) => "nothing was removed: a dry run".to_owned(),
            (_, false) => format!(
                "{} removed",
                counted(number, "sandbox").replace("xs", "xes")
            ),
        };
        let answer = Answer::new(json, view).say(Level::Info, said);
        let answer = told_applies(answer, applies, self.dry_run);
        let answer = match self.dry_run && number > 0 {
            true => answer.say(Level::Hint, "agents sandbox gc"),
            false => answer,
        };
        match failed.is_empty() {
            true => answer,
            false => answer
                .say(Level::Error, "not everything could be removed")
                .say(Level::Hint, "agents sandbox gc")
                .exit(ExitCode::Error),
        }
    }
}

fn told(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Remove(why) | Verdict::Keep(why) | Verdict::Failed(why) => why,
    }
}

fn apply_data(swept: &SweptApply) -> Value {
    json!({
        "id": swept.id,
        "plan_id": swept.plan,
        "what": match swept.verdict {
            Verdict::Remove(_) => "removed",
            Verdict::Keep(_) => "kept",
            Verdict::Failed(_) => "failed",
        },
        "reason": told(&swept.verdict),
    })
}

/// What is said of applies, if there is something to say.
fn told_applies(answer: Answer, applies: &[SweptApply], dry_run: bool) -> Answer {
    let of = |wanted: fn(&Verdict) -> bool| {
        let number = applies.iter().filter(|it| wanted(&it.verdict)).count();
        i64::try_from(number).unwrap_or(i64::MAX)
    };
    let removed = of(|it| matches!(it, Verdict::Remove(_)));
    let failed = of(|it| matches!(it, Verdict::Failed(_)));
    let answer = match (removed, dry_run) {
        (0, _) => answer,
        (_, true) => answer.say(
            Level::Info,
            format!("{} would be forgotten", finished(removed)),
        ),
        (_, false) => answer.say(Level::Info, format!("{} forgotten", finished(removed))),
    };
    match failed {
        0 => answer,
        _ => answer.say(
            Level::Warn,
            format!(
                "{} could not be forgotten; the next time it is tried again",
                finished(failed)
            ),
        ),
    }
}

fn finished(number: i64) -> String {
    match number {
        1 => "1 finished apply".to_owned(),
        _ => format!("{number} finished applies"),
    }
}

fn data(swept: &Swept) -> Value {
    json!({
        "id": swept.about.id,
        "plan_id": swept.about.plan,
        "resource": swept.about.resource,
        "reason": told(&swept.verdict),
    })
}

fn row(swept: &Swept, dry_run: bool) -> Vec<Cell> {
    let none = || Cell::new("none", Tone::Faint);
    let what = match (&swept.verdict, dry_run) {
        (Verdict::Remove(_), false) => Cell::new("removed", Tone::Good),
        (Verdict::Remove(_), true) => Cell::new("would go", Tone::Doubtful),
        (Verdict::Keep(_), _) => Cell::new("kept", Tone::Normal),
        (Verdict::Failed(_), _) => Cell::new("failed", Tone::Bad),
    };
    let about = &swept.about;
    vec![
        Cell::new(about.id.short(), Tone::Strong),
        about.plan.map_or_else(none, |plan| plan.short().into()),
        about
            .resource
            .as_ref()
            .map_or_else(none, |name| name.to_string().into()),
        what,
        told(&swept.verdict).to_owned().into(),
    ]
}
