//! Shared by the commands that run a plan: progress output, and the display of sandboxes.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cleveragents_api::plan::PlanSandbox;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::{Event, EventBody, EventKind, StreamId};
use cleveragents_engine::journal::Tail;
use serde_json::{Value, json};

use super::events;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{OutputLines, Tone, ViewCell};
use crate::progress::ProgressLine;
use crate::signals::SignalListener;

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
    fn update(&mut self, event: &Event) {
        self.last_seq = Some(event.stream_seq);
        if event.kind == EventKind::ToolInvoked {
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
            EventBody::ModelFailed(it) => self.activity = format!("retrying: {}", it.error),
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

    pub(crate) fn show_waiting_for_slot(&self, running: usize) {
        let text = format!("waiting for one of {running} other plans to end");
        self.progress.set_message(&text);
    }

    /// Hides the status line while `show` prints or asks something.
    pub(crate) fn suspend<T>(&self, show: impl FnOnce() -> T) -> T {
        self.progress.suspend(show)
    }

    fn show_event(&self, event: &Event) -> Result<(), CommandFailure> {
        if let Some(lines) = &self.lines {
            lines.json(&events::data(event))?;
        }
        let mut seen = self.state();
        seen.update(event);
        self.progress.set_message(&seen.format_line());
        Ok(())
    }
}

/// Runs `work` and shows the plan's events meanwhile. The first Ctrl-C sends the stop signal; a
/// second one returns at once.
pub(crate) fn run_with_progress<T>(
    app: &AppContext<'_>,
    progress: &PlanProgress,
    plan: PlanId,
    work: impl Future<Output = T>,
) -> Result<T, CommandFailure> {
    let store = app.store().clone();
    app.block_on(async {
        let stream = StreamId::Plan(plan);
        // A command may run several works on a plan. Continue after the last event shown, so that
        // events of other processes in between are shown too.
        let until = progress.state().last_seq;
        let until = match until {
            Some(until) => until,
            None => store.read(move |tx| tx.head(stream)).await?.stream_seq,
        };
        progress.state().last_seq = Some(until);
        let mut tail = Tail::of_stream(store.clone(), stream, until);
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
                found = tail.next() => {
                    for event in found? {
                        progress.show_event(&event)?;
                    }
                }
            }
        };
        for event in tail.read_available().await? {
            progress.show_event(&event)?;
        }
        Ok(done)
    })
}

/// Returns the failure after a second Ctrl-C: the work is dropped, and the plan is left as after a
/// crash.
fn forced_interrupt_failure(plan: PlanId) -> CommandFailure {
    CommandFailure::new(ExitCode::Interrupted, "interrupted at once")
        .kind("interrupted")
        .because("unfinished work is undone or completed on resume")
        .hint(format!("agents plan resume {plan}"))
        .with("plan_id", json!(plan))
}

/// Returns the plan's sandboxes for JSON output.
pub(super) fn sandbox_data(sandboxes: &[SandboxRecord]) -> Vec<Value> {
    let data = |record| json!(PlanSandbox::from(record));
    sandboxes.iter().map(data).collect()
}

/// Returns the plan's sandboxes as table rows.
pub(super) fn sandbox_rows(sandboxes: &[SandboxRecord]) -> Vec<Vec<ViewCell>> {
    let row = |it: &SandboxRecord| {
        vec![
            ViewCell::new(it.resource_name.to_string(), Tone::Strong),
            it.id.short().into(),
            it.state.as_str().into(),
        ]
    };
    sandboxes.iter().map(row).collect()
}
