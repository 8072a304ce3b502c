//! `sandbox.gc`

use cleveragents_api::sandbox::{
    CollectedApply, CollectedCounts, CollectedSandbox, CollectionOutcome, SandboxGc,
    SandboxesCollected,
};
use cleveragents_api::{ExitClass, NextStep, Reply};
use cleveragents_engine::applying::{ApplyGarbageCollector, SweptApply};
use cleveragents_engine::sandboxes::{GcMode, GcRequest, GcVerdict, SweptSandbox};

use crate::app::{App, Caller, Handler};
use crate::execution::TargetLockWait;
use crate::failure::RequestError;
use crate::sandbox::sandbox_service;
use crate::text::format_length;

impl Handler<SandboxGc> for App {
    async fn handle(
        &self,
        request: SandboxGc,
        caller: &Caller,
    ) -> Result<Reply<SandboxesCollected>, RequestError> {
        let gc = GcRequest {
            mode: if request.dry_run {
                GcMode::DryRun
            } else {
                GcMode::Remove
            },
            older_than: request.older_than.unwrap_or_default().0,
            actor: caller.who.clone(),
        };
        let sandboxes = sandbox_service(&self.services)?.gc(&gc).await?;
        let applies = ApplyGarbageCollector {
            store: self.services.store().clone(),
            lifecycle: self.services.lifecycle(),
            runs: self.services.runs(),
            targets: self
                .services
                .adapters()
                .apply_targets(TargetLockWait::Bounded)?,
        };
        let applies = applies.collect(&gc).await?;
        let applies = applies.into_iter().map(collected_apply).collect();
        Ok(reply(answer(sandboxes, applies, request.dry_run)))
    }
}

fn answer(
    swept: Vec<SweptSandbox>,
    applies: Vec<CollectedApply>,
    dry_run: bool,
) -> SandboxesCollected {
    let (mut removed, mut kept, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for SweptSandbox { sandbox, verdict } in swept {
        let (outcome, reason) = outcome(verdict);
        let list = match outcome {
            CollectionOutcome::Removed => &mut removed,
            CollectionOutcome::Kept => &mut kept,
            CollectionOutcome::Failed => &mut failed,
        };
        list.push(CollectedSandbox {
            id: sandbox.id,
            plan_id: sandbox.plan,
            resource: sandbox.resource,
            reason,
        });
    }
    SandboxesCollected {
        dry_run,
        summary: CollectedCounts {
            removed: removed.len(),
            kept: kept.len(),
            failed: failed.len(),
        },
        removed,
        kept,
        failed,
        applies,
    }
}

fn collected_apply(swept: SweptApply) -> CollectedApply {
    let (what, reason) = outcome(swept.verdict);
    CollectedApply {
        id: swept.id,
        plan_id: swept.plan,
        what,
        reason,
    }
}

fn outcome(verdict: GcVerdict) -> (CollectionOutcome, String) {
    match verdict {
        GcVerdict::Remove(why) => (CollectionOutcome::Removed, why),
        GcVerdict::Keep(why) => (CollectionOutcome::Kept, why),
        GcVerdict::Failed(why) => (CollectionOutcome::Failed, why),
    }
}

fn reply(answer: SandboxesCollected) -> Reply<SandboxesCollected> {
    let (dry_run, removed) = (answer.dry_run, answer.removed.len());
    let has_failed = !answer.failed.is_empty();
    let again = || NextStep::send(&SandboxGc::default());
    let said = match (removed, dry_run) {
        (0, _) => "there is nothing to remove".to_owned(),
        (_, true) => "nothing was removed: a dry run".to_owned(),
        (_, false) => format!("{} removed", format_length(removed, "sandbox")),
    };
    let reply = add_apply_messages(Reply::new(answer).info(said));
    let reply = if dry_run && removed > 0 {
        reply.hint(again())
    } else {
        reply
    };
    if has_failed {
        reply
            .error("not everything could be removed")
            .hint(again())
            .with_exit(ExitClass::Error)
    } else {
        reply
    }
}

/// Adds messages about applies, if any.
fn add_apply_messages(reply: Reply<SandboxesCollected>) -> Reply<SandboxesCollected> {
    let count = |outcome| {
        let applies = reply.answer.applies.iter();
        applies.filter(|it| it.what == outcome).count()
    };
    let removed = count(CollectionOutcome::Removed);
    let failed = count(CollectionOutcome::Failed);
    let verb = if reply.answer.dry_run {
        "would be removed"
    } else {
        "removed"
    };
    let reply = match removed {
        0 => reply,
        _ => reply.info(format!("data of {} {verb}", format_apply_count(removed))),
    };
    match failed {
        0 => reply,
        _ => reply.warn(format!(
            "data of {} could not be removed; the next run tries again",
            format_apply_count(failed)
        )),
    }
}

fn format_apply_count(number: usize) -> String {
    match number {
        1 => "1 finished apply".to_owned(),
        _ => format!("{number} finished applies"),
    }
}
