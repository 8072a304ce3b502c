//! `agents plan unapply`

use clap::Args;
use cleveragents_domain::apply_record::ApplyRecord;
use cleveragents_engine::applying::Unapplied;
use cleveragents_ports::targets::Destination;
use serde_json::{Value, json};

use super::apply::blocked_failure;
use super::destination::repeat_argument;
use super::progress::{PlanProgress, run_with_progress};
use super::view::{confirm_or_fail, find, plan_data, position_cell};
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

/// Undo the changes of an applied plan
///
/// The reverse change is merged with the current state of the target, as safely as an apply: a file
/// that you changed since blocks it and is named. In a git repository it is a separate commit. The
/// plan is then at `apply/unapplied`: it counts as finished, and can be applied, reverted or
/// corrected again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan unapply 4k2m9x0q
  agents plan unapply 4k2m9x0q --yes")]
pub struct PlanUnapplyArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

impl PlanUnapplyArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let plan = find(&app, &self.plan)?;
        let id = plan.identity.plan_id;
        let question = format!("Undo the changes that plan {} applied?", plan.name);
        confirm_or_fail(&question, self.yes, context, "nothing was undone")?;
        let service = app.apply_service()?;
        let request = app.apply_request(id, Destination::Current);
        let progress = PlanProgress::new(false, context);
        let (plan, apply, said) = match run_with_progress(
            &app,
            &progress,
            id,
            service.unapply(&request),
        )?? {
            Unapplied::Done { plan, apply } => (plan, apply, "Changes undone"),
            Unapplied::Unchanged { plan, apply } => {
                (plan, apply, "the changes were already undone")
            }
            Unapplied::Blocked { plan, conflicts } => {
                let what = "cannot unapply: conflicting files";
                return Err(blocked_failure(&plan, &conflicts, what)
                    .hint(format!("agents plan unapply {id}")));
            }
            Unapplied::Stopped {
                plan, conflicts, ..
            } => {
                let what =
                    "the target was changed meanwhile; files changed by others were not touched";
                return Err(blocked_failure(&plan, &conflicts, what)
                    .hint(format!("agents plan unapply {id}")));
            }
        };
        let mut data = plan_data(&plan);
        data.insert("apply_id".to_owned(), json!(apply.id));
        let results: Vec<&Option<Value>> = apply.resources.iter().map(|it| &it.result).collect();
        data.insert("resources".to_owned(), json!(results));
        let mut rows = vec![
            ("plan", ViewCell::new(id.short(), Tone::Strong)),
            ("name", plan.name.to_string().into()),
            ("state", position_cell(plan.position)),
        ];
        for result in results.into_iter().flatten() {
            if let Some(commit) = result.get("commit").and_then(Value::as_str) {
                rows.push(("commit", commit.to_owned().into()));
            }
        }
        let view = OutputView::new().panel("Unapplied", rows);
        Ok(CommandAnswer::new(Value::Object(data), view)
            .with_message(MessageLevel::Info, said)
            .with_message(
                MessageLevel::Hint,
                format!("agents plan apply {id}{}", applied_to(&apply)),
            ))
    }
}

/// Where the plan was applied to, as an argument that repeats it.
fn applied_to(apply: &ApplyRecord) -> String {
    let destination = serde_json::from_value(apply.destination.clone());
    destination.map_or_else(|_| String::new(), |it| repeat_argument(&it))
}
