//! `agents plan reject`

use clap::Args;
use cleveragents_engine::execution::{Rejected, Rejection};
use serde_json::{Value, json};

use super::aborting::abort_stopped_apply;
use super::shown::{find, position, standing};
use crate::commands::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{Answer, Cell, Level, Tone, View};
use crate::typed::PlanArgument;

/// Take a file, or one hunk of it, out of what a plan is about to apply
///
/// The file is then as it was before the plan, or that hunk of it is. Checks and validations run
/// again on what is left. The reason is kept as a decision of the plan, so that whoever tries again
/// knows it. `agents plan rollback` to the checkpoint that is named undoes it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan diff 4k2m9x0q
  agents plan reject 4k2m9x0q docs/notes.md --why 'nobody asked for notes'
  agents plan reject 4k2m9x0q src/cart.rs:2 --why 'the name was right' --resource local/shop")]
pub struct Reject {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// The file as `agents plan diff` shows it, and the number of a hunk, counted from 1; a `:` in
    /// the name of a file is written %3A
    #[arg(value_name = "FILE[:HUNK]")]
    part: String,

    /// Why it is not wanted
    #[arg(long, value_name = "TEXT")]
    why: String,

    /// Which of several resources is meant
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
}

impl Reject {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let resource = self.resource.as_deref();
        let resource = resource.map(|text| names::name("resource", text));
        let resource = resource.transpose()?;
        let (path, hunk) = split(&self.part);
        let wiring = context.wiring()?;
        let (wired, plan) = wiring.open_to_abandon(|wired| find(wired, &self.plan))?;
        abort_stopped_apply(&wired, &plan)?;
        let executor = wired.executor()?;
        let ask = Rejection {
            plan: plan.identity.plan_id,
            resource,
            path: path.to_owned(),
            hunk,
            why: wired.hide(self.why.trim())?,
            actor: wired.actor().to_owned(),
        };
        let done = wired.wait(executor.reject(&ask))?;
        Ok(self.answer(&done))
    }

    fn answer(&self, done: &Rejected) -> Answer {
        let id = done.plan.identity.plan_id;
        let mut data = standing(&done.plan);
        let more = json!({
            "rejected": {
                "path": done.path,
                "hunk": done.hunk,
                "resource": done.resource,
                "why": self.why.trim(),
                "paths_changed": done.changes,
            },
            "validation": done.validation,
            "undo": { "checkpoint": done.checkpoint.id, "number": done.checkpoint.number },
        });
        if let Value::Object(more) = more {
            data.extend(more);
        }
        let what = match done.hunk {
            Some(hunk) => format!("hunk {hunk} of {}", done.path),
            None => done.path.to_string(),
        };
        let passed = done.validation.permits_apply();
        let validation = match (passed, done.validation.results.is_empty()) {
            (_, true) => Cell::new("nothing to ask", Tone::Faint),
            (true, _) => Cell::new("passed", Tone::Good),
            (false, _) => Cell::new("failed", Tone::Bad),
        };
        let rows = vec![
            ("plan", Cell::new(id.short(), Tone::Strong)),
            ("taken out", what.into()),
            ("resource", done.resource.to_string().into()),
            ("because", self.why.trim().into()),
            ("validations", validation),
            ("stands at", position(done.plan.position)),
        ];
        let view = View::new().panel("Rejected", rows);
        let answer = Answer::new(Value::Object(data), view).say(Level::Info, "Rejected");
        let answer = match passed {
            true => answer,
            false => answer.say(
                Level::Warn,
                format!(
                    "required validations fail now: {}",
                    done.validation.obstacles()
                ),
            ),
        };
        answer
            .say(Level::Hint, format!("agents plan diff {id}"))
            .say(
                Level::Hint,
                format!("agents plan rollback {id} {}", done.checkpoint.number),
            )
    }
}

/// The file and the number of a hunk; a number too large for any is still one.
fn split(part: &str) -> (&str, Option<u32>) {
    match part.rsplit_once(':') {
        Some((path, number))
            if !path.is_empty()
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            (path, Some(number.parse().unwrap_or(u32::MAX)))
        }
        _ => (part, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_behind_the_last_colon_is_a_hunk() {
        assert_eq!(split("a.txt"), ("a.txt", None));
        assert_eq!(split("a.txt:2"), ("a.txt", Some(2)));
        assert_eq!(split("a:b:03"), ("a:b", Some(3)));
        assert_eq!(split("a:b"), ("a:b", None));
        assert_eq!(split("a:"), ("a:", None));
        assert_eq!(split(":1"), (":1", None));
        assert_eq!(split("a:99999999999"), ("a", Some(u32::MAX)));
    }
}
