//! Shared by the commands that run a plan: progress output, and the display of sandboxes.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cleveragents_api::plan::drive::DriveAnswer;
use cleveragents_api::plan::log::JournalEvent;
use cleveragents_api::plan::{PlanResume, PlanSandbox, PlanSummary};
use cleveragents_api::{Failure, NextStep, Reply, Request, WatchItem};
use cleveragents_app::failure::RequestError;
use cleveragents_app::watch::PlanWatch;
use cleveragents_app::{App, Handler};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::progress::Progress;
use cleveragents_ports::StoreError;

use super::activity::{ActivityLine, INDENT, PlanActivity};
use crate::argument_types::PlanArgument;
use crate::arguments::Format;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode, FailureKind};
use crate::output::{OutputLines, RenderOptions, Tone, Verbosity, ViewCell, WorkLines};
use crate::plan_lookup::find_plan;
use crate::progress::ProgressText;
use crate::signals::SignalListener;
use crate::unfinished_applies::recover_applies;

/// Progress output while a plan runs: events as lines for programs, or the work as lines for people
/// and, on a terminal, a status line below them.
#[derive(Debug)]
pub(crate) struct PlanProgress {
    events: Option<OutputLines>,
    work: WorkLines,
    /// Whether the work is shown: not with `--quiet` and `--events`.
    is_work_shown: bool,
    status: ProgressText,
    /// For what is shown outside of lines.
    lines: OutputLines,
    state: Mutex<ProgressState>,
}

#[derive(Debug)]
struct ProgressState {
    /// The sequence number of the last event shown; `None` to skip events before now.
    last_seq: Option<i64>,
    activity: PlanActivity,
}

impl PlanProgress {
    /// Shows events from now on.
    pub(crate) fn new(events: bool, context: &CommandContext<'_>) -> Self {
        let environment = context.environment;
        let on_terminal = environment.stderr.is_terminal();
        let width = on_terminal.then_some(environment.width);
        let is_silent = events || context.arguments.quiet;
        let colour = RenderOptions::new(Some(Format::Color), environment, Verbosity::Normal).stderr;
        let activity = PlanActivity::new(width.map(usize::from));
        Self {
            events: events.then(|| context.lines.clone()),
            work: context.lines.work_lines(colour, width),
            is_work_shown: !is_silent,
            lines: context.lines.clone(),
            status: ProgressText::new("plan", context.arguments, environment),
            state: Mutex::new(ProgressState {
                last_seq: None,
                activity,
            }),
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
        self.status.suspend(show)
    }

    /// Returns the last question of a model, ready to be shown.
    pub(crate) fn question(&self) -> String {
        let question = self.state().activity.question().to_owned();
        self.lines.escape(&question)
    }

    /// Shows which plan runs.
    pub(crate) fn announce(&self, plan: &PlanSummary) {
        let text = format!("plan {}  {}", plan.plan_id.short(), plan.name);
        self.show_lines(&[ActivityLine::new(0, text, Tone::Strong)]);
    }

    /// Shows lines about the work above the status line.
    pub(crate) fn show_lines(&self, lines: &[ActivityLine]) {
        if self.is_work_shown {
            self.show_for_question(lines);
        }
    }

    /// Shows lines that belong to a question, also where the work is not shown.
    pub(super) fn show_for_question(&self, lines: &[ActivityLine]) {
        if lines.is_empty() {
            return;
        }
        self.status.suspend(|| {
            for line in lines {
                self.work.write(line.indent, &line.text, line.tone);
            }
        });
    }

    /// Whether stdout is for events.
    pub(super) fn writes_events(&self) -> bool {
        self.events.is_some()
    }

    /// Takes in events of the plan that happened before this command, without showing them.
    pub(super) fn read_question(&self, events: &[JournalEvent]) {
        let mut state = self.state();
        events
            .iter()
            .for_each(|event| state.activity.read_question(event));
    }

    fn show_progress(&self, progress: &Progress) {
        let mut state = self.state();
        let lines = state.activity.progress(progress);
        self.show(&state.activity, &lines);
    }

    fn show_event(&self, event: &JournalEvent) -> Result<(), CommandFailure> {
        if let Some(lines) = &self.events {
            lines.json(event)?;
        }
        let mut state = self.state();
        state.last_seq = Some(event.plan_seq);
        let lines = state.activity.event(event);
        self.show(&state.activity, &lines);
        Ok(())
    }

    fn show(&self, activity: &PlanActivity, lines: &[ActivityLine]) {
        if self.is_work_shown {
            let text = self.work.open_text(INDENT, activity.open_text());
            self.status.set_text(&text);
            self.show_lines(lines);
        }
        // It contains text of models: commands, titles and errors.
        let status = self.lines.escape_line(&activity.status());
        self.status.set_message(&status);
    }

    /// Shows the rest of a text whose end was lost.
    fn end_text(&self) {
        let mut state = self.state();
        let rest = state.activity.end_text();
        self.show(&state.activity, rest.as_slice());
    }

    fn has_seen_model_call(&self, number: i64) -> bool {
        self.state().activity.has_seen_model_call(number)
    }
}

/// The events of a plan that were read and not shown yet.
#[derive(Debug)]
struct EventQueue<'a> {
    progress: &'a PlanProgress,
    watch: PlanWatch,
    waiting: VecDeque<JournalEvent>,
}

impl EventQueue<'_> {
    /// Waits for an item and shows it. Cancellation-safe as long as nothing was read.
    async fn next(&mut self) -> Result<Option<WatchItem>, StoreError> {
        tokio::select! {
            biased;
            item = self.watch.next() => item.map(Some),
            () = std::future::ready(()), if !self.waiting.is_empty() => Ok(None),
        }
    }

    async fn show(&mut self, item: Option<WatchItem>) -> Result<(), CommandFailure> {
        match item {
            Some(WatchItem::Events { events }) => {
                self.waiting.extend(events);
                self.show_waiting()
            }
            Some(WatchItem::Progress { progress }) => {
                if let Progress::ModelText { model_call, .. } = progress {
                    self.show_until_model_call(model_call).await?;
                }
                self.progress.show_progress(&progress);
                Ok(())
            }
            None => self.show_waiting(),
        }
    }

    /// Shows the events before the text of a model call. Those after it wait until the text is
    /// shown, because progress arrives before the events that follow it.
    async fn show_until_model_call(&mut self, number: i64) -> Result<(), CommandFailure> {
        if self.progress.has_seen_model_call(number) {
            return Ok(());
        }
        self.waiting.extend(self.watch.available_events().await?);
        while !self.progress.has_seen_model_call(number)
            && let Some(event) = self.waiting.pop_front()
        {
            self.progress.show_event(&event)?;
        }
        Ok(())
    }

    fn show_waiting(&mut self) -> Result<(), CommandFailure> {
        let progress = self.progress;
        let mut events = self.waiting.drain(..);
        events.try_for_each(|event| progress.show_event(&event))
    }

    /// Shows what is left at the end of the work.
    async fn finish(mut self) -> Result<(), CommandFailure> {
        while let Some(progress) = self.watch.available_progress() {
            let item = WatchItem::Progress { progress };
            self.show(Some(item)).await?;
        }
        self.waiting.extend(self.watch.available_events().await?);
        self.show_waiting()?;
        self.progress.end_text();
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
        let mut queue = EventQueue {
            progress,
            watch: handlers.watch(plan, until),
            waiting: VecDeque::new(),
        };
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
                    progress.status.set_message("stopping at a point it can resume from");
                    app.interrupt();
                }
                item = queue.next() => {
                    let item = item?;
                    queue.show(item).await?;
                }
            }
        };
        queue.finish().await?;
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
