//! What the commands that work on a plan share: what is told meanwhile, and how sandboxes are
//! shown.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cleveragents_domain::id::PlanId;
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::{Event, EventKind, ResourceType, StreamId};
use cleveragents_engine::journal::Tail;
use serde_json::{Value, json};

use super::events;
use crate::commands::Context;
use crate::failure::{ExitCode, Failure};
use crate::output::{Cell, Lines, Tone};
use crate::progress::ProgressLine;
use crate::signals::Listener;
use crate::wiring::Wired;

/// What is told while a plan is worked on: events as lines for programs, one line for people.
#[derive(Debug)]
pub(crate) struct Told {
    lines: Option<Lines>,
    progress: ProgressLine,
    seen: Mutex<Seen>,
}

/// What was told so far.
#[derive(Debug, Default)]
struct Seen {
    /// The place of the last event that was told; nothing if only what comes is.
    until: Option<i64>,
    phase: String,
    calls: u32,
    /// What models have cost meanwhile.
    usd: f64,
    doing: String,
}

impl Seen {
    fn take(&mut self, event: &Event) {
        self.until = Some(event.stream_seq);
        let payload = events::payload(event);
        let text = |key: &str| {
            let value = payload.as_ref()?.get(key)?;
            value.as_str().map(str::to_owned)
        };
        let said = |key: &str| text(key).unwrap_or_default();
        match event.kind {
            EventKind::PlanPhaseChanged => self.phase = said("to"),
            EventKind::ExecuteRequested | EventKind::ResumeRequested => {
                self.phase = said("phase");
            }
            EventKind::ToolInvoked => {
                self.calls += 1;
                self.doing = said("tool");
            }
            EventKind::ModelAsked => self.doing = format!("{} thinks", said("model")),
            EventKind::ModelAnswered => {
                let usd = payload.as_ref().and_then(|it| it.get("usd")?.as_f64());
                self.usd += usd.unwrap_or(0.0);
            }
            EventKind::ModelFailed => self.doing = format!("tries again: {}", said("error")),
            EventKind::ActorInvoked => {
                self.phase = text("phase").unwrap_or_else(|| self.phase.clone());
                self.doing = said("title");
            }
            _ => {}
        }
    }

    /// How far it is, on one line.
    fn line(&self) -> String {
        let calls = match self.calls {
            0 => String::new(),
            1 => "1 call".to_owned(),
            calls => format!("{calls} calls"),
        };
        let usd = match self.usd > 0.0 {
            true => format!("{:.4} USD", self.usd),
            false => String::new(),
        };
        let parts = [self.phase.as_str(), &calls, &usd, &self.doing];
        let parts: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
        parts.join(" · ")
    }
}

impl Told {
    /// Tells what happens from now on.
    pub(crate) fn new(events: bool, context: &Context<'_>) -> Self {
        Self {
            lines: events.then(|| context.lines.clone()),
            progress: ProgressLine::new("plan", context.arguments, context.environment),
            seen: Mutex::default(),
        }
    }

    /// Tells everything that happened to the plan, whoever did it.
    pub(crate) fn from_the_beginning(events: bool, context: &Context<'_>) -> Self {
        let told = Self::new(events, context);
        told.seen().until = Some(0);
        told
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn waits_for_a_slot(&self, running: usize) {
        let text = format!("waits for one of {running} other plans to end");
        self.progress.say(&text);
    }

    /// Lets something else be shown or asked meanwhile.
    pub(crate) fn aside<T>(&self, show: impl FnOnce() -> T) -> T {
        self.progress.aside(show)
    }

    fn tell(&self, event: &Event) -> Result<(), Failure> {
        if let Some(lines) = &self.lines {
            lines.json(&events::data(event))?;
        }
        let mut seen = self.seen();
        seen.take(event);
        self.progress.say(&seen.line());
        Ok(())
    }
}

/// Does the work and tells what happens to the plan meanwhile.
pub(crate) fn accompany<T>(
    wired: &Wired<'_>,
    told: &Told,
    plan: PlanId,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    let store = wired.store().clone();
    wired.wait(async {
        let stream = StreamId::Plan(plan);
        // A command does several things to a plan; what others do between them is told as well.
        let until = told.seen().until;
        let until = match until {
            Some(until) => until,
            None => store.read(move |unit| unit.head(stream)).await?.stream_seq,
        };
        told.seen().until = Some(until);
        let mut tail = Tail::of_stream(store.clone(), stream, until);
        let mut work = pin!(work);
        let mut interrupts = Listener::of_interrupts();
        let mut asked = false;
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break done,
                () = interrupts.heard() => {
                    if std::mem::replace(&mut asked, true) {
                        return Err(interrupted_at_once(plan));
                    }
                    told.progress.say("stops where it can be gone on with");
                    wired.interrupt();
                }
                found = tail.next() => {
                    for event in found? {
                        told.tell(&event)?;
                    }
                }
            }
        };
        for event in tail.available().await? {
            told.tell(&event)?;
        }
        Ok(done)
    })
}

/// Whoever asks twice does not want to wait: the plan is left as by a kill.
fn interrupted_at_once(plan: PlanId) -> Failure {
    Failure::new(ExitCode::Interrupted, "interrupted at once")
        .kind("interrupted")
        .because("what was being done is undone or finished by whoever goes on")
        .hint(format!("agents plan resume {plan}"))
        .with("plan_id", json!(plan))
}

/// The plan's sandboxes for programs.
pub(super) fn sandbox_data(sandboxes: &[SandboxRecord]) -> Vec<Value> {
    let one = |it: &SandboxRecord| {
        json!({
            "id": it.id,
            "resource": it.resource_name,
            "strategy": match it.resource_type {
                ResourceType::GitCheckout => "git",
                ResourceType::FsDirectory => "copy",
            },
            "base": it.base,
            "base_commit": it.base_commit,
            "branch": match it.resource_type {
                ResourceType::GitCheckout => {
                    json!(format!("refs/cleveragents/plan-{}", it.plan_id))
                }
                ResourceType::FsDirectory => Value::Null,
            },
            "status": it.state,
            "tree": it.tree,
            "warnings": it.warnings,
        })
    };
    sandboxes.iter().map(one).collect()
}

/// The plan's sandboxes for people.
pub(super) fn sandbox_rows(sandboxes: &[SandboxRecord]) -> Vec<Vec<Cell>> {
    let row = |it: &SandboxRecord| {
        vec![
            Cell::new(it.resource_name.to_string(), Tone::Strong),
            it.id.short().into(),
            it.state.as_str().into(),
        ]
    };
    sandboxes.iter().map(row).collect()
}
