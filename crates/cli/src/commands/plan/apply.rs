//! `agents plan apply`

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use cleveragents_api::RequestKind;
use cleveragents_api::plan::apply::AppliedPlan;
use cleveragents_api::plan::drive::DriveAnswer;
use cleveragents_api::plan::{PlanApply, PlanPreviewApply, PlanSummary};
use cleveragents_domain::apply_record::ApplyPartState;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Phase, PlanState};

use super::destination::DestinationArgs;
use super::execute::drive_view;
use super::progress::{PlanProgress, find_before_question, run_with_progress};
use super::view::{confirm_before_work, summary_cell};
use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::arguments::Format;
use crate::bootstrap::AppContext;
use crate::commands::{CommandContext, OutputMode};
use crate::confirmation::is_interactive;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell, format_count};
use crate::unfinished_applies::recover_applies;
use cleveragents_api::Reply;
use cleveragents_app::RequestError;

/// Apply a plan's changes
///
/// The changes are merged with the current state of the target; either all of a plan's resources
/// change or none. A changed file with uncommitted changes of yours blocks the apply and is named;
/// your other files are not touched. The changes are applied once, even if the command is repeated
/// or run by two processes. An interrupted apply is finished by the next command that writes, or by
/// `agents plan resume`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan apply 4k2m9x0q
  agents plan apply 4k2m9x0q --yes
  agents plan apply 4k2m9x0q --to branch agents/fix-lint
  agents plan apply 4k2m9x0q --to worktree
  agents plan apply 4k2m9x0q --to patch fix-lint.patch
  agents plan apply 4k2m9x0q --force-checks 'the check needs the network'
  agents plan apply 4k2m9x0q --mark-applied")]
pub struct PlanApplyArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,

    #[command(flatten)]
    to: DestinationArgs,

    /// Mark the plan as applied without changing files
    ///
    /// For an apply that was stopped after the point of no return because a target changed, and
    /// that you have resolved by hand.
    // The alias is the former name, for existing scripts.
    #[arg(long, alias = "as-it-stands", conflicts_with = "to")]
    mark_applied: bool,

    /// Apply although required checks or validations failed, and record why
    ///
    /// Possible where the plan's automation profile has `allow_forced_checks`. The reason becomes a
    /// decision of the plan.
    #[arg(long, value_name = "REASON", conflicts_with = "mark_applied", value_parser = NonEmptyStringValueParser::new())]
    force_checks: Option<String>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    /// Write each event as a line of JSON as it happens, and the envelope as the last line
    #[arg(long)]
    events: bool,
}

impl PlanApplyArgs {
    pub fn output_mode(&self, _: Format) -> OutputMode {
        if self.events {
            OutputMode::Events
        } else {
            OutputMode::Answer
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let to = self.to.destination(context)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_for_requests(RequestKind::Work)?;
        let progress = PlanProgress::new(self.events, context);
        let is_asking = !self.yes && is_interactive(context.environment);
        let plan = find_before_question(&app, &progress, &self.plan, is_asking)?;
        let id = plan.plan_id;
        if is_asking && !matches!(plan.state, PlanState::Applied | PlanState::Cancelled) {
            let (question, refused) = self.question(&app, &plan);
            progress.suspend(|| confirm_before_work(&question, &app, context, refused))?;
        }
        let request = PlanApply {
            plan: id.into(),
            to,
            mark_applied: self.mark_applied,
            force_checks: self.force_checks.clone(),
        };
        CommandAnswer::from_reply(apply(&app, &progress, id, request)?, drive_view)
    }

    /// Returns the question, after the facts that the user needs for the answer, and the message
    /// if the answer is no.
    fn question(&self, app: &AppContext<'_>, plan: &PlanSummary) -> (String, &'static str) {
        let name = &plan.name;
        if self.mark_applied {
            let question = format!("Mark plan {name} as applied without changing files?");
            return (question, "the plan was not marked as applied");
        }
        // Why a result cannot be read is said by the apply itself.
        let preview = app.call(PlanPreviewApply {
            plan: plan.plan_id.into(),
        });
        let (has_begun, mut lines) = match preview {
            Ok(preview) => (preview.answer.has_begun, preview.answer.secret_warnings),
            Err(_) => (plan.phase == Phase::Apply, Vec::new()),
        };
        if has_begun {
            lines.push("its apply has begun: some files may be changed already".to_owned());
            lines.push(format!("Continue the apply of plan {name}?"));
            (lines.join("\n"), "the apply was not continued")
        } else {
            lines.push(format!("Apply plan {name}?"));
            (lines.join("\n"), "nothing was applied")
        }
    }
}

/// Sends the request, then applies the plan if it was queued, and shows its events meanwhile.
pub(crate) fn apply(
    app: &AppContext<'_>,
    progress: &PlanProgress,
    plan: PlanId,
    request: PlanApply,
) -> Result<Reply<DriveAnswer>, CommandFailure> {
    let (handlers, caller) = (app.app(), app.caller());
    let work = async {
        // The reply to the request is not displayed if the plan is applied now.
        recover_applies(app).await.map_err(RequestError::from)?;
        let reply = handlers.call(request, &caller).await?;
        match reply.answer.plan.state {
            PlanState::Queued | PlanState::Processing => handlers.drive(plan, &caller).await,
            _ => Ok(reply.map(|answer| DriveAnswer::Applied(Box::new(answer)))),
        }
    };
    run_with_progress(app, progress, plan, work)
}

pub(super) fn applied_view(applied: &AppliedPlan) -> OutputView {
    let plan = &applied.plan;
    let changed = i64::try_from(applied.artifacts).unwrap_or(i64::MAX);
    let mut rows = vec![
        ("plan", ViewCell::new(plan.plan_id.short(), Tone::Strong)),
        ("name", plan.name.to_string().into()),
        ("state", summary_cell(plan)),
        ("changed", format_count(changed, "path").into()),
    ];
    for part in &applied.resources {
        if let (ApplyPartState::Done, Some(result)) = (part.state, &part.result)
            && let Some(commit) = &result.commit
        {
            rows.push(("commit", commit.clone().into()));
        }
    }
    OutputView::new().panel("Applied", rows)
}
