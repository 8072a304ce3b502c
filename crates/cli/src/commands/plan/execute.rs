//! `agents plan execute`

use clap::Args;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Plan, Waiting};
use cleveragents_engine::execution::{Executed, ExecutionError, Executor, Left, MayApply};
use cleveragents_engine::ports::Stopped;
use cleveragents_engine::ports::targets::Destination;
use serde_json::{Value, json};

use super::apply::outcome;
use super::shown::{find, position, standing};
use super::working::{Told, accompany, sandbox_data, sandbox_rows};
use crate::arguments::Format;
use crate::commands::{Context, Output};
use crate::execution_failure::interrupted;
use crate::failure::{ExitCode, Failure};
use crate::output::{Answer, Cell, Level, Tone, View};
use crate::typed::PlanArgument;
use crate::wiring::Wired;

/// Take a plan on, up to the next decision that is yours
///
/// Strategize is run, then Execute if the plan's automation profile lets it go on alone; else this
/// stops with exit code 5 and the same command again approves the strategy that was made. All work
/// is done in sandboxes: nothing of yours changes before the plan is applied. What a process that
/// died had confirmed is not done again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan execute 4k2m9x0q
  agents plan execute 4k2m9x0q --events
  agents plan execute 4k2m9x0q --detach
  agents plan execute 4k2m9x0q --format json")]
pub struct Execute {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Say the word and do not wait: the plan is queued for `agents plan resume`
    #[arg(long, conflicts_with = "events")]
    detach: bool,

    /// Write each event as a line of JSON while it works, and the envelope as the last line
    #[arg(long)]
    events: bool,
}

impl Execute {
    pub fn output(&self, _: Format) -> Output {
        match self.events {
            true => Output::Events,
            false => Output::Answer,
        }
    }

    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let plan = find(&wired, &self.plan)?;
        let id = plan.identity.plan_id;
        let executor = wired.executor()?;
        if self.detach {
            return detach(&wired, &executor, &plan);
        }
        let told = Told::new(self.events, context);
        let waits = |running: usize| told.waits_for_a_slot(running);
        let work = executor.execute(id, wired.actor(), &waits);
        let executed = accompany(&wired, &told, id, work)?;
        concluded(&wired, &told, id, executed)
    }
}

/// Leaves the plan queued with the human's word on record.
fn detach(wired: &Wired<'_>, executor: &Executor, plan: &Plan) -> Result<Answer, Failure> {
    let id = plan.identity.plan_id;
    if let Some(Waiting::Approval { .. }) = plan.position.waiting() {
        let what = "a call waits for your approval, which holds for the command that makes it";
        return Err(Failure::new(ExitCode::Conflict, what)
            .kind("approval")
            .hint(format!("agents plan execute {id}")));
    }
    let left = wired.wait(executor.leave_queued(id, wired.actor()))?;
    let plan = match &left {
        Left::Queued(plan) | Left::Unapproved(plan) | Left::Stands(plan) => plan,
    };
    let answer = answer_of(wired, plan)?;
    Ok(match &left {
        Left::Queued(_) => answer
            .say(
                Level::Info,
                "queued: it waits for somebody to go on with it",
            )
            .say(Level::Hint, format!("agents plan resume {id}")),
        Left::Unapproved(_) => answer
            .say(Level::Info, "Strategy made: approve it to go on")
            .say(Level::Hint, format!("agents plan tree {id}"))
            .say(Level::Hint, format!("agents plan execute {id}"))
            .exit(ExitCode::Decision),
        Left::Stands(plan) => told(answer, &Executed::Stands(plan.clone()), ""),
    })
}

/// What came of the work; a plan whose profile applies by itself is applied.
pub(super) fn concluded(
    wired: &Wired<'_>,
    told: &Told,
    id: PlanId,
    executed: Result<Executed, ExecutionError>,
) -> Result<Answer, Failure> {
    let executed = executed.map_err(|error| stopped(error, id))?;
    if let Executed::Complete {
        applies: MayApply::Yes,
        ..
    } = &executed
    {
        wired.go_on_unless_interrupted(id)?;
        let service = wired.applies()?;
        let ask = wired.apply_ask(id, Destination::Current);
        let applied = accompany(wired, told, id, service.apply(&ask))??;
        return outcome(wired, &applied);
    }
    answer(wired, &executed, "")
}

/// Why the work did not come to an end; one that was interrupted can be gone on with.
pub(crate) fn stopped(error: ExecutionError, id: PlanId) -> Failure {
    match error {
        ExecutionError::Stopped(Stopped::Interrupted) => interrupted(id),
        other => other.into(),
    }
}

/// What came of the work; `to` is how it is said where changes go, if that is not as always.
pub(crate) fn answer(wired: &Wired<'_>, executed: &Executed, to: &str) -> Result<Answer, Failure> {
    Ok(told(answer_of(wired, executed.plan())?, executed, to))
}

/// How the plan stands, and what is on record of its work.
fn answer_of(wired: &Wired<'_>, plan: &Plan) -> Result<Answer, Failure> {
    let id = plan.identity.plan_id;
    let work = wired.work_of(id)?;
    let mut data = standing(plan);
    let more = json!({
        "sandbox": sandbox_data(&work.sandboxes).first(),
        "sandboxes": sandbox_data(&work.sandboxes),
        "started": plan.timestamps.execute_started_at.or(plan.timestamps.strategize_started_at),
        "worker": wired.owner(),
        "strategy_summary": {
            "hash": work.strategy.as_ref().map(|it| &it.hash),
            "summary": work.strategy.as_ref().map(|it| &it.strategy.summary),
            "steps": work.strategy.as_ref().map(|it| &it.strategy.steps),
            "approved_by": work.strategy.as_ref().and_then(|it| it.approved_by.as_ref()),
            "decisions": work.decisions,
            "invariants": work.invariants,
            "planned_child_plans": 0,
        },
        "progress": progress(plan, &work),
        "tool_calls": work.tool_calls,
        "changes": work.changes,
        "validation": work.validation,
    });
    if let Value::Object(more) = more {
        data.extend(more);
    }
    let mut rows = vec![
        ("plan", Cell::new(id.short(), Tone::Strong)),
        ("name", plan.name.to_string().into()),
        ("stands at", position(plan.position)),
        ("tool calls", work.tool_calls.to_string().into()),
        ("changes", work.changes.to_string().into()),
    ];
    if let Some(strategy) = &work.strategy {
        rows.insert(3, ("strategy", strategy.strategy.summary.clone().into()));
    }
    let mut view = View::new().panel("Plan", rows);
    if !work.sandboxes.is_empty() {
        let headers = ["resource", "sandbox", "state"];
        view = view.table("Sandboxes", &headers, sandbox_rows(&work.sandboxes));
    }
    let mut answer = Answer::new(Value::Object(data), view);
    for sandbox in &work.sandboxes {
        for warning in &sandbox.warnings {
            let text = format!("{}: {warning}", sandbox.resource_name);
            answer = answer.say(Level::Warn, text);
        }
    }
    Ok(answer)
}

/// How far the parts of the work are.
fn progress(plan: &Plan, work: &crate::wiring::Work) -> Vec<Value> {
    use cleveragents_domain::{Phase, State};
    let at = plan.position;
    let executed = at.has_passed(Phase::Execute)
        || (at.phase() == Phase::Execute && at.state() == State::Complete);
    let status = |done: bool, begun: bool| match (done, begun) {
        (true, _) => "done",
        (false, true) => "stopped",
        (false, false) => "queued",
    };
    let labels = [
        ("Collect context", work.strategy.is_some(), true),
        ("Run tools", executed, work.tool_calls > 0),
        ("Build changeset", executed, work.changes > 0),
        ("Validate", executed, work.validation.is_some()),
    ];
    let label = |(label, done, begun): &(&str, bool, bool)| json!({ "label": label, "status": status(*done, *begun) });
    labels.iter().map(label).collect()
}

/// What people are told, and how the command ends.
fn told(answer: Answer, executed: &Executed, to: &str) -> Answer {
    let id = executed.plan().identity.plan_id;
    match executed {
        Executed::Stands(plan) => answer
            .say(
                Level::Info,
                format!("nothing is outstanding: the plan is at {}", plan.position),
            )
            .say(Level::Hint, next(plan, to)),
        Executed::Gate { decision, .. } => answer
            .say(Level::Info, "Strategy made: approve it to go on")
            .say(Level::Info, decision.explanation.clone())
            .say(Level::Hint, format!("agents plan tree {id}"))
            .say(Level::Hint, format!("agents plan execute {id}"))
            .exit(ExitCode::Decision),
        Executed::Waits {
            waiting, reason, ..
        } => waits(answer.say(Level::Info, reason.clone()), *waiting, id),
        Executed::Limit { reason, .. } => answer
            .say(Level::Error, reason.clone())
            .say(Level::Hint, format!("agents plan errors {id}"))
            .exit(ExitCode::Limit),
        Executed::Complete { applies, .. } => {
            let answer = answer.say(Level::Info, "Executed");
            let answer = match applies {
                MayApply::No(reason) => answer.say(Level::Info, reason.clone()),
                MayApply::Yes => answer,
            };
            answer
                .say(Level::Hint, format!("agents plan diff {id}"))
                .say(Level::Hint, format!("agents plan apply {id}{to}"))
        }
        Executed::Constrained { reason, .. } => answer
            .say(
                Level::Error,
                format!("Required validations failed: {reason}"),
            )
            .say(Level::Hint, format!("agents plan diff {id}"))
            .say(Level::Hint, format!("agents plan execute {id}"))
            .exit(ExitCode::NotDone),
        Executed::Failed { reason, .. } => answer
            .say(Level::Error, reason.clone())
            .say(Level::Hint, format!("agents plan errors {id}"))
            .say(Level::Hint, format!("agents plan execute {id}"))
            .exit(ExitCode::Error),
        Executed::Cancelled(_) => answer
            .say(
                Level::Error,
                "the plan was cancelled while it was worked on",
            )
            .exit(ExitCode::Conflict),
    }
}

/// What a plan that waits needs, and from whom.
fn waits(answer: Answer, waiting: Waiting, id: PlanId) -> Answer {
    match waiting {
        Waiting::Approval { .. } | Waiting::Slot => answer
            .say(Level::Hint, format!("agents plan execute {id}"))
            .say(Level::Hint, format!("agents plan checkpoints {id}"))
            .exit(ExitCode::Decision),
        Waiting::Answer { .. } => answer
            .say(Level::Hint, format!("agents plan prompt {id} \"…\""))
            .say(Level::Hint, format!("agents plan resume {id}"))
            .exit(ExitCode::Decision),
        Waiting::Budget => answer
            .say(Level::Hint, format!("agents plan errors {id}"))
            .say(
                Level::Hint,
                format!("agents plan resume {id} --max-usd|--max-tokens|--max-wall …"),
            )
            .exit(ExitCode::Limit),
        Waiting::Until { until } => answer
            .say(Level::Info, format!("it may go on at {until}"))
            .say(Level::Hint, format!("agents plan resume {id}"))
            .exit(ExitCode::Temporary),
    }
}

fn next(plan: &Plan, to: &str) -> String {
    let id = plan.identity.plan_id;
    match plan.position.is_terminal() {
        true => format!("agents plan status {id}"),
        false => format!("agents plan apply {id}{to}"),
    }
}
