//! Every kind of event as one line for people, for `plan log` and for the view of a running plan.
//!
//! One function per subject; [`describe`] asks them in turn. A test requires a text for every kind.

use std::fmt::Display;

use cleveragents_api::plan::log::JournalEvent;
use cleveragents_app::plan::describe_waiting;
use cleveragents_app::text::{format_length, format_size};
use cleveragents_domain::apply_record::{ApplyDirection, Destination};
use cleveragents_domain::event::payloads::{
    BudgetWarning, CheckpointRestored, ModelAnswered, ModelFailed, PhaseChange, StateChange,
    ValidationsCompleted,
};
use cleveragents_domain::model_call::ModelSpend;
use cleveragents_domain::rebase::RebasedWork;
use cleveragents_domain::{
    Budget, ChangeEntry, EventBody, FileOperation, MessageKind, PayloadOutcome,
};

use super::call_text::{call_text, duration_text, one_line, result_text};

/// Returns what happened, as one line. Empty for a kind or a payload that this program does not
/// know.
pub(super) fn summarize(event: &JournalEvent) -> String {
    match event.read_body() {
        Ok(PayloadOutcome::Purged) => "(erased)".to_owned(),
        Ok(outcome) => outcome
            .known()
            .map(|body| describe(&body))
            .unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// Returns what happened, as one line.
pub(super) fn describe(body: &EventBody) -> String {
    let subjects = [
        plan_text,
        request_text,
        definition_text,
        decision_text,
        actor_text,
        model_text,
        tool_text,
        sandbox_text,
        change_text,
        apply_text,
        run_text,
        store_text,
    ];
    let mut texts = subjects.iter().filter_map(|subject| subject(body));
    texts.next().unwrap_or_default()
}

fn plan_text(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::PlanCreated(it) => {
            format!(
                "plan {} created: {}",
                it.0.name,
                one_line(&it.0.brief.description)
            )
        }
        EventBody::PlanPhaseChanged(it) => phase_text("", &it.0),
        EventBody::PlanReverted(it) => phase_text("reverted: ", &it.0),
        EventBody::PlanCorrected(it) => phase_text("corrected: ", &it.0),
        EventBody::PlanStateChanged(it) => state_text(&it.0),
        EventBody::PlanApplied(it) => with_reason("applied", it.0.reason.as_deref()),
        EventBody::PlanCancelled(it) => with_reason("cancelled", it.0.reason.as_deref()),
        EventBody::PlanErrored(it) => {
            with_reason(&format!("{} failed", it.0.phase), it.0.reason.as_deref())
        }
        EventBody::PlanWaiting(it) => match it.0.waiting {
            Some(waiting) => with_reason(&describe_waiting(waiting), it.0.reason.as_deref()),
            None => state_text(&it.0),
        },
        EventBody::PlanBudgetChanged(it) => {
            format!("budget {} → {}", budget_text(&it.from), budget_text(&it.to))
        }
        EventBody::PlanDeleted(it) => {
            format!("plan {} deleted at {}/{}", it.name, it.phase, it.state)
        }
        EventBody::ErrorRecorded(it) => {
            let again = match it.0.occurrences {
                ..=1 => String::new(),
                times => format!(" ({times} times)"),
            };
            format!("error: {}{again}", one_line(&it.0.message))
        }
        _ => return None,
    })
}

fn request_text(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::PlanPrompted(it) => format!("guidance: {}", one_line(&it.0.body)),
        EventBody::MessageSent(it) => match it.0.kind {
            MessageKind::Prompt => format!("guidance sent: {}", one_line(&it.0.body)),
            MessageKind::Cancel => format!("cancellation requested: {}", one_line(&it.0.body)),
            MessageKind::Pause => format!("pause requested: {}", one_line(&it.0.body)),
        },
        EventBody::MessageTaken(it) => {
            format!("{} received", format_length(it.messages.len(), "message"))
        }
        EventBody::ExecuteRequested(it) => {
            format!("requested to run, at {}/{}", it.0.phase, it.0.state)
        }
        EventBody::ResumeRequested(it) => {
            format!("requested to resume, at {}/{}", it.0.phase, it.0.state)
        }
        EventBody::ApplyRequested(it) => {
            format!(
                "requested to apply to {}",
                destination_text(&it.destination)
            )
        }
        _ => return None,
    })
}

fn definition_text(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::ActionCreated(it) => format!("action {} created", it.name),
        EventBody::ActionUpdated(it) => format!("action {} updated", it.name),
        EventBody::ActionArchived(it) => format!("action {} archived", it.name),
        EventBody::ProjectCreated(it) => format!("project {} created", it.0.name),
        EventBody::ProjectDeleted(it) => format!("project {} deleted", it.name),
        EventBody::ResourceAdded(it) => format!("resource {} added: {}", it.0.name, it.0.path),
        EventBody::ResourceRemoved(it) => format!("resource {} removed", it.name),
        EventBody::ResourceLinked(it) => format!("{} linked to {}", it.resource, it.project),
        EventBody::ResourceUnlinked(it) => format!("{} unlinked from {}", it.resource, it.project),
        EventBody::ProfileAdded(it) => format!("profile {} added", it.0.name),
        EventBody::ProfileUpdated(it) => format!("profile {} updated", it.0.name),
        EventBody::RepositoryFileTrusted(it) => {
            format!("{} of {} trusted", it.0.path, it.0.repository)
        }
        EventBody::ActorAdded(it) => format!("actor {} added", it.0.name),
        EventBody::ActorUpdated(it) => format!("actor {} updated", it.0.name),
        EventBody::ActorRemoved(it) => format!("actor {} removed", it.name),
        EventBody::ValidationAdded(it) => format!("validation {} added", it.0.name),
        EventBody::ValidationUpdated(it) => format!("validation {} updated", it.0.name),
        EventBody::ValidationRemoved(it) => format!("validation {} removed", it.name),
        EventBody::ValidationAttached(it) => format!("validation {} attached", it.0.validation),
        EventBody::ValidationDetached(it) => format!("validation {} detached", it.0.validation),
        EventBody::InvariantAdded(it) => format!("rule added: {}", one_line(&it.0.text)),
        EventBody::InvariantRemoved(it) => format!("rule removed: {}", one_line(&it.0.text)),
        _ => return None,
    })
}

fn decision_text(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::DecisionCreated(it) => {
            format!(
                "{} {}",
                one_line(&it.0.question),
                one_line(&it.0.chosen_option)
            )
        }
        EventBody::DecisionInfluenced(it) => {
            format!("decision {} uses {}", it.0.to.short(), it.0.from.short())
        }
        EventBody::DecisionCorrected(it) => {
            format!(
                "decision {} corrected by {}",
                it.original.short(),
                it.new.short()
            )
        }
        EventBody::DecisionSuperseded(it) => {
            format!(
                "{} superseded",
                format_length(it.decisions.len(), "decision")
            )
        }
        EventBody::DecisionReinstated(it) => {
            format!(
                "{} reinstated",
                format_length(it.decisions.len(), "decision")
            )
        }
        EventBody::CorrectionRequested(it) => {
            format!("correction requested: {}", one_line(&it.0.guidance))
        }
        EventBody::CorrectionCompleted(it) => {
            format!("correction complete: {}", one_line(&it.0.guidance))
        }
        EventBody::InvariantReconciled(it) => {
            let rules = format_count(it.effective, "rule");
            format!(
                "{rules} in effect, {} new, {} withdrawn",
                it.added, it.withdrawn
            )
        }
        EventBody::InvariantEnforced(it) => {
            format!("rule in effect: {}", one_line(&it.0.chosen_option))
        }
        EventBody::StrategyStored(it) => {
            format!("strategy {}: {}", it.number, format_count(it.steps, "step"))
        }
        EventBody::StrategyApproved(it) => format!("strategy {} approved", it.number),
        _ => return None,
    })
}

fn actor_text(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::ActorInvoked(it) => {
            format!("{} {}", step_text(it.step, it.steps), one_line(&it.title))
        }
        EventBody::ActorCompleted(it) => format!("step {} complete", it.step),
        EventBody::ActorErrored(it) => format!("step {} failed: {}", it.step, one_line(&it.reason)),
        EventBody::InstructionsRead(it) => {
            let paths: Vec<&str> = it.instructions.iter().map(|it| it.path.as_str()).collect();
            let skills = format_count(it.skills, "skill");
            match paths.as_slice() {
                [] => format!("no instructions, {skills}"),
                paths => format!("instructions read: {}; {skills}", paths.join(", ")),
            }
        }
        EventBody::ConversationCompacted(it) => format!(
            "conversation compacted: {} → {} tokens",
            it.tokens_before, it.tokens_after
        ),
        _ => return None,
    })
}

fn model_text(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::ModelAsked(it) => format!("{} asked", it.model),
        EventBody::ModelAnswered(it) => answer_text(it),
        EventBody::ModelFailed(it) => failure_text(it),
        EventBody::ModelInterrupted(it) => {
            format!(
                "model call {} interrupted, {}",
                it.number,
                spend_text(it.spent)
            )
        }
        EventBody::BudgetWarning(it) => warning_text(it),
        EventBody::BudgetExceeded(it) => format!(
            "budget exceeded: {} used of {}, and {} wants {}",
            spend_text(it.used),
            budget_text(&it.limit),
            it.model,
            spend_text(it.wanted)
        ),
        _ => return None,
    })
}

fn tool_text(body: &EventBody) -> Option<String> {
    let failed = |tool: &dyn Display, number: i64, what: &str, error: Option<&str>| {
        with_reason(&format!("call {number}, {tool}: {what}"), error)
    };
    Some(match body {
        EventBody::ToolInvoked(it) => {
            format!("call {}: {}", it.number, call_text(&it.tool, &it.input))
        }
        EventBody::ToolCompleted(it) => {
            let changes = match it.changes {
                0 => String::new(),
                changes => format_count(changes, "change"),
            };
            let time = match (it.duration_ms, it.exit_code) {
                (Some(time), None) => duration_text(time),
                _ => String::new(),
            };
            let parts = ["done".to_owned(), result_text(it), changes, time];
            let parts: Vec<String> = parts.into_iter().filter(|it| !it.is_empty()).collect();
            format!("call {}, {}: {}", it.number, it.tool, parts.join(", "))
        }
        EventBody::ToolErrored(it) => failed(&it.tool, it.number, "failed", it.error.as_deref()),
        EventBody::ToolInterrupted(it) => {
            let tool = it
                .tool
                .as_ref()
                .map_or("a tool".to_owned(), ToString::to_string);
            failed(&tool, it.number, "interrupted", it.error.as_deref())
        }
        EventBody::ToolRefused(it) => format!("{} refused: {}", it.tool, one_line(&it.reason)),
        EventBody::ProcessStarted(it) => {
            format!("process started, confined by {}", it.process.confinement)
        }
        _ => return None,
    })
}

fn sandbox_text(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::SandboxIntended(it) => {
            format!("sandbox of {}, from {}", it.resource, it.base)
        }
        EventBody::SandboxStateChanged(it) if it.from == it.to => {
            format!("folder of sandbox {} closed", it.sandbox_id.short())
        }
        EventBody::SandboxStateChanged(it) => {
            format!("sandbox {}: {} → {}", it.sandbox_id.short(), it.from, it.to)
        }
        EventBody::SandboxRemoved(it) => {
            format!("folder of sandbox {} removed", it.sandbox_id.short())
        }
        EventBody::CheckpointCreated(it) => format!("checkpoint {}: {}", it.number, it.label),
        EventBody::CheckpointRestored(it) => rollback_text(it),
        EventBody::ValidationsCompleted(it) => validations_text(it),
        _ => return None,
    })
}

fn change_text(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::ChangesetStarted(it) => match it.0.step {
            Some(step) => format!("changes of step {step} begin"),
            None => "changes begin".to_owned(),
        },
        EventBody::ChangesetClosed(it) => {
            let entries = u64::try_from(it.entries).unwrap_or_default();
            format!("{} recorded", format_count(entries, "change"))
        }
        EventBody::ChangeRecorded(it) => entry_text(&it.entry),
        EventBody::ChangeRejected(it) => {
            let part = match it.hunk {
                Some(hunk) => format!("{}, hunk {hunk}", it.path),
                None => it.path.to_string(),
            };
            format!("rejected: {part}: {}", one_line(&it.why))
        }
        _ => return None,
    })
}

fn apply_text(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::ApplyIntended(it) => match it.direction {
            ApplyDirection::Apply => format!("applying to {}", destination_text(&it.destination)),
            ApplyDirection::Unapply => "undoing the applied changes".to_owned(),
        },
        EventBody::ApplyDecided(it) => {
            format!(
                "{} ready: point of no return",
                format_count(it.resources, "target")
            )
        }
        EventBody::ApplyStopped(it) => {
            let conflicts: Vec<String> = it.conflicts.iter().map(ToString::to_string).collect();
            format!("apply stopped: {}", conflicts.join("; "))
        }
        EventBody::ApplySettled(_) => "the targets were accepted as they are".to_owned(),
        EventBody::ApplyAborted(it) => format!("apply aborted: {}", one_line(&it.reason)),
        EventBody::PlanUnapplied(_) => "the applied changes were undone".to_owned(),
        EventBody::PlanRebased(it) => match it.outcome {
            RebasedWork::Merged => "rebased: the changes were merged".to_owned(),
            RebasedWork::Requeued => "rebased: the work is repeated".to_owned(),
        },
        _ => return None,
    })
}

fn run_text(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::RunClaimed(it) => format!("{} started", it.phase),
        EventBody::RunReleased(_) => "the process released the plan".to_owned(),
        EventBody::RunEvicted(it) => {
            format!("{} taken from a process that ended", it.phase)
        }
        _ => return None,
    })
}

fn store_text(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::PayloadPurged(it) => {
            let events = format_length(it.places.len(), "event");
            format!("{events} erased: {}", one_line(&it.reason))
        }
        EventBody::StoreInitialised(it) => format!("store initialised by agents {}", it.version),
        EventBody::BackupCreated(it) => {
            format!("backup of {} written to {}", format_size(it.bytes), it.path)
        }
        EventBody::BackupRestored(it) => format!("backup of {} restored", it.created_at),
        EventBody::GarbageCollected(it) => format!(
            "unused data removed: {}, {}",
            format_count(it.blobs, "blob"),
            format_size(it.blob_bytes)
        ),
        _ => return None,
    })
}

/// Returns for example `step 1/3`.
pub(super) fn step_text(step: u32, steps: Option<u32>) -> String {
    match steps {
        Some(steps) => format!("step {step}/{steps}"),
        None => format!("step {step}"),
    }
}

fn phase_text(what: &str, change: &PhaseChange) -> String {
    let text = format!("{what}{} → {}", change.from, change.to);
    with_reason(&text, change.reason.as_deref())
}

fn state_text(change: &StateChange) -> String {
    let text = format!("{}: {} → {}", change.phase, change.from, change.to);
    with_reason(&text, change.reason.as_deref())
}

fn with_reason(text: &str, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("{text}: {}", one_line(reason)),
        None => text.to_owned(),
    }
}

fn answer_text(answered: &ModelAnswered) -> String {
    let usage = answered.usage;
    let tokens = format!("{} + {} tokens", usage.input_tokens, usage.output_tokens);
    let usd = match answered.usd {
        Some(usd) if usd > 0.0 => format!("{usd:.4} USD"),
        _ => String::new(),
    };
    let time = answered.duration_ms.map(duration_text).unwrap_or_default();
    let tools = answered.tool_calls.as_deref().unwrap_or_default();
    let calls = match tools {
        [] => String::new(),
        tools => format!("calls {}", tools.join(", ")),
    };
    let parts = [tokens, usd, time, calls].into_iter();
    let parts: Vec<String> = parts.filter(|it| !it.is_empty()).collect();
    format!("answer: {}", parts.join(", "))
}

fn failure_text(failed: &ModelFailed) -> String {
    let error = one_line(&failed.error);
    let spent = failed.spent.filter(|it| it.tokens > 0);
    let cost = spent.map_or_else(String::new, |it| format!(", {}", spend_text(it)));
    match failed.retry_in_ms {
        Some(Some(delay)) => {
            let delay = duration_text(i64::try_from(delay).unwrap_or(i64::MAX));
            format!("no answer{cost}, retry in {delay}: {error}")
        }
        _ => format!("no answer{cost}: {error}"),
    }
}

fn warning_text(warning: &BudgetWarning) -> String {
    let used = spend_text(warning.used);
    format!(
        "budget nearly used up: {used} of {}",
        budget_text(&warning.limit)
    )
}

fn spend_text(spend: ModelSpend) -> String {
    let tokens = format_count(spend.tokens, "token");
    match spend.usd {
        Some(usd) if usd > 0.0 => format!("{tokens}, {usd:.4} USD"),
        _ => tokens,
    }
}

fn budget_text(budget: &Budget) -> String {
    let tokens = budget.tokens.map(|it| format_count(it, "token"));
    let usd = budget.usd.map(|it| format!("{it} USD"));
    let wall = budget.wall.map(|it| format!("{it} s"));
    let limits: Vec<String> = [tokens, usd, wall].into_iter().flatten().collect();
    match limits.as_slice() {
        [] => "no limit".to_owned(),
        limits => limits.join(", "),
    }
}

fn rollback_text(restored: &CheckpointRestored) -> String {
    let calls = format_count(restored.calls_undone, "call");
    let changes = format_count(restored.changes_undone, "change");
    format!("rolled back: {calls} and {changes} undone")
}

fn validations_text(completed: &ValidationsCompleted) -> String {
    let passed = completed.required_passed + completed.informational_passed;
    match (
        passed,
        completed.required_failed,
        completed.informational_failed,
    ) {
        (0, 0, 0) => "no validations".to_owned(),
        (passed, 0, 0) => format!("validations: {passed} passed"),
        (passed, required, 0) => format!("validations: {passed} passed, {required} failed"),
        (passed, required, other) => {
            format!("validations: {passed} passed, {required} failed, {other} not required failed")
        }
    }
}

fn entry_text(entry: &ChangeEntry) -> String {
    let path = &entry.path;
    match &entry.operation {
        FileOperation::Create => format!("{path} created"),
        FileOperation::Modify => format!("{path} changed"),
        FileOperation::Delete => format!("{path} deleted"),
        FileOperation::Rename { from } => format!("{from} moved to {path}"),
        FileOperation::Mode => format!("mode of {path} changed"),
    }
}

fn destination_text(destination: &Destination) -> String {
    match destination {
        Destination::Current => "the current checkout".to_owned(),
        Destination::Branch(name) => format!("branch {name}"),
        Destination::Worktree => "the working tree".to_owned(),
        Destination::Patch(path) => format!("patch {path}"),
    }
}

fn format_count(number: u64, what: &str) -> String {
    cleveragents_app::text::format_count(i64::try_from(number).unwrap_or(i64::MAX), what)
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::{EventKind, Timestamp};
    use serde_json::Value;

    use super::*;

    /// An example of each shape of each kind.
    const CORPUS: &str = include_str!("../../../../domain/tests/events/v1.ndjson");

    #[test]
    fn every_kind_has_a_line() {
        for line in CORPUS.lines() {
            let example: Value = serde_json::from_str(line).unwrap();
            let event = JournalEvent {
                seq: 1,
                plan_seq: 1,
                kind: example["kind"].as_str().unwrap().to_owned(),
                v: 1,
                at: Timestamp::default(),
                actor: "eva".to_owned(),
                payload: Some(example["payload"].clone()),
                hash: String::new(),
            };
            let body = event.known_body().unwrap();
            let text = summarize(&event);
            assert!(!text.is_empty(), "{}", event.kind);
            assert!(!text.contains('\n'), "{text:?}");
            assert!(EventKind::ALL.contains(&body.kind()));
        }
    }
}
