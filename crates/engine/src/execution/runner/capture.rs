//! Captures the tree after a call, and handles calls whose changes cannot be recorded.

use serde_json::Value;

use super::SandboxGuard;
use crate::execution::error::Result;
use crate::execution::refused_changes::{find_refused, refusal_text};
use crate::execution::workspace::OpenSandbox;
use cleveragents_ports::StopSignal;
use cleveragents_ports::sandbox::{
    Capture, OmittedPath, Sandbox, SandboxError, TouchedPaths, TreeId,
};
use cleveragents_ports::tools::ToolFailure;

/// Captures the changes of a call. Changes that cannot be part of a result are undone, and `result`
/// names them. Nothing is captured if the call only reads, was interrupted, or its changes exceed a
/// limit: the tree is as before then, and `result` says why.
pub(super) fn capture(
    guard: &mut SandboxGuard,
    result: &mut std::result::Result<Value, ToolFailure>,
    touched: &TouchedPaths,
    stop: &StopSignal,
) -> Result<Option<Capture>> {
    let SandboxGuard::Exclusive(open_sandbox) = guard else {
        return Ok(None);
    };
    let OpenSandbox { sandbox, tree } = &mut **open_sandbox;
    if let Err(ToolFailure::Stopped { why, .. }) = result
        && why.requires_rollback()
    {
        undo(&mut **sandbox, tree, stop)?;
        return Ok(None);
    }
    let failure = match sandbox.capture(tree, touched, stop) {
        Ok(capture) => {
            tree.clone_from(&capture.tree);
            let refused = find_refused(&capture);
            if !refused.is_empty() {
                undo(&mut **sandbox, tree, stop)?;
                mark_refused(result, &refused);
            }
            return Ok(Some(capture));
        }
        Err(SandboxError::Stopped(why)) => ToolFailure::Stopped {
            why,
            touched: TouchedPaths::Unknown,
        },
        Err(SandboxError::OverLimit(over)) => {
            undo(&mut **sandbox, tree, stop)?;
            ToolFailure::Failed {
                reason: format!("{over}. Everything this call changed was undone"),
                touched: TouchedPaths::Paths(Vec::new()),
            }
        }
        Err(error) => return Err(error.into()),
    };
    *result = Err(failure);
    Ok(None)
}

/// Turns a call whose changes cannot all be recorded into a failed one. A stopped call stays
/// stopped.
fn mark_refused(result: &mut std::result::Result<Value, ToolFailure>, refused: &[OmittedPath]) {
    let mut reason = refusal_text(refused);
    let output = match result {
        Ok(output) => Some(std::mem::take(output)),
        Err(ToolFailure::Stopped { .. }) => return,
        Err(failure) => {
            reason = format!("{failure}. {reason}");
            None
        }
    };
    *result = Err(ToolFailure::Refused {
        reason,
        paths: refused.iter().map(|it| it.path.clone()).collect(),
        output,
    });
}

/// Restores the tree. An owner that must stop leaves this to the next owner, which restores every
/// sandbox to its last confirmed tree.
fn undo(sandbox: &mut dyn Sandbox, tree: &TreeId, stop: &StopSignal) -> Result<()> {
    match sandbox.restore(tree, stop) {
        Ok(()) | Err(SandboxError::Stopped(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
