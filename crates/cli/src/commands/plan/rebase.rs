//! `agents plan rebase`

use clap::Args;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::rebase::RebasedResource;
use cleveragents_domain::{Plan, ResourceType, ValidationSummary};
use cleveragents_engine::applying::{ApplyFailure, RebaseOutcome};
use cleveragents_engine::execution::ExecuteOutcome;
use cleveragents_ports::targets::Conflict;
use serde_json::{Map, Value, json};

use super::abort_apply::abort_stopped_apply;
use super::apply::{blocked_failure, conflict_data, is_sandbox_removed};
use super::execute::stopped_failure;
use super::progress::{PlanProgress, run_with_progress};
use super::view::{find, plan_data, position_cell};
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

/// Rebase a plan's result onto the current commits of its targets
///
/// For a plan that is executed and not applied. The result is merged with the current commits in
/// the sandbox; checks and validations run again on the merge. Of a folder without git, the current
/// files are used. If the plan and the target changed the same lines, the plan is queued to run
/// again on the current target (exit code 5). Either all resources are rebased or none. A stopped
/// apply is aborted first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan rebase 4k2m9x0q
  agents plan rebase 4k2m9x0q --format json")]
pub struct PlanRebaseArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,
}

impl PlanRebaseArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let (app, plan) = bootstrap.open_to_abandon(|app| find(app, &self.plan))?;
        let id = plan.identity.plan_id;
        abort_stopped_apply(&app, &plan)?;
        let service = app.apply_service()?;
        let progress = PlanProgress::new(false, context);
        let rebased = run_with_progress(&app, &progress, id, service.rebase(id, app.actor()))?;
        let rebased = rebased.map_err(|error| match error {
            ApplyFailure::Execution(error) => stopped_failure(*error, id),
            error => error.into(),
        })?;
        match &rebased {
            RebaseOutcome::Blocked { plan, conflicts } => Err(rebase_failure(plan, conflicts)),
            RebaseOutcome::Unmoved { resources, .. } => {
                let data = data(&rebased, resources, None, &[]);
                let view = view(&rebased, resources, None);
                Ok(add_unmoved_message(
                    CommandAnswer::new(Value::Object(data), view),
                    resources,
                ))
            }
            RebaseOutcome::Requeued {
                resources,
                conflicts,
                ..
            } => {
                let failure = requeued_failure(id, conflicts);
                Err(with_data(
                    failure,
                    data(&rebased, resources, None, conflicts),
                ))
            }
            RebaseOutcome::Rebased {
                executed,
                resources,
                validation,
            } => {
                let validation = validation.as_ref();
                let data = data(&rebased, resources, validation, &[]);
                match not_ready_failure(id, executed) {
                    Some(failure) => Err(with_data(failure, data)),
                    None => {
                        let view = view(&rebased, resources, validation);
                        Ok(CommandAnswer::new(Value::Object(data), view)
                            .with_message(MessageLevel::Info, "Rebased")
                            .with_message(MessageLevel::Hint, format!("agents plan diff {id}"))
                            .with_message(MessageLevel::Hint, format!("agents plan apply {id}")))
                    }
                }
            }
        }
    }
}

fn with_data(failure: CommandFailure, data: Map<String, Value>) -> CommandFailure {
    let data = data.into_iter();
    data.fold(failure, |failure, (key, value)| failure.with(&key, value))
}

fn data(
    rebased: &RebaseOutcome,
    resources: &[RebasedResource],
    validation: Option<&ValidationSummary>,
    conflicts: &[Conflict],
) -> Map<String, Value> {
    let mut data = plan_data(rebased.plan());
    let listed = resources.iter().map(|it| {
        json!({
            "resource": it.resource,
            "from": it.from,
            "to": it.to,
        })
    });
    let more = json!({
        "resources": listed.collect::<Vec<Value>>(),
        "validations": validation,
        "conflicts": conflict_data(conflicts),
    });
    if let Value::Object(more) = more {
        data.extend(more);
    }
    data
}

fn view(
    rebased: &RebaseOutcome,
    resources: &[RebasedResource],
    validation: Option<&ValidationSummary>,
) -> OutputView {
    let plan = rebased.plan();
    let mut rows = vec![
        (
            "plan",
            ViewCell::new(plan.identity.plan_id.short(), Tone::Strong),
        ),
        ("name", plan.name.to_string().into()),
        ("state", position_cell(plan.position)),
    ];
    for it in resources {
        let text = match (it.from == it.to, it.resource_type) {
            (true, ResourceType::FsDirectory) => format!("{}: a folder, unchanged", it.resource),
            (false, ResourceType::FsDirectory) => {
                format!("{}: the folder as it is now", it.resource)
            }
            (true, _) => format!(
                "{}: still at {}",
                it.resource,
                short_commit(it.to.as_deref())
            ),
            (false, _) => format!(
                "{}: {} → {}",
                it.resource,
                short_commit(it.from.as_deref()),
                short_commit(it.to.as_deref())
            ),
        };
        rows.push(("resource", text.into()));
    }
    if let Some(summary) = validation {
        let cell = match (summary.permits_apply(), summary.results.is_empty()) {
            (_, true) => ViewCell::new("none", Tone::Faint),
            (true, _) => ViewCell::new("passed", Tone::Good),
            (false, _) => ViewCell::new("failed", Tone::Bad),
        };
        rows.push(("validations", cell));
    }
    OutputView::new().panel("Rebase", rows)
}

/// Returns the abbreviated commit id, as git displays it.
fn short_commit(commit: Option<&str>) -> &str {
    match commit {
        Some(commit) => commit.get(..7).unwrap_or(commit),
        None => "no commit",
    }
}

fn add_unmoved_message(answer: CommandAnswer, resources: &[RebasedResource]) -> CommandAnswer {
    let is_repository = |it: &&RebasedResource| it.resource_type == ResourceType::GitCheckout;
    let repositories: Vec<&RebasedResource> = resources.iter().filter(is_repository).collect();
    let text = match repositories.as_slice() {
        [] => "nothing to rebase: the folder has not changed since the plan began".to_owned(),
        [one] => format!(
            "nothing to rebase: the target is still at {}",
            short_commit(one.to.as_deref())
        ),
        several => {
            let at = several.iter();
            let at = at.map(|it| format!("{} ({})", short_commit(it.to.as_deref()), it.resource));
            let at: Vec<String> = at.collect();
            format!(
                "nothing to rebase: the targets are still at {}",
                at.join(", ")
            )
        }
    };
    answer.with_message(MessageLevel::Info, text)
}

fn rebase_failure(plan: &Plan, conflicts: &[Conflict]) -> CommandFailure {
    let id = plan.identity.plan_id;
    let what = "cannot rebase: a target has conflicts";
    blocked_failure(plan, conflicts, what)
        .hint(format!("agents plan rebase {id}"))
        .hint(format!("agents plan cancel {id}"))
}

fn requeued_failure(id: PlanId, conflicts: &[Conflict]) -> CommandFailure {
    let what = if is_sandbox_removed(conflicts) {
        "no result to rebase: the plan is queued to run again"
    } else {
        "cannot merge the result: the plan is queued to run again on the current targets"
    };
    let failure = CommandFailure::new(ExitCode::Decision, what).kind("requeued");
    let listed = conflicts.iter();
    listed
        .fold(failure, |failure, it| failure.because(it.to_string()))
        .hint(format!("agents plan execute {id}"))
}

/// Returns why a rebased result cannot be applied yet, if it cannot.
fn not_ready_failure(id: PlanId, executed: &ExecuteOutcome) -> Option<CommandFailure> {
    match executed {
        ExecuteOutcome::Constrained { reason, .. } => Some(
            CommandFailure::new(
                ExitCode::Decision,
                "rebased, but required validations failed",
            )
            .kind("validations")
            .because(reason.clone())
            .hint(format!("agents plan execute {id}"))
            .hint(format!("agents plan revert {id}")),
        ),
        ExecuteOutcome::Failed { reason, .. } => Some(
            CommandFailure::new(ExitCode::Error, "rebased, but could not be validated")
                .because(reason.clone())
                .hint(format!("agents plan execute {id}")),
        ),
        ExecuteOutcome::Cancelled(_) => Some(
            CommandFailure::new(ExitCode::Conflict, "the plan was cancelled").kind("cancelled"),
        ),
        _ => None,
    }
}
