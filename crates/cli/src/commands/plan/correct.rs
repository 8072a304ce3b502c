//! `agents plan correct`

use clap::{Args, ValueEnum};
use cleveragents_api::plan::correct::{
    AppendedGuidance, CompletedCorrection, CorrectedDecision, CorrectedPlan, PastCorrection,
    PreviewedCorrection, RevertedDecision, SandboxRollbackStatus,
};
use cleveragents_api::plan::{DecisionReference, PlanCorrect, PlanSummary};
use cleveragents_api::{NextStep, RequestKind};
use cleveragents_app::plan::check_guidance;
use cleveragents_app::text::format_length;
use cleveragents_domain::CorrectionMode;

use super::headline;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::confirmation::{self, Confirmation, is_interactive};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};
use crate::unfinished_applies::log_unfinished_applies;

/// Change a decision, or add to it, and run the plan again
///
/// `revert` supersedes the decision and all decisions that depend on it and uses your guidance
/// instead; `append` keeps everything and adds your guidance. The plan returns to the phase of the
/// decision, as a new attempt. Not possible while the plan runs or after it is finished.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan correct --mode revert --dry-run -g KeepTheOldApi 01jz4q7x
  agents plan correct --mode revert -g KeepTheOldApi 01jz4q7x --yes
  agents plan correct --mode append --guidance CoverTheErrorsToo 01jz4q7x")]
pub struct PlanCorrectArgs {
    /// Whether to replace the decision or to add to it
    #[arg(long, value_enum)]
    mode: CorrectionModeArg,

    /// Your guidance: the new decision, or what to add
    #[arg(long, short, allow_hyphen_values = true)]
    guidance: String,

    /// Only show which decisions would be superseded
    #[arg(long)]
    dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    /// The decision: its id, or at least four characters of either end of it
    #[arg(value_name = "DECISION")]
    decision: DecisionReference,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CorrectionModeArg {
    /// Supersede the decision and those that depend on it
    Revert,
    /// Keep everything and add the guidance
    Append,
}

impl From<CorrectionModeArg> for CorrectionMode {
    fn from(mode: CorrectionModeArg) -> Self {
        match mode {
            CorrectionModeArg::Revert => Self::Revert,
            CorrectionModeArg::Append => Self::Append,
        }
    }
}

impl PlanCorrectArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        check_guidance(&self.guidance)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_for_requests(RequestKind::Write)?;
        let request = PlanCorrect {
            decision: self.decision.clone(),
            mode: self.mode.into(),
            guidance: self.guidance.clone(),
            dry_run: self.dry_run,
        };
        let request = if self.dry_run || self.yes || !is_interactive(context.environment) {
            request
        } else {
            confirm(request, &app, context)?
        };
        CommandAnswer::from_reply(app.call(request)?, view)
    }
}

/// Asks if the request discards more than one decision. Returns the request for the decision that the
/// question was about, even if the reference matches another one by now.
fn confirm(
    request: PlanCorrect,
    app: &AppContext<'_>,
    context: &CommandContext<'_>,
) -> Result<PlanCorrect, CommandFailure> {
    let dry_run = PlanCorrect {
        dry_run: true,
        ..request.clone()
    };
    // The messages of the dry run are not displayed.
    log_unfinished_applies(app)?;
    match app.call(dry_run)?.answer {
        CorrectedPlan::Preview(preview) => {
            let decision = preview.correction.corrects.into();
            let request = PlanCorrect {
                decision,
                ..request
            };
            confirm_revert(&request, &preview, context)?;
            Ok(request)
        }
        CorrectedPlan::Reverted(_) | CorrectedPlan::Appended(_) => Ok(request),
    }
}

/// Asks once if the revert discards more than the decision itself.
fn confirm_revert(
    request: &PlanCorrect,
    preview: &PreviewedCorrection,
    context: &CommandContext<'_>,
) -> Result<(), CommandFailure> {
    let number = preview.would_revert.len();
    if number < 2 {
        return Ok(());
    }
    let question = format!(
        "Supersede {} and return to {}?",
        format_length(number, "decision"),
        preview.goes_back_to
    );
    let append = PlanCorrect {
        mode: CorrectionMode::Append,
        ..request.clone()
    };
    match confirmation::confirm(&question, context.environment) {
        Confirmation::Yes | Confirmation::NoTerminal => Ok(()),
        Confirmation::No => Err(
            CommandFailure::new(ExitCode::Decision, "nothing was corrected")
                .because("not confirmed")
                .hint(NextStep::send(&append).with_condition("to keep what was decided"))
                .hint(NextStep::send(request).with_flag("yes")),
        ),
    }
}

fn view(corrected: &CorrectedPlan) -> OutputView {
    match corrected {
        CorrectedPlan::Preview(preview) => preview_view(preview),
        CorrectedPlan::Reverted(reverted) => reverted_view(reverted),
        CorrectedPlan::Appended(appended) => appended_view(appended),
    }
}

fn preview_view(preview: &PreviewedCorrection) -> OutputView {
    let (plan, correction) = (&preview.plan, &preview.correction);
    let unaffected = preview.affected_subtree.unaffected_decisions;
    let rows = [
        ("decision", headline(&preview.decision.chosen).into()),
        ("mode", correction.mode.as_str().into()),
        ("impact", correction.impact.as_str().into()),
        ("plan", ViewCell::new(plan.name.to_string(), Tone::Strong)),
        ("at", position(plan).into()),
        ("would return to", preview.goes_back_to.as_str().into()),
        ("attempt", correction.attempt.to_string().into()),
        ("unaffected", format_length(unaffected, "decision").into()),
    ];
    let view = OutputView::new().panel("Dry Run: Correction Preview", rows);
    if preview.would_revert.is_empty() {
        return view.text("Nothing would be reverted.");
    }
    view.table(
        "Would Revert",
        &["decision", "type", "chosen"],
        preview.would_revert.iter().map(|it| {
            vec![
                it.id.short().into(),
                it.decision_type.as_str().into(),
                headline(&it.chosen).into(),
            ]
        }),
    )
}

fn reverted_view(reverted: &RevertedDecision) -> OutputView {
    let subtree = &reverted.affected_subtree;
    let counts = [
        (
            "superseded",
            format_length(subtree.decisions_invalidated, "decision"),
        ),
        (
            "unaffected",
            format_length(subtree.unaffected_decisions, "decision"),
        ),
    ];
    let rollback = &reverted.sandbox_rollback;
    let files = match rollback.status {
        SandboxRollbackStatus::None => "not changed".to_owned(),
        SandboxRollbackStatus::RolledBack => {
            format!("{} restored", rollback.files_reverted)
        }
    };
    let facts = facts(
        &reverted.plan,
        &reverted.decision,
        &reverted.correction,
        &reverted.history,
    );
    let view = OutputView::new()
        .panel("Correction", facts)
        .panel("Affected Subtree", counts)
        .panel("Sandbox Rollback", [("files", files)])
        .panel(
            "Recompute",
            [("queued", reverted.recompute.queued.as_str())],
        );
    with_history(view, &reverted.history)
}

fn appended_view(appended: &AppendedGuidance) -> OutputView {
    let facts = facts(
        &appended.plan,
        &appended.decision,
        &appended.correction,
        &appended.history,
    );
    let view = OutputView::new()
        .panel("Correction", facts)
        .text(appended.append_detail.note.clone());
    with_history(view, &appended.history)
}

fn facts(
    plan: &PlanSummary,
    original: &CorrectedDecision,
    correction: &CompletedCorrection,
    history: &[PastCorrection],
) -> Vec<(&'static str, ViewCell)> {
    let guidance = history.iter().find(|it| it.id == correction.id);
    let guidance = guidance.map_or("", |it| it.guidance.as_str());
    vec![
        ("mode", correction.mode.as_str().into()),
        ("impact", correction.impact.as_str().into()),
        ("corrects", original.id.short().into()),
        ("was", headline(&original.chosen).into()),
        ("new decision", correction.new_decision.short().into()),
        ("guidance", ViewCell::new(guidance, Tone::Strong)),
        ("plan", plan.name.to_string().into()),
        ("at", position(plan).into()),
        ("attempt", correction.attempt.to_string().into()),
    ]
}

fn position(plan: &PlanSummary) -> String {
    format!("{}/{}", plan.phase, plan.state)
}

fn with_history(view: OutputView, history: &[PastCorrection]) -> OutputView {
    let rows = history.iter().map(|it| {
        vec![
            ViewCell::from(it.created.to_string()),
            it.mode.as_str().into(),
            it.decision.short().into(),
            it.state.as_str().into(),
        ]
    });
    view.table("History", &["when", "mode", "decision", "state"], rows)
}
