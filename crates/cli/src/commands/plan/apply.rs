//! `agents plan apply`

use clap::Args;
use cleveragents_domain::apply_record::{ApplyPartState, ApplyRecord};
use cleveragents_domain::{Plan, PlanState, ValidationSummary};
use cleveragents_engine::applying::ApplyOutcome;
use cleveragents_ports::targets::{Conflict, ConflictReason};
use serde_json::{Value, json};

use super::destination::DestinationArgs;
use super::progress::{PlanProgress, run_with_progress};
use super::result_warnings::{result_secret_warnings, with_warnings};
use super::view::{confirm_or_fail, elapsed, find, format_duration, plan_data, position_cell};
use crate::argument_types::PlanArgument;
use crate::arguments::Format;
use crate::bootstrap::{AppContext, PlanWork};
use crate::commands::{CommandContext, OutputMode};
use crate::confirmation::is_interactive;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};

/// Apply a plan's changes
///
/// The changes are merged with the current state of the target; either all of a plan's resources
/// change or none. A changed file with uncommitted changes of yours blocks the apply and is named;
/// your other files are not touched. The changes are applied once, even if the command is repeated
/// or run by two processes. An interrupted apply is finished by the next command that writes, or by
/// `agents plan resume`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan apply 4k2m9x0q
  agents plan apply 4k2m9x0q --yes
  agents plan apply 4k2m9x0q --to branch agents/fix-lint
  agents plan apply 4k2m9x0q --to worktree
  agents plan apply 4k2m9x0q --to patch fix-lint.patch
  agents plan apply 4k2m9x0q --mark-applied")]
pub struct PlanApplyArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    #[command(flatten)]
    to: DestinationArgs,

    /// Mark the plan as applied without changing files
    ///
    /// For an apply that was stopped after the point of no return because a target changed, and
    /// that you have resolved by hand.
    // The alias is the former name, for existing scripts.
    #[arg(long, alias = "as-it-stands", conflicts_with = "to")]
    mark_applied: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    /// Write each event as a line of JSON as it happens, and the envelope as the last line
    #[arg(long)]
    events: bool,
}

impl PlanApplyArgs {
    pub fn output_mode(&self, _: Format) -> OutputMode {
        if self.events {
            OutputMode::Events
        } else {
            OutputMode::Answer
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let destination = self.to.destination(context)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let plan = find(&app, &self.plan)?;
        let id = plan.identity.plan_id;
        if !plan.position.is_terminal() || plan.position.state() == PlanState::Unapplied {
            let question = if self.mark_applied {
                format!("Mark plan {} as applied without changing files?", plan.name)
            } else {
                self.apply_question(&app, &plan, context)
            };
            confirm_or_fail(&question, self.yes, context, "nothing was applied")?;
        }
        let service = app.apply_service()?;
        let request = app.apply_request(id, destination);
        let progress = PlanProgress::new(self.events, context);
        let applied = if self.mark_applied {
            run_with_progress(&app, &progress, id, service.settle(&request))??
        } else {
            run_with_progress(&app, &progress, id, service.apply(&request))??
        };
        outcome_answer(&app, &applied)
    }

    /// The question, after what a person should know who is asked.
    fn apply_question(
        &self,
        app: &AppContext<'_>,
        plan: &Plan,
        context: &CommandContext<'_>,
    ) -> String {
        let question = format!("Apply plan {}?", plan.name);
        if self.yes || !is_interactive(context.environment) {
            return question;
        }
        // Why a result cannot be read is said by the apply itself.
        let warnings = result_secret_warnings(app, plan.identity.plan_id).unwrap_or_default();
        [warnings, vec![question]].concat().join("\n")
    }
}

/// Returns the answer for the outcome of an apply.
pub(crate) fn outcome_answer(
    app: &AppContext<'_>,
    outcome: &ApplyOutcome,
) -> Result<CommandAnswer, CommandFailure> {
    let plan = outcome.plan();
    let id = plan.identity.plan_id;
    match outcome {
        ApplyOutcome::Applied { apply, .. } => {
            let work = app.plan_work(id)?;
            let answer = applied_answer(app, plan, &work, Some(apply));
            // It is applied, whether or not this can be found out.
            let warnings = result_secret_warnings(app, id).unwrap_or_default();
            let answer = with_warnings(answer, warnings);
            Ok(match work.paths {
                0 => answer.with_message(MessageLevel::Info, "Applied: no changes"),
                _ => answer
                    .with_message(MessageLevel::Info, "Changes applied")
                    .with_message(MessageLevel::Hint, format!("agents plan unapply {id}")),
            })
        }
        ApplyOutcome::Unchanged { apply, .. } => {
            let answer = applied_answer(app, plan, &app.plan_work(id)?, apply.as_ref());
            let text = format!("nothing to apply: the plan is at {}", plan.position);
            Ok(answer.with_message(MessageLevel::Info, text))
        }
        ApplyOutcome::Blocked { conflicts, .. } => Err(conflict_failure(
            plan,
            conflicts,
            "cannot apply: conflicting files",
        )),
        ApplyOutcome::Stopped { conflicts, .. } => Err(stopped_failure(plan, conflicts)),
        ApplyOutcome::ValidationsFailed { reason, .. } => Err(CommandFailure::new(
            ExitCode::NotDone,
            "nothing was applied: required validations failed",
        )
        .kind("validations")
        .because(reason.clone())
        .hint(format!("agents plan diff {id}"))
        .hint(format!("agents plan revert {id}"))
        .with("plan_id", json!(id))
        .with("phase", json!(plan.position.phase()))
        .with("state", json!(plan.position.state()))),
        ApplyOutcome::Cancelled(_) => Err(CommandFailure::new(
            ExitCode::Conflict,
            "nothing was applied: the plan was cancelled",
        )
        .kind("cancelled")
        .with("plan_id", json!(id))),
    }
}

pub(super) fn blocked_failure(plan: &Plan, conflicts: &[Conflict], what: &str) -> CommandFailure {
    let failure = CommandFailure::new(ExitCode::Conflict, what).kind("conflicts");
    conflicts
        .iter()
        .fold(failure, |failure, it| failure.because(it.to_string()))
        .with("plan_id", json!(plan.identity.plan_id))
        .with("phase", json!(plan.position.phase()))
        .with("state", json!(plan.position.state()))
        .with("conflicts", conflict_data(conflicts).into())
}

pub(super) fn conflict_data(conflicts: &[Conflict]) -> Vec<Value> {
    let data = |it: &Conflict| {
        json!({
            "path": it.path,
            "place": it.place,
            "reason": it.reason.to_string(),
        })
    };
    conflicts.iter().map(data).collect()
}

/// Returns the failure for an apply with conflicts, with the possible next steps.
fn conflict_failure(plan: &Plan, conflicts: &[Conflict], what: &str) -> CommandFailure {
    let id = plan.identity.plan_id;
    let failure = blocked_failure(plan, conflicts, what);
    if is_sandbox_removed(conflicts) {
        return failure
            .hint(format!("agents plan rebase {id}"))
            .hint(format!("agents plan cancel {id}"));
    }
    let failure = if has_target_moved(conflicts) {
        failure.hint(format!("agents plan rebase {id}"))
    } else {
        failure
    };
    failure
        .hint(format!("agents plan apply {id}"))
        .hint(format!("agents plan cancel {id}"))
}

/// Returns the failure of an apply that stopped after it wrote files. It can be cancelled only
/// while these are unchanged.
fn stopped_failure(plan: &Plan, conflicts: &[Conflict]) -> CommandFailure {
    let id = plan.identity.plan_id;
    let what = "the target was changed meanwhile; files changed by others were not touched";
    let failure = blocked_failure(plan, conflicts, what);
    let failure = if has_target_moved(conflicts) || is_sandbox_removed(conflicts) {
        failure.hint(format!("agents plan rebase {id}"))
    } else {
        failure
    };
    let failure = failure.hint(format!("agents plan apply {id} --mark-applied"));
    if conflicts.iter().any(|it| it.path.is_some()) {
        failure.hint("restore the files, then repeat the command")
    } else {
        failure.hint(format!("agents plan cancel {id}"))
    }
}

/// Returns whether the plan's sandbox was removed, so that only executing the plan again helps.
pub(super) fn is_sandbox_removed(conflicts: &[Conflict]) -> bool {
    let is_removed = |it: &Conflict| it.reason == ConflictReason::SandboxRemoved;
    conflicts.iter().any(is_removed)
}

/// Returns whether the target has new commits, or the folder has changes, so that a rebase may help.
fn has_target_moved(conflicts: &[Conflict]) -> bool {
    let is_move = |it: &Conflict| {
        matches!(
            it.reason,
            ConflictReason::Merge { .. }
                | ConflictReason::Edited
                | ConflictReason::Moved { .. }
                | ConflictReason::Validations { .. }
        )
    };
    conflicts.iter().any(is_move)
}

fn applied_answer(
    app: &AppContext<'_>,
    plan: &Plan,
    work: &PlanWork,
    apply: Option<&ApplyRecord>,
) -> CommandAnswer {
    let mut data = plan_data(plan);
    let parts: Vec<Value> = apply
        .iter()
        .flat_map(|it| &it.resources)
        .map(|part| {
            let sandbox = work.sandboxes.iter().find(|it| it.id == part.sandbox_id);
            json!({
                "resource": sandbox.map(|it| &it.resource_name),
                "state": part.state,
                "result": part.result,
            })
        })
        .collect();
    let summary: Option<ValidationSummary> = work
        .validation
        .clone()
        .and_then(|it| serde_json::from_value(it).ok());
    let more = json!({
        "artifacts": work.paths,
        "applied_at": plan.timestamps.finished_at,
        "destination": apply.map(|it| &it.destination),
        "resources": parts,
        "validation": summary,
        "sandbox_cleanup": { "worktree": "kept", "branch": "kept", "checkpoint": "kept" },
        "lifecycle": {
            "phase": plan.position.phase(),
            "state": plan.position.state(),
            "total_duration": format_duration(elapsed(plan, app.now())),
            "total_cost": null,
            "decisions_made": work.decisions,
            "child_plans": 0,
        },
    });
    if let Value::Object(more) = more {
        data.extend(more);
    }
    let mut rows = vec![
        (
            "plan",
            ViewCell::new(plan.identity.plan_id.short(), Tone::Strong),
        ),
        ("name", plan.name.to_string().into()),
        ("state", position_cell(plan.position)),
        (
            "changed",
            format_count(i64::try_from(work.paths).unwrap_or(i64::MAX), "path").into(),
        ),
    ];
    for part in apply.iter().flat_map(|it| &it.resources) {
        if let (ApplyPartState::Done, Some(result)) = (part.state, &part.result)
            && let Some(commit) = result.get("commit").and_then(Value::as_str)
        {
            rows.push(("commit", commit.to_owned().into()));
        }
    }
    let view = OutputView::new().panel("Applied", rows);
    CommandAnswer::new(Value::Object(data), view)
}
