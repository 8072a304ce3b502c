//! `agents plan status`

use clap::Args;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{
    ErrorRecord, Phase, Plan, PlanState, PlanTimestamps, PointOfNoReturn, Timestamp,
};
use cleveragents_ports::StoreError;
use serde_json::{Value, json};

use super::progress::sandbox_data;
use super::view::{
    describe_waiting, elapsed, find, format_duration, plan_data, position_cell, projects,
};
use crate::argument_types::PlanArgument;
use crate::bootstrap::{AppContext, PlanRunner, PlanWork};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

/// Show the state of a plan
///
/// A failed plan can be shown like any other: see `state` and `error`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan status 4k2m9x0q
  agents plan status local/fix-lint-4k2m9x0q --format json")]
pub struct PlanStatusArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,
}

/// A plan with related records.
struct PlanStatusView {
    plan: Plan,
    runner: Option<PlanRunner>,
    newest_error: Option<ErrorRecord>,
    work: PlanWork,
}

impl PlanStatusArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let plan = find(&app, &self.plan)?;
        let id = plan.identity.plan_id;
        let found = PlanStatusView {
            newest_error: newest_error(&app, &plan)?,
            work: app.plan_work(id)?,
            runner: app.plan_runner(id)?,
            plan,
        };
        Ok(found.answer(app.now()))
    }
}

/// Returns the error at which the plan stopped.
pub(super) fn newest_error(
    app: &AppContext<'_>,
    plan: &Plan,
) -> Result<Option<ErrorRecord>, StoreError> {
    if !matches!(
        plan.position.state(),
        PlanState::Errored | PlanState::Constrained
    ) {
        return Ok(None);
    }
    let history = app.block_on(app.recovery().history(plan.identity.plan_id))?;
    Ok(history.into_iter().max_by_key(|error| error.at))
}

impl PlanStatusView {
    fn answer(&self, now: Timestamp) -> CommandAnswer {
        let plan = &self.plan;
        let mut view = OutputView::new().panel("Plan", self.facts());
        view = view.table("Progress", &["phase", "status"], self.progress_rows());
        view = view.panel("Timing", timing(plan, now));
        if !self.work.sandboxes.is_empty() {
            view = view.panel("Execution", self.execution());
        }
        let view = match &plan.error_message {
            Some(message) => view.panel("Why it stopped", self.error_rows(message)),
            None => view,
        };
        let mut answer = CommandAnswer::new(self.data(now), view);
        for hint in self.hints() {
            answer = answer.with_message(MessageLevel::Hint, hint);
        }
        answer
    }

    fn execution(&self) -> Vec<(&'static str, ViewCell)> {
        let work = &self.work;
        let states: Vec<&str> = work.sandboxes.iter().map(|it| it.state.as_str()).collect();
        vec![
            ("sandbox", states.join(", ").into()),
            ("tool calls", work.tool_calls.to_string().into()),
            ("files modified", work.paths.to_string().into()),
            ("checkpoints", work.checkpoints.to_string().into()),
        ]
    }

    fn facts(&self) -> Vec<(&'static str, ViewCell)> {
        let plan = &self.plan;
        let brief = &plan.brief;
        let profile = &brief.automation_profile.name;
        let mut rows = vec![
            (
                "plan",
                ViewCell::new(plan.identity.plan_id.short(), Tone::Strong),
            ),
            ("name", plan.name.to_string().into()),
            ("state", position_cell(plan.position)),
            ("does", brief.description.clone().into()),
            ("action", brief.action_name.to_string().into()),
            ("projects", projects(plan).into()),
            ("profile", profile.to_string().into()),
            ("attempt", plan.attempt.to_string().into()),
        ];
        if plan.position.reversions() > 0 {
            rows.push(("reversions", plan.position.reversions().to_string().into()));
        }
        rows.extend(self.runner_cell().map(|cell| ("run by", cell)));
        rows
    }

    /// Names the process that runs the plan. Says so if the plan was started but none runs it.
    fn runner_cell(&self) -> Option<ViewCell> {
        match &self.runner {
            Some(runner) => {
                let text = format!("{} since {}", runner.describe(), runner.run.claimed_at);
                Some(if runner.is_silent {
                    ViewCell::new(
                        format!("{text}; it does not respond and may be stopped"),
                        Tone::Doubtful,
                    )
                } else {
                    text.into()
                })
            }
            None => self
                .is_abandoned()
                .then(|| ViewCell::new("not running", Tone::Doubtful)),
        }
    }

    /// Returns whether the plan was started but no process runs it.
    fn is_abandoned(&self) -> bool {
        self.runner.is_none() && self.plan.position.state() == PlanState::Processing
    }

    fn error_rows(&self, message: &str) -> Vec<(&'static str, ViewCell)> {
        let mut rows = vec![("reason", ViewCell::new(message, Tone::Bad))];
        if let Some(error) = &self.newest_error {
            rows.push(("category", error.category.as_str().into()));
            rows.push(("recovery", error.recovery.as_str().into()));
            if let Some(step) = error.step {
                rows.push(("step", step.to_string().into()));
            }
        }
        rows
    }

    fn hints(&self) -> Vec<String> {
        if let Some(error) = &self.newest_error {
            return error
                .hints
                .iter()
                .map(|hint| hint.command.clone())
                .collect();
        }
        let id: PlanId = self.plan.identity.plan_id;
        if self.is_abandoned() {
            let at = self.plan.position;
            let is_undecided = at.point_of_no_return() == PointOfNoReturn::Ahead;
            return vec![match at.phase() {
                // Nothing of it was written, so a new apply is the way on.
                Phase::Apply if is_undecided => format!("agents plan apply {id}"),
                _ => format!("agents plan resume {id}"),
            }];
        }
        if let Some(runner) = &self.runner {
            return runner.continue_command().into_iter().collect();
        }
        match self.plan.position.waiting() {
            Some(cleveragents_domain::WaitReason::Answer { .. }) => {
                vec![format!("agents plan prompt {id} \"your answer\"")]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the progress of a phase: `done`, `running`, `stopped` or `queued`.
    fn progress(&self, phase: Phase) -> &'static str {
        let at = self.plan.position;
        if at.has_passed(phase) {
            "done"
        } else if at.phase() != phase {
            "queued"
        } else {
            match at.state() {
                PlanState::Processing if self.is_abandoned() => "stopped",
                PlanState::Processing => "running",
                PlanState::Errored
                | PlanState::Cancelled
                | PlanState::Constrained
                | PlanState::Unapplied => "stopped",
                PlanState::Queued | PlanState::Complete | PlanState::Applied => "queued",
            }
        }
    }

    fn progress_rows(&self) -> Vec<Vec<ViewCell>> {
        let row = |phase: &Phase| {
            let status = self.progress(*phase);
            let tone = match status {
                "done" => Tone::Good,
                "running" => Tone::Strong,
                "stopped" => Tone::Bad,
                _ => Tone::Faint,
            };
            vec![ViewCell::from(phase.as_str()), ViewCell::new(status, tone)]
        };
        Phase::ALL.iter().map(row).collect()
    }

    fn data(&self, now: Timestamp) -> Value {
        let plan = &self.plan;
        let mut data = plan_data(plan);
        let times = &plan.timestamps;
        let progress: Vec<Value> = Phase::ALL
            .iter()
            .map(|phase| json!({"step": phase, "status": self.progress(*phase)}))
            .collect();
        let error = plan.error_message.as_ref().map(|message| {
            let newest = self.newest_error.as_ref();
            json!({
                "message": message,
                "tool": null,
                "step": newest.and_then(|error| error.step),
                "checkpoint": self.work.last_checkpoint,
                "recoverable": !plan.position.is_terminal(),
                "category": newest.map(|error| error.category),
                "recovery": newest.map(|error| error.recovery),
            })
        });
        let waits = plan.position.waiting().map(describe_waiting);
        let more = json!({
            "description": plan.brief.description,
            "automation": plan.brief.automation_profile.name,
            "reversions": plan.position.reversions(),
            "waiting_text": waits,
            "progress": progress,
            "timing": {
                "started": started(times),
                "elapsed": format_duration(elapsed(plan, now)),
                "eta": null,
                "created_at": times.created_at,
                "updated_at": times.updated_at,
                "finished_at": times.finished_at,
            },
            "execution": {
                "sandbox": self.work.sandboxes.first().map(|it| it.state),
                "sandboxes": sandbox_data(&self.work.sandboxes),
                "tool_calls": self.work.tool_calls,
                "files_modified": self.work.paths,
                "child_plans": "0/0 complete",
                "checkpoints": self.work.checkpoints,
                "last_checkpoint": self.work.last_checkpoint,
            },
            "cost": { "tokens_used": 0, "cost_so_far": 0.0, "estimated": null },
            "owner": self.runner.as_ref().map(|it| json!({
                "owner": it.run.owner,
                "node": it.run.node,
                "since": it.run.claimed_at,
                "epoch": it.run.epoch,
                "pid": it.pid,
                "responds": !it.is_silent,
            })),
            "error": error,
        });
        if let Value::Object(more) = more {
            data.extend(more);
        }
        Value::Object(data)
    }
}

fn started(times: &PlanTimestamps) -> Option<Timestamp> {
    let starts = [
        times.strategize_started_at,
        times.execute_started_at,
        times.apply_started_at,
    ];
    starts.into_iter().flatten().min()
}

fn timing(plan: &Plan, now: Timestamp) -> Vec<(&'static str, ViewCell)> {
    let times = &plan.timestamps;
    let mut rows = vec![("created", times.created_at.to_string().into())];
    if let Some(started) = started(times) {
        rows.push(("started", started.to_string().into()));
    }
    if let Some(finished) = times.finished_at {
        rows.push(("finished", finished.to_string().into()));
    }
    rows.push(("elapsed", format_duration(elapsed(plan, now)).into()));
    rows
}
