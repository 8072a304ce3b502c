//! Runs the tool of a recorded call until its process tree is dead, and captures its changes.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::StreamId;
use cleveragents_domain::event::payloads::ProcessStarted;
use cleveragents_domain::process::ProcessIdentity;
use cleveragents_domain::tool_call::ToolCallRecord;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

use super::{SandboxGuard, ToolCallContext, ToolRunner, capture};
use crate::execution::error::{ExecutionError, Result};
use crate::journal::new_event;
use crate::runs::FencedWriter;
use cleveragents_ports::sandbox::{Capture, TouchedPaths};
use cleveragents_ports::tools::{ToolFailure, ToolInvocation};
use cleveragents_ports::{Ids, StopReason, StopSignal, StoreError, StoreOperation};

/// Time limit for capturing the changes of a call after its owner received a stop signal.
/// Changes not captured by then are undone when the sandbox is opened next.
const CAPTURE_GRACE: Duration = Duration::from_millis(200);

/// The stop signals of one call: one for the tool, one for the capture of its changes.
#[derive(Debug, Clone, Default)]
struct CallStopSignals {
    tool: StopSignal,
    capture: StopSignal,
}

/// The lock on the sandbox and the stop signals, for the thread that runs the tool.
struct RunParts {
    guard: SandboxGuard,
    stops: CallStopSignals,
}

/// Waits until the owner must stop.
async fn wait_for_stop(stop_receiver: &mut watch::Receiver<Option<StopReason>>) -> StopReason {
    let why = stop_receiver.wait_for(Option::is_some).await;
    why.ok()
        .and_then(|why| *why)
        .unwrap_or(StopReason::Cancelled)
}

/// Result of running a tool, with the captured tree. Holds the sandbox lock until the call is
/// recorded.
pub(super) struct ToolRunResult {
    pub(super) result: std::result::Result<Value, ToolFailure>,
    pub(super) capture: Option<Capture>,
    pub(super) guard: SandboxGuard,
}

impl ToolRunner {
    /// Runs the tool with this input, which the record holds with secrets masked.
    pub(super) async fn run(
        &self,
        context: &ToolCallContext<'_>,
        record: &ToolCallRecord,
        input: &Value,
        guard: SandboxGuard,
    ) -> Result<ToolRunResult> {
        let stops = CallStopSignals::default();
        let mut work = self.spawn(
            context,
            record,
            input.clone(),
            RunParts {
                guard,
                stops: stops.clone(),
            },
        );
        let tool = self.toolbox.tool(&record.call.tool);
        let timeout = tool.map(|tool| tool.definition().timeout());
        // A clone sees a stop that was sent before this call started.
        let mut stop_receiver = self.stop.clone();
        let mut why = tokio::select! {
            ran = &mut work => return ran?,
            () = tokio::time::sleep(timeout.unwrap_or_default()) => StopReason::TimedOut,
            why = wait_for_stop(&mut stop_receiver) => why,
        };
        // Asks the tool to stop and waits for it: a thread cannot be killed, and its sandbox stays
        // locked.
        stops.tool.stop(why);
        if why == StopReason::TimedOut {
            // The timeout limits only the tool, not the recording of its changes.
            why = tokio::select! {
                ran = &mut work => return ran?,
                why = wait_for_stop(&mut stop_receiver) => why,
            };
            stops.tool.stop(why);
        }
        tokio::select! {
            ran = &mut work => return ran?,
            // The capture gets a moment, because captured changes are worth more than a quick exit.
            () = tokio::time::sleep(CAPTURE_GRACE) => {}
        }
        stops.capture.stop(why);
        work.await?
    }

    /// Runs the tool and captures its changes on a thread that may block.
    fn spawn(
        &self,
        context: &ToolCallContext<'_>,
        record: &ToolCallRecord,
        input: Value,
        parts: RunParts,
    ) -> JoinHandle<Result<ToolRunResult>> {
        let toolbox = Arc::clone(&self.toolbox);
        let stamps = Arc::clone(context.stamps);
        let announcer = Announcer {
            owner: self.owner.clone(),
            ids: Arc::clone(&self.ids),
            call: record.clone(),
            runtime: Handle::current(),
        };
        // The record has masked secrets; the tool needs the original input.
        let call = record.call.clone();
        spawn_blocking(move || {
            let RunParts { mut guard, stops } = parts;
            // Looked up again, because a reference cannot move into the thread.
            let Some(tool) = toolbox.tool(&call.tool) else {
                let reason = format!("the tool {} is gone", call.tool);
                return Err(ExecutionError::Internal { reason });
            };
            let (sandbox, tree) = match &guard {
                SandboxGuard::Shared(open_sandbox) => (&*open_sandbox.sandbox, &open_sandbox.tree),
                SandboxGuard::Exclusive(open_sandbox) => {
                    (&*open_sandbox.sandbox, &open_sandbox.tree)
                }
            };
            let answer = tool.run(&ToolInvocation {
                input: &input,
                sandbox,
                tree,
                stamps: &stamps,
                stop: &stops.tool,
                on_process_start: &|mark| announcer.announce(mark),
            });
            let (mut result, touched) = match answer {
                Ok(output) => match tool.check_output(&output) {
                    Ok(()) => (Ok(output.data), output.touched),
                    Err(failure) => (Err(failure), output.touched),
                },
                Err(failure) => {
                    let touched = touched_by(&failure);
                    (Err(failure), touched)
                }
            };
            // Also after a failure: the tool may have changed files before it failed.
            let capture = capture::capture(&mut guard, &mut result, &touched, &stops.capture)?;
            Ok(ToolRunResult {
                result,
                capture,
                guard,
            })
        })
    }
}

/// Returns the paths a failed call may have changed.
fn touched_by(failure: &ToolFailure) -> TouchedPaths {
    match failure {
        ToolFailure::Failed { touched, .. } | ToolFailure::Stopped { touched, .. } => {
            touched.clone()
        }
        // These are refusals: a tool raises them before it changes anything.
        ToolFailure::Input { .. } | ToolFailure::Stale { .. } | ToolFailure::Refused { .. } => {
            TouchedPaths::Paths(Vec::new())
        }
        ToolFailure::Sandbox(_) | ToolFailure::Process(_) | ToolFailure::Store(_) => {
            // Nothing is known of the changes, so the capture must scan the whole tree.
            TouchedPaths::Unknown
        }
    }
}

/// Records a started process, called from the thread that started it. The process waits until the
/// record is durable, so that the next owner can kill it after a crash.
struct Announcer {
    owner: FencedWriter,
    ids: Arc<dyn Ids>,
    call: ToolCallRecord,
    runtime: Handle,
}

impl Announcer {
    fn announce(&self, mark: &ProcessIdentity) -> std::result::Result<(), StoreError> {
        let (id, plan) = (self.call.call.id, self.call.call.plan_id);
        let (actor, mark) = (self.owner.actor(), mark.clone());
        let operation = StoreOperation::new(&*self.ids, "tool.process-started");
        self.runtime
            // This thread is one of `spawn_blocking`, so blocking it stops no other task. Fenced: a
            // process of an evicted owner does not start (law 5).
            .block_on(self.owner.write(operation, move |tx| {
                tx.set_tool_call_process(id, &mark)?;
                let started = ProcessStarted {
                    tool_call_id: id,
                    process: mark.clone(),
                };
                tx.append(StreamId::Plan(plan), &[new_event(&actor, &started)?])?;
                Ok(())
            }))
    }
}
