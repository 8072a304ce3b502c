//! `agents plan reject`

use clap::Args;
use cleveragents_engine::execution::{RejectOutcome, Rejection};
use serde_json::{Value, json};

use super::abort_apply::abort_stopped_apply;
use super::view::{find, plan_data, position_cell};
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

/// Remove a file, or one hunk of it, from a plan's result
///
/// The file or hunk is restored to its state before the plan. Checks and validations run again on
/// the rest. The reason is recorded as a decision of the plan, for the next attempt. To undo it,
/// use `agents plan rollback` with the checkpoint that is shown.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan diff 4k2m9x0q
  agents plan reject 4k2m9x0q docs/notes.md --why 'no notes were asked for'
  agents plan reject 4k2m9x0q src/cart.rs:2 --why 'the name was right' --resource local/shop")]
pub struct PlanRejectArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// The file as `agents plan diff` shows it, and optionally the number of a hunk, counted from
    /// 1; write a `:` in a file name as %3A
    #[arg(value_name = "FILE[:HUNK]")]
    part: String,

    /// The reason
    #[arg(long, value_name = "TEXT")]
    why: String,

    /// The resource, if several have this path
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
}

impl PlanRejectArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let resource = self.resource.as_deref();
        let resource = resource.map(|text| names::parse_name("resource", text));
        let resource = resource.transpose()?;
        let (path, hunk) = split_hunk(&self.part);
        let bootstrap = context.bootstrap()?;
        let (app, plan) = bootstrap.open_to_abandon(|app| find(app, &self.plan))?;
        abort_stopped_apply(&app, &plan)?;
        let executor = app.executor()?;
        let request = Rejection {
            plan: plan.identity.plan_id,
            resource,
            path: path.to_owned(),
            hunk,
            why: app.mask_secrets(self.why.trim())?,
            actor: app.actor().to_owned(),
        };
        let done = app.block_on(executor.reject(&request))?;
        Ok(self.answer(&done))
    }

    fn answer(&self, done: &RejectOutcome) -> CommandAnswer {
        let id = done.plan.identity.plan_id;
        let mut data = plan_data(&done.plan);
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
            (_, true) => ViewCell::new("none", Tone::Faint),
            (true, _) => ViewCell::new("passed", Tone::Good),
            (false, _) => ViewCell::new("failed", Tone::Bad),
        };
        let rows = vec![
            ("plan", ViewCell::new(id.short(), Tone::Strong)),
            ("rejected", what.into()),
            ("resource", done.resource.to_string().into()),
            ("because", self.why.trim().into()),
            ("validations", validation),
            ("state", position_cell(done.plan.position)),
        ];
        let view = OutputView::new().panel("Rejected", rows);
        let answer = CommandAnswer::new(Value::Object(data), view)
            .with_message(MessageLevel::Info, "Rejected");
        let answer = if passed {
            answer
        } else {
            answer.with_message(
                MessageLevel::Warn,
                format!(
                    "required validations now fail: {}",
                    done.validation.required_failures()
                ),
            )
        };
        answer
            .with_message(MessageLevel::Hint, format!("agents plan diff {id}"))
            .with_message(
                MessageLevel::Hint,
                format!("agents plan rollback {id} {}", done.checkpoint.number),
            )
    }
}

/// Splits `FILE:HUNK`. A number too large for any hunk still counts as one.
fn split_hunk(part: &str) -> (&str, Option<u32>) {
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
        assert_eq!(split_hunk("a.txt"), ("a.txt", None));
        assert_eq!(split_hunk("a.txt:2"), ("a.txt", Some(2)));
        assert_eq!(split_hunk("a:b:03"), ("a:b", Some(3)));
        assert_eq!(split_hunk("a:b"), ("a:b", None));
        assert_eq!(split_hunk("a:"), ("a:", None));
        assert_eq!(split_hunk(":1"), (":1", None));
        assert_eq!(split_hunk("a:99999999999"), ("a", Some(u32::MAX)));
    }
}
