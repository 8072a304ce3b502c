//! `agents plan rebase`

use clap::Args;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Plan, ResourceType, ValidationSummary};
use cleveragents_engine::applying::{ApplyFailure, RebaseOutcome, RebasedResource};
use cleveragents_engine::execution::Executed;
use cleveragents_engine::ports::targets::Conflict;
use serde_json::{Map, Value, json};

use super::aborting::abort_stopped_apply;
use super::apply::{blocked, conflict_data, is_removed};
use super::execute::stopped;
use super::shown::{find, position, standing};
use super::working::{Told, accompany};
use crate::commands::Context;
use crate::failure::{ExitCode, Failure};
use crate::output::{Answer, Cell, Level, Tone, View};
use crate::typed::PlanArgument;

/// Move a plan's result onto the current commits of its targets
///
/// For a plan whose work is done and not applied. The result is merged with what is checked out
/// now, in the sandbox; checks and validations run again on the merge. Where the plan and the
/// target changed the same lines, the plan is queued to be executed again on the target as it is
/// now (exit code 5). All resources move, or none. A stopped apply is aborted first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan rebase 4k2m9x0q
  agents plan rebase 4k2m9x0q --format json")]
pub struct Rebase {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,
}

impl Rebase {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let (wired, plan) = wiring.open_to_abandon(|wired| find(wired, &self.plan))?;
        let id = plan.identity.plan_id;
        abort_stopped_apply(&wired, &plan)?;
        let service = wired.applies()?;
        let told = Told::new(false, context);
        let rebased = accompany(&wired, &told, id, service.rebase(id, wired.actor()))?;
        let rebased = rebased.map_err(|error| match error {
            ApplyFailure::Execution(error) => stopped(*error, id),
            error => error.into(),
        })?;
        match &rebased {
            RebaseOutcome::Blocked { plan, conflicts } => Err(not_rebased(plan, conflicts)),
            RebaseOutcome::Unmoved { resources, .. } => {
                let data = data(&rebased, resources, None, &[]);
                let view = view(&rebased, resources, None);
                Ok(unmoved(Answer::new(Value::Object(data), view), resources))
            }
            RebaseOutcome::Requeued {
                resources,
                conflicts,
                ..
            } => {
                let failure = requeued(id, conflicts);
                Err(with(failure, data(&rebased, resources, None, conflicts)))
            }
            RebaseOutcome::Rebased {
                executed,
                resources,
                validation,
            } => {
                let validation = validation.as_ref();
                let data = data(&rebased, resources, validation, &[]);
                match not_ready(id, executed) {
                    Some(failure) => Err(with(failure, data)),
                    None => {
                        let view = view(&rebased, resources, validation);
                        Ok(Answer::new(Value::Object(data), view)
                            .say(Level::Info, "Rebased")
                            .say(Level::Hint, format!("agents plan diff {id}"))
                            .say(Level::Hint, format!("agents plan apply {id}")))
                    }
                }
            }
        }
    }
}

fn with(failure: Failure, data: Map<String, Value>) -> Failure {
    let data = data.into_iter();
    data.fold(failure, |failure, (key, value)| failure.with(&key, value))
}

fn data(
    rebased: &RebaseOutcome,
    resources: &[RebasedResource],
    validation: Option<&ValidationSummary>,
    conflicts: &[Conflict],
) -> Map<String, Value> {
    let mut data = standing(rebased.plan());
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
) -> View {
    let plan = rebased.plan();
    let mut rows = vec![
        (
            "plan",
            Cell::new(plan.identity.plan_id.short(), Tone::Strong),
        ),
        ("name", plan.name.to_string().into()),
        ("stands at", position(plan.position)),
    ];
    for it in resources {
        let text = match (it.from == it.to, it.resource_type) {
            (true, ResourceType::FsDirectory) => format!("{}: a folder, unchanged", it.resource),
            (true, _) => format!("{}: still at {}", it.resource, short(it.to.as_deref())),
            (false, _) => format!(
                "{}: {} → {}",
                it.resource,
                short(it.from.as_deref()),
                short(it.to.as_deref())
            ),
        };
        rows.push(("resource", text.into()));
    }
    if let Some(summary) = validation {
        let cell = match (summary.permits_apply(), summary.results.is_empty()) {
            (_, true) => Cell::new("none", Tone::Faint),
            (true, _) => Cell::new("passed", Tone::Good),
            (false, _) => Cell::new("failed", Tone::Bad),
        };
        rows.push(("validations", cell));
    }
    View::new().panel("Rebase", rows)
}

/// The beginning of a commit's id, as git shows it.
fn short(commit: Option<&str>) -> &str {
    match commit {
        Some(commit) => commit.get(..7).unwrap_or(commit),
        None => "no commit",
    }
}

fn unmoved(answer: Answer, resources: &[RebasedResource]) -> Answer {
    let is_repository = |it: &&RebasedResource| it.resource_type == ResourceType::GitCheckout;
    let repositories: Vec<&RebasedResource> = resources.iter().filter(is_repository).collect();
    let text = match repositories.as_slice() {
        [] => "nothing to rebase: a folder has no commits to move onto".to_owned(),
        [one] => format!(
            "nothing to rebase: the target is still at {}",
            short(one.to.as_deref())
        ),
        several => {
            let at = several.iter();
            let at = at.map(|it| format!("{} ({})", short(it.to.as_deref()), it.resource));
            let at: Vec<String> = at.collect();
            format!(
                "nothing to rebase: the targets are still at {}",
                at.join(", ")
            )
        }
    };
    answer.say(Level::Info, text)
}

fn not_rebased(plan: &Plan, conflicts: &[Conflict]) -> Failure {
    let id = plan.identity.plan_id;
    let what = "nothing was rebased: a target cannot be moved onto";
    blocked(plan, conflicts, what)
        .hint(format!("agents plan rebase {id}"))
        .hint(format!("agents plan cancel {id}"))
}

fn requeued(id: PlanId, conflicts: &[Conflict]) -> Failure {
    let what = match is_removed(conflicts) {
        true => "there is no result to move: the plan is queued to be executed again",
        false => {
            "the result cannot be merged: the plan is queued to be executed again on the targets \
             as they are now"
        }
    };
    let failure = Failure::new(ExitCode::Decision, what).kind("requeued");
    let listed = conflicts.iter();
    listed
        .fold(failure, |failure, it| failure.because(it.to_string()))
        .hint(format!("agents plan execute {id}"))
}

/// Why a result that was moved cannot be applied.
fn not_ready(id: PlanId, executed: &Executed) -> Option<Failure> {
    match executed {
        Executed::Constrained { reason, .. } => Some(
            Failure::new(
                ExitCode::Decision,
                "rebased, and required validations fail on the merge",
            )
            .kind("validations")
            .because(reason.clone())
            .hint(format!("agents plan execute {id}"))
            .hint(format!("agents plan revert {id}")),
        ),
        Executed::Failed { reason, .. } => Some(
            Failure::new(ExitCode::Error, "rebased, and could not be validated")
                .because(reason.clone())
                .hint(format!("agents plan execute {id}")),
        ),
        Executed::Cancelled(_) => Some(
            Failure::new(ExitCode::Conflict, "the plan was cancelled meanwhile").kind("cancelled"),
        ),
        _ => None,
    }
}
