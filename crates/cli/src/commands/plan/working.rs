//! What the commands that work on a plan share: what is told meanwhile, and how sandboxes are
//! shown.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

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
    /// What models have cost meanwhile.
    usd: Mutex<f64>,
}

impl Told {
    fn cost(&self) -> String {
        match *self.usd.lock().unwrap_or_else(PoisonError::into_inner) {
            usd if usd > 0.0 => format!(" ({usd:.4} USD so far)"),
            _ => String::new(),
        }
    }

    pub(crate) fn new(events: bool, context: &Context<'_>) -> Self {
        Self {
            lines: events.then(|| context.lines.clone()),
            progress: ProgressLine::new("plan", context.arguments, context.environment),
            usd: Mutex::new(0.0),
        }
    }

    pub(crate) fn waits_for_a_slot(&self, running: usize) {
        let text = format!("waits for one of {running} other plans to end");
        self.progress.say(&text);
    }

    fn tell(&self, event: &Event) -> Result<(), Failure> {
        if let Some(lines) = &self.lines {
            lines.json(&events::data(event))?;
        }
        let payload = events::payload(event);
        let text = |key: &str| {
            let value = payload.as_ref()?.get(key)?;
            value.as_str().map(str::to_owned)
        };
        match event.kind {
            EventKind::ToolInvoked => {
                self.progress.say(&text("tool").unwrap_or_default());
            }
            EventKind::PlanPhaseChanged => self.progress.say(&text("to").unwrap_or_default()),
            EventKind::ModelAsked => {
                let model = text("model").unwrap_or_default();
                self.progress.say(&format!("{model} thinks{}", self.cost()));
            }
            EventKind::ModelAnswered => {
                let usd = payload.as_ref().and_then(|it| it.get("usd")?.as_f64());
                let mut all = self.usd.lock().unwrap_or_else(PoisonError::into_inner);
                *all += usd.unwrap_or(0.0);
            }
            EventKind::ModelFailed => {
                let error = text("error").unwrap_or_default();
                self.progress.say(&format!("tries again: {error}"));
            }
            EventKind::ActorInvoked => self.progress.say(&text("title").unwrap_or_default()),
            _ => {}
        }
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
        let head = store.read(move |unit| unit.head(stream)).await?;
        let mut tail = Tail::of_stream(store.clone(), stream, head.stream_seq);
        let mut work = pin!(work);
        let mut interrupts = Listener::of_interrupts();
        let mut asked = false;
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break done,
                () = interrupts.heard() => {
                    if std::mem::replace(&mut asked, true) {
                        return Err(Failure::new(ExitCode::Interrupted, "interrupted at once"));
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
