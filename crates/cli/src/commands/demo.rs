//! `agents demo`: four concurrent plans on a small repository, without API key and network.
//!
//! `workspace` is the temporary folder, `plans` the plans and their expected outcomes, `evidence`
//! reads their records from the store, `view` renders the answer. Everything else is done with
//! requests, as in the other commands.

mod evidence;
mod interrupts;
mod plans;
mod view;
mod workspace;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use cleveragents_api::plan::drive::DriveAnswer;
use cleveragents_api::plan::log::JournalEvent;
use cleveragents_api::plan::tree::TreeDecision;
use cleveragents_api::plan::{
    PlanApply, PlanConflict, PlanDiff, PlanExecute, PlanSummary, PlanTree,
};
use cleveragents_api::{Failure, Reply, WatchItem};
use cleveragents_app::{App, Caller, RequestError};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{EventBody, Phase, PlanState};
use tokio::task::JoinSet;

use self::evidence::PlanEvidence;
use self::interrupts::Interrupts;
use self::plans::{DEMO_PLANS, DemoPlan, ExpectedOutcome};
use self::workspace::{CONFLICT_FILE, DemoWorkspace};
use super::CommandContext;
use crate::bootstrap::AppContext;
use crate::failure::{CommandFailure, ExitCode, display_path};
use crate::output::{CommandAnswer, MessageLevel};
use crate::progress::{ProgressLine, ProgressLines};

/// Run a demo: four plans at once, without an API key or network
///
/// Creates a small git repository in a temporary folder and runs four plans on it at once: a
/// scripted model whose first attempt fails its check and is repaired, tools that rename a
/// function, a model that hits a rate limit, and a plan whose file is edited before it is applied.
/// Shows decisions, changes, errors and commits, and checks that they are all recorded. It uses its
/// own data directory and does not touch yours. Everything is removed at the end.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents demo
  agents demo --keep
  agents demo --format json | jq .data.counts")]
pub struct DemoArgs {
    /// Keep the repository and the data directory
    #[arg(long)]
    keep: bool,
}

#[derive(Debug)]
struct DemoPlanResult {
    plan: &'static DemoPlan,
    outcome: DemoPlanOutcome,
    evidence: PlanEvidence,
}

#[derive(Debug)]
enum DemoPlanOutcome {
    Applied,
    Blocked(Vec<PlanConflict>),
    /// Any other outcome, described in words.
    Unexpected(String),
}

#[derive(Debug)]
struct DemoResult {
    plans: Vec<DemoPlanResult>,
    /// The decisions of the first plan, and its changes.
    tree: Vec<TreeDecision>,
    patch: Vec<u8>,
    /// The commits of the repository, newest first.
    commits: Vec<(String, String)>,
    /// Whether the simulated edit of the user is unchanged.
    edit_is_kept: bool,
    duration: Duration,
}

impl DemoArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let workspace = DemoWorkspace::create(context)?;
        let folder = display_path(workspace.folder());
        let played = self.run_plans(&workspace, context);
        let folders = view::DemoFolders::of(&workspace, self.keep);
        let left = if self.keep {
            workspace.keep()
        } else {
            workspace.remove()
        };
        let played = played.map_err(|failure| {
            if self.keep {
                failure.because(format!("its files are in {folder}"))
            } else {
                failure
            }
        })?;
        let answer = view::answer(&played, &folders)?;
        Ok(match left {
            Ok(()) => answer,
            Err(error) => answer.with_message(
                MessageLevel::Warn,
                format!("{folder} could not be removed: {error}"),
            ),
        })
    }

    /// Runs the whole demo. Everything is closed when it returns.
    fn run_plans(
        &self,
        workspace: &DemoWorkspace,
        outer: &CommandContext<'_>,
    ) -> Result<DemoResult, CommandFailure> {
        let context = &workspace.context(outer);
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let mut interrupts = Interrupts::listen(&app);
        self.announce(workspace, outer);
        workspace.make_repository()?;
        let project = plans::create_project(workspace, &app)?;
        let mut plans = Vec::new();
        for part in &DEMO_PLANS {
            interrupts.check(&app)?;
            plans.push((part, part.create_plan(workspace, context, &app, &project)?));
        }
        let executed = execute_concurrently(&plans, &app, outer, &mut interrupts)?;
        workspace.edit_file()?;
        let mut results = Vec::new();
        for ((part, plan), executed) in plans.iter().zip(executed) {
            interrupts.check(&app)?;
            let outcome = match executed {
                Ok(reply) if is_executed(reply.answer.plan()) => apply(*plan, &app),
                Ok(reply) => unexpected_state(reply.answer.plan()),
                Err(failure) => DemoPlanOutcome::Unexpected(failure.to_string()),
            };
            results.push(DemoPlanResult {
                plan: part,
                outcome,
                evidence: PlanEvidence::collect(*plan, &app)?,
            });
        }
        let first = plans.first().map(|(_, plan)| *plan);
        let first =
            first.ok_or_else(|| CommandFailure::new(ExitCode::Error, "the demo has no plans"))?;
        Ok(DemoResult {
            plans: results,
            tree: read_tree(first, &app)?,
            patch: read_patch(first, &app)?,
            commits: workspace.commits()?,
            edit_is_kept: workspace.edit_is_kept(),
            duration: outer.environment.started_instant.elapsed(),
        })
    }

    /// Prints where the demo runs. Called once signals are handled: an interrupt from now on leaves
    /// nothing behind.
    fn announce(&self, workspace: &DemoWorkspace, context: &CommandContext<'_>) {
        if context.arguments.quiet {
            return;
        }
        let folder = display_path(workspace.folder());
        let then = if self.keep {
            "stays there"
        } else {
            "is removed at the end"
        };
        let text = format!("demo: everything is in {folder} and {then}");
        context.lines.remark(&text);
    }
}

fn read_tree(plan: PlanId, app: &AppContext<'_>) -> Result<Vec<TreeDecision>, CommandFailure> {
    let request = PlanTree {
        plan: plan.into(),
        show_superseded: false,
    };
    Ok(app.call(request)?.answer.nodes)
}

fn read_patch(plan: PlanId, app: &AppContext<'_>) -> Result<Vec<u8>, CommandFailure> {
    let request = PlanDiff {
        plan: plan.into(),
        patch: false,
        files: Vec::new(),
        resource: None,
    };
    let resources = app.call(request)?.answer.resources.into_iter();
    Ok(resources
        .filter_map(|it| it.patch_bytes)
        .flatten()
        .collect())
}

fn is_executed(plan: &PlanSummary) -> bool {
    (plan.phase, plan.state) == (Phase::Execute, PlanState::Complete)
}

fn unexpected_state(plan: &PlanSummary) -> DemoPlanOutcome {
    DemoPlanOutcome::Unexpected(format!("ended at {}/{}", plan.phase, plan.state))
}

/// The result of running a plan.
type DriveResult = Result<Reply<DriveAnswer>, Failure>;

/// Executes all plans concurrently, each as its own task on one application.
fn execute_concurrently(
    plans: &[(&'static DemoPlan, PlanId)],
    app: &AppContext<'_>,
    context: &CommandContext<'_>,
    interrupts: &mut Interrupts,
) -> Result<Vec<DriveResult>, CommandFailure> {
    let lines = ProgressLines::new(context.arguments, context.environment);
    let (ended, stopped) = app.block_on(async {
        let mut work = JoinSet::new();
        for (place, (part, plan)) in plans.iter().enumerate() {
            let line = lines.line(part.name);
            let task = execute_with_progress(*plan, app.app().clone(), app.caller(), line);
            work.spawn(async move { (place, task.await) });
        }
        let (mut ended, mut stopped) = (Vec::new(), Ok(()));
        loop {
            tokio::select! {
                done = work.join_next() => match done {
                    Some(done) => ended.push(done),
                    None => break (ended, stopped),
                },
                () = interrupts.next() => {
                    stopped = Err(interrupts::interrupted_failure());
                    app.interrupt();
                }
            }
        }
    });
    stopped?;
    let mut results = BTreeMap::new();
    for done in ended {
        match done {
            Ok((place, executed)) => drop(results.insert(place, executed)),
            Err(error) => {
                let what = "a plan ended unexpectedly";
                return Err(CommandFailure::new(ExitCode::Error, what).caused_by(&error));
            }
        }
    }
    Ok(results.into_values().collect())
}

/// Executes one plan and reports its events on its progress line.
async fn execute_with_progress(
    plan: PlanId,
    app: App,
    caller: Caller,
    line: ProgressLine,
) -> DriveResult {
    let mut watch = app.watch(plan, 0);
    let work = async {
        let request = PlanExecute {
            plan: plan.into(),
            detach: false,
        };
        app.call(request, &caller).await?;
        app.drive(plan, &caller).await
    };
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            item = watch.next() => match item.map_err(RequestError::from)? {
                WatchItem::Events { events } => {
                    for text in events.iter().filter_map(describe_event) {
                        line.set_message(&text);
                    }
                }
                WatchItem::Progress { .. } => {}
            },
        }
    }
}

/// Returns the progress text for an event.
fn describe_event(event: &JournalEvent) -> Option<String> {
    Some(match event.known_body()? {
        EventBody::PlanPhaseChanged(it) => it.0.to.to_string(),
        EventBody::ActorInvoked(it) => it.title,
        EventBody::ToolInvoked(it) => it.tool.to_string(),
        EventBody::ModelAsked(_) => "waiting for the model".to_owned(),
        EventBody::ModelFailed(_) => "rate limited, waiting".to_owned(),
        EventBody::ValidationsCompleted(_) => "checks ran".to_owned(),
        EventBody::ErrorRecorded(it) => it.0.message,
        _ => return None,
    })
}

/// Applies a plan to the current branch.
fn apply(plan: PlanId, app: &AppContext<'_>) -> DemoPlanOutcome {
    let (handlers, caller) = (app.app(), app.caller());
    let request = PlanApply {
        plan: plan.into(),
        to: None,
        mark_applied: false,
        force_checks: None,
    };
    let applied = app.block_on(async {
        handlers.call(request, &caller).await?;
        handlers.drive(plan, &caller).await
    });
    match applied {
        Ok(reply) if reply.answer.plan().state == PlanState::Applied => DemoPlanOutcome::Applied,
        Ok(reply) => unexpected_state(reply.answer.plan()),
        Err(failure) => match failure.facts.conflicts.clone() {
            Some(conflicts) => DemoPlanOutcome::Blocked(conflicts),
            None => DemoPlanOutcome::Unexpected(failure.to_string()),
        },
    }
}

impl DemoPlanResult {
    /// Returns the deviations from the expected outcome, each as a sentence.
    fn differences(&self, edit_is_kept: bool) -> Vec<String> {
        let records = &self.evidence.records;
        let mut found = Vec::new();
        match (self.plan.expected, &self.outcome) {
            (ExpectedOutcome::Applied, DemoPlanOutcome::Applied) => {}
            (ExpectedOutcome::Conflict, DemoPlanOutcome::Blocked(conflicts)) => {
                let paths = conflicts.iter().map(|it| it.path.as_ref());
                let paths = paths.map(|it| it.map(ToString::to_string));
                if paths.ne([Some(CONFLICT_FILE.to_owned())]) {
                    found.push(format!("files other than {CONFLICT_FILE} conflict"));
                }
                if !edit_is_kept {
                    found.push(format!("the edit of {CONFLICT_FILE} was not preserved"));
                }
            }
            (_, DemoPlanOutcome::Unexpected(what)) => found.push(what.clone()),
            (ExpectedOutcome::Applied, _) => found.push("it was not applied".to_owned()),
            (ExpectedOutcome::Conflict, _) => found.push("it had no conflict".to_owned()),
        }
        let at = self.evidence.plan.position;
        if !self.plan.expected.matches(at) {
            found.push(format!("its state is {at}"));
        }
        let met: Vec<_> = records.errors.iter().map(|it| it.category).collect();
        if met != self.plan.errors {
            let met: Vec<&str> = met.iter().map(|it| it.as_str()).collect();
            found.push(format!("it had other errors: {}", met.join(", ")));
        }
        if let Err(fault) = &self.evidence.journal {
            found.push(fault.to_string());
        }
        found.extend(self.evidence.inconsistencies.iter().cloned());
        found
    }
}
