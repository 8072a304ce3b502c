//! Shared by the commands that run a plan: progress output, and the display of sandboxes.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cleveragents_api::plan::drive::DriveAnswer;
use cleveragents_api::plan::log::JournalEvent;
use cleveragents_api::plan::{PlanResume, PlanSandbox, PlanSummary};
use cleveragents_api::{Failure, NextStep, Reply, Request, WatchItem};
use cleveragents_app::failure::RequestError;
use cleveragents_app::{App, Handler};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::progress::Progress;
use cleveragents_domain::{EventBody, EventKind};

use crate::argument_types::PlanArgument;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode, FailureKind};
use crate::output::{OutputLines, Tone, ViewCell};
use crate::plan_lookup::find_plan;
use crate::progress::ProgressLine;
use crate::signals::SignalListener;
use crate::unfinished_applies::recover_applies;

/// Progress output while a plan runs: events as lines for programs, one status line for people.
#[derive(Debug)]
pub(crate) struct PlanProgress {
    lines: Option<OutputLines>,
    progress: ProgressLine,
    state: Mutex<ProgressState>,
}

#[derive(Debug, Default)]
struct ProgressState {
    /// The sequence number of the last event shown; `None` to skip events before now.
    last_seq: Option<i64>,
    phase: String,
    calls: u32,
    /// The cost of models so far.
    usd: f64,
    activity: String,
}

impl ProgressState {
    fn update(&mut self, event: &JournalEvent) {
        self.last_seq = Some(event.plan_seq);
        if event.kind == EventKind::ToolInvoked.as_str() {
            self.calls += 1;
        }
        let Some(body) = event.known_body() else {
            return;
        };
        match body {
            EventBody::PlanPhaseChanged(it) => self.phase = it.0.to.to_string(),
            EventBody::ExecuteRequested(it) => self.phase = it.0.phase.to_string(),
            EventBody::ResumeRequested(it) => self.phase = it.0.phase.to_string(),
            EventBody::ToolInvoked(it) => self.activity = it.tool.to_string(),
            EventBody::ModelAsked(it) => {
                self.activity = format!("{}: waiting for the model", it.model);
            }
            EventBody::ModelAnswered(it) => self.usd += it.usd.unwrap_or(0.0),
            EventBody::ModelFailed(it) => {
                self.usd += it.spent.and_then(|it| it.usd).unwrap_or(0.0);
                self.activity = format!("retrying: {}", it.error);
            }
            EventBody::ModelInterrupted(it) => self.usd += it.spent.usd.unwrap_or(0.0),
            EventBody::ActorInvoked(it) => self.activity = it.title,
            _ => {}
        }
    }

    /// Returns the status line.
    fn format_line(&self) -> String {
        let calls = match self.calls {
            0 => String::new(),
            1 => "1 call".to_owned(),
            calls => format!("{calls} calls"),
        };
        let usd = if self.usd > 0.0 {
            format!("{:.4} USD", self.usd)
        } else {
            String::new()
        };
        let parts = [self.phase.as_str(), &calls, &usd, &self.activity];
        let parts: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
        parts.join(" · ")
    }
}

impl PlanProgress {
    /// Shows events from now on.
    pub(crate) fn new(events: bool, context: &CommandContext<'_>) -> Self {
        Self {
            lines: events.then(|| context.lines.clone()),
            progress: ProgressLine::new("plan", context.arguments, context.environment),
            state: Mutex::default(),
        }
    }

    /// Shows all events of the plan, including those of other processes.
    pub(crate) fn from_start(events: bool, context: &CommandContext<'_>) -> Self {
        let progress = Self::new(events, context);
        progress.state().last_seq = Some(0);
        progress
    }

    fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hides the status line while `show` prints or asks something.
    pub(crate) fn suspend<T>(&self, show: impl FnOnce() -> T) -> T {
        self.progress.suspend(show)
    }

    fn show_progress(&self, progress: &Progress) {
        let text = match progress {
            Progress::WaitingForSlot { running } => {
                format!("waiting for one of {running} other plans to end")
            }
            Progress::CallStarted { tool } => {
                let mut state = self.state();
                state.activity = tool.to_string();
                state.format_line()
            }
            // The events of the same moment are displayed.
            Progress::ModelText { .. } | Progress::ModelRetry { .. } => return,
        };
        self.progress.set_message(&text);
    }

    fn show_event(&self, event: &JournalEvent) -> Result<(), CommandFailure> {
        if let Some(lines) = &self.lines {
            lines.json(event)?;
        }
        let mut seen = self.state();
        seen.update(event);
        self.progress.set_message(&seen.format_line());
        Ok(())
    }
}

/// Sends a work request, then runs the plan and shows its events meanwhile.
pub(crate) fn run_work<R: Request>(
    app: &AppContext<'_>,
    progress: &PlanProgress,
    plan: PlanId,
    request: R,
) -> Result<Reply<DriveAnswer>, CommandFailure>
where
    App: Handler<R>,
{
    let (handlers, caller) = (app.app(), app.caller());
    let work = async {
        // The reply to the request is not displayed.
        recover_applies(app).await.map_err(RequestError::from)?;
        handlers.call(request, &caller).await?;
        handlers.drive(plan, &caller).await
    };
    run_with_progress(app, progress, plan, work)
}

/// Runs `work` and shows the plan's events meanwhile. The first Ctrl-C sends the stop signal; a
/// second one returns at once.
pub(crate) fn run_with_progress<T>(
    app: &AppContext<'_>,
    progress: &PlanProgress,
    plan: PlanId,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, CommandFailure> {
    let handlers = app.app();
    app.block_on(async {
        // A command may run several works on a plan. Continue after the last event shown, so that
        // events of other processes in between are shown too.
        let until = progress.state().last_seq;
        let until = match until {
            Some(until) => until,
            None => handlers.newest_event(plan).await?,
        };
        progress.state().last_seq = Some(until);
        let mut watch = handlers.watch(plan, until);
        let mut work = pin!(work);
        let mut interrupts = SignalListener::for_interrupts();
        let mut asked = false;
        let done = loop {
            tokio::select! {
                // Work first: if it is already done, a Ctrl-C no longer interrupts it.
                biased;
                done = &mut work => break done,
                () = interrupts.recv() => {
                    if std::mem::replace(&mut asked, true) {
                        return Err(forced_interrupt_failure(plan));
                    }
                    progress.progress.set_message("stopping at a point it can resume from");
                    app.interrupt();
                }
                item = watch.next() => match item? {
                    WatchItem::Events { events } => {
                        for event in events {
                            progress.show_event(&event)?;
                        }
                    }
                    WatchItem::Progress { progress: item } => progress.show_progress(&item),
                },
            }
        };
        for event in watch.available_events().await? {
            progress.show_event(&event)?;
        }
        Ok(done?)
    })
}

/// Finds the plan that the user is asked about, after the recovery of unfinished applies: a dead
/// process may have left this plan half applied. If no question is asked, the request recovers.
pub(super) fn find_before_question(
    app: &AppContext<'_>,
    progress: &PlanProgress,
    plan: &PlanArgument,
    is_asking: bool,
) -> Result<PlanSummary, CommandFailure> {
    let found = find_plan(app, plan)?;
    if !is_asking {
        return Ok(found);
    }
    let id = found.plan_id;
    let recovery = async {
        let recovered = recover_applies(app).await;
        recovered.map_err(|error| RequestError::from(error).into())
    };
    run_with_progress(app, progress, id, recovery)?;
    app.check_not_interrupted(id)?;
    find_plan(app, &PlanArgument::Reference(id.into()))
}

/// Returns the failure after a second Ctrl-C: the work is dropped, and the plan is left as after a
/// crash.
fn forced_interrupt_failure(plan: PlanId) -> CommandFailure {
    CommandFailure::new(ExitCode::Interrupted, "interrupted at once")
        .kind(FailureKind::Interrupted)
        .because("unfinished work is undone or completed on resume")
        .hint(NextStep::send(&PlanResume::new(plan)))
        .with_plan_id(plan)
}

/// Returns the plan's sandboxes as table rows.
pub(super) fn sandbox_rows(sandboxes: &[PlanSandbox]) -> Vec<Vec<ViewCell>> {
    let row = |it: &PlanSandbox| {
        vec![
            ViewCell::new(it.resource.to_string(), Tone::Strong),
            it.id.short().into(),
            it.status.as_str().into(),
        ]
    };
    sandboxes.iter().map(row).collect()
}
