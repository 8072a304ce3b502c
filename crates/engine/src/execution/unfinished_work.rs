//! Work that a dead owner left unfinished: its processes are killed, its calls are recorded as
//! interrupted.

use std::sync::Arc;

use cleveragents_domain::StreamId;
use cleveragents_domain::event::payloads::ToolInterrupted;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::tool_call::{ToolCallEnd, ToolCallRecord, ToolCallState};

use super::agent_loop::abandon_model_call;
use super::changesets::ExecutionContext;
use super::error::Result;
use super::services::EngineServices;
use crate::journal::new_event;
use crate::runs::RunLease;
use cleveragents_ports::StoreError;

/// Kills processes that a dead owner left running and records its unfinished calls as
/// interrupted. Returns them. Their sandboxes are restored when they are opened.
pub(crate) async fn interrupt_unfinished(
    services: &EngineServices,
    run: &RunLease,
) -> Result<Vec<ToolCallRecord>> {
    let plan = run.lease().plan;
    let calls = services
        .store
        .read(move |tx| tx.unfinished_tool_calls(plan))
        .await?;
    services.end_processes(&calls).await?;
    interrupt_model_calls(services, run).await?;
    let ids = Arc::clone(&services.ids);
    let context = ExecutionContext::new(services.store.clone(), ids, run.lease().clone());
    context.close_abandoned().await?;
    let mut interrupted = Vec::with_capacity(calls.len());
    for call in calls {
        let actor = run.lease().owner.to_string();
        let operation = services.operation("tool.interrupt");
        let ended = run.write(operation, move |tx| {
            let end = ToolCallEnd {
                state: ToolCallState::Interrupted,
                output: None,
                error: Some("its process ended during the call".to_owned()),
                tree_after: call.call.tree_before.clone(),
            };
            let ended = tx.end_tool_call(call.call.id, &end)?;
            let payload = ToolInterrupted {
                tool_call_id: ended.call.id,
                number: ended.number,
                tool: None,
                duration_ms: None,
                changes: None,
                omitted: None,
                tree: end.tree_after,
                error: None,
            };
            tx.append(StreamId::Plan(plan), &[new_event(&actor, &payload)?])?;
            Ok::<_, StoreError>(ended)
        });
        interrupted.push(ended.await?);
    }
    Ok(interrupted)
}

/// Records unfinished model calls of a dead owner as interrupted.
async fn interrupt_model_calls(services: &EngineServices, run: &RunLease) -> Result<()> {
    let plan: PlanId = run.lease().plan;
    let unfinished = services
        .store
        .read(move |tx| tx.unfinished_model_calls(plan))
        .await?;
    for record in unfinished {
        let owner = run.lease().owner.to_string();
        run.write(services.operation("model.interrupt"), move |tx| {
            let why = "its process ended before the answer came";
            abandon_model_call(tx, &record, why, &owner)
        })
        .await?;
    }
    Ok(())
}
