//! Questions of a model, asked on the terminal of the command that runs its plan.

use cleveragents_api::plan::drive::DriveAnswer;
use cleveragents_api::plan::{PlanLog, PlanPrompt, PlanResume};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::WaitReason;
use cleveragents_domain::id::PlanId;

use super::progress::{PlanProgress, run_work};
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::confirmation::{ask_unless_interrupted, is_interactive};
use crate::failure::{CommandFailure, ExitCode, FailureKind};

/// Asks what the plan waits for, sends the answer and runs the plan on, until it waits for no
/// answer. Without a terminal, or after an empty answer, the plan waits.
pub(crate) fn answer_questions(
    app: &AppContext<'_>,
    progress: &PlanProgress,
    context: &CommandContext<'_>,
    mut reply: Reply<DriveAnswer>,
) -> Result<Reply<DriveAnswer>, CommandFailure> {
    let id = reply.answer.plan().plan_id;
    while is_interactive(context.environment) && waits_for_answer(&reply) {
        let question = question(app, progress, id)?;
        let prompt = format!("{question}\nYour answer, or Enter to answer later: ");
        let line = progress.suspend(|| app.block_on(ask_unless_interrupted(&prompt)));
        let line = line.ok_or_else(|| interrupted_failure(id))?;
        let guidance = line.trim().to_owned();
        if guidance.is_empty() {
            return Ok(reply);
        }
        let plan = id.into();
        app.call(PlanPrompt { plan, guidance })?;
        reply = run_work(app, progress, id, PlanResume::new(id))?;
    }
    Ok(reply)
}

/// Returns the newest question of the plan's model. It may be older than this command.
fn question(
    app: &AppContext<'_>,
    progress: &PlanProgress,
    plan: PlanId,
) -> Result<String, CommandFailure> {
    if progress.question().is_empty() {
        let journal = app.call(PlanLog {
            plan: plan.into(),
            from_seq: None,
            limit: None,
        })?;
        progress.read_question(&journal.answer.events);
    }
    Ok(progress.question())
}

fn waits_for_answer(reply: &Reply<DriveAnswer>) -> bool {
    matches!(reply.answer.plan().waiting, Some(WaitReason::Answer { .. }))
}

/// Returns the failure for Ctrl-C at the question.
fn interrupted_failure(id: PlanId) -> CommandFailure {
    let answer = PlanPrompt {
        plan: id.into(),
        guidance: "YOUR ANSWER".to_owned(),
    };
    CommandFailure::new(
        ExitCode::Interrupted,
        "interrupted; the plan waits for your answer",
    )
    .kind(FailureKind::Interrupted)
    .hint(NextStep::send(&answer))
    .hint(NextStep::send(&PlanResume::new(id)))
    .with_plan_id(id)
}
