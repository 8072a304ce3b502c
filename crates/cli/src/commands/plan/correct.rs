//! `agents plan correct`

use std::collections::HashMap;

use clap::{Args, ValueEnum};
use cleveragents_domain::id::{DecisionId, IdFragment};
use cleveragents_domain::{Correction, CorrectionMode, Decision};
use cleveragents_engine::decisions::{
    CorrectionOutcome, CorrectionPreview, CorrectionRequest, DecisionService, SupersededVisibility,
};
use serde_json::{Value, json};

use super::abort_apply::abort_stopped_apply;
use super::headline;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::confirmation::{Confirmation, confirm};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};

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
    /// The decision: its id, or at least four characters of either end of it
    #[arg(value_name = "DECISION")]
    decision: IdFragment,

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
        DecisionService::check_guidance(&self.guidance)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let service = app.decisions();
        let request = self.request(&app, &service)?;
        let preview = app.block_on(service.impact(request.decision, request.mode))?;
        if self.dry_run {
            let given_up = reverted_decisions(&app, &service, &preview)?;
            return Ok(preview_answer(&preview, &given_up));
        }
        self.confirm_revert(&preview, context)?;
        let decision = app.block_on(service.find(self.decision.clone()))?;
        let plan = app.block_on(app.lifecycle().plan(decision.plan_id))?;
        abort_stopped_apply(&app, &plan)?;
        let corrected = app.block_on(service.correct(request))?;
        let plan = corrected.correction.plan_id;
        let history = app.block_on(service.corrections(plan))?;
        Ok(match corrected.correction.mode {
            CorrectionMode::Revert => reverted_answer(&corrected, &history),
            CorrectionMode::Append => appended_answer(&corrected, &history),
        })
    }

    fn request(
        &self,
        app: &AppContext<'_>,
        service: &DecisionService,
    ) -> Result<CorrectionRequest, CommandFailure> {
        let decision = app.block_on(service.find(self.decision.clone()))?;
        Ok(CorrectionRequest {
            decision: decision.decision_id,
            mode: self.mode.into(),
            guidance: app.mask_secrets(&self.guidance)?,
            actor: app.actor().to_owned(),
        })
    }

    /// Asks once on a terminal if the revert discards more than the decision itself.
    fn confirm_revert(
        &self,
        preview: &CorrectionPreview,
        context: &CommandContext<'_>,
    ) -> Result<(), CommandFailure> {
        let number = preview.superseded.len();
        if self.yes || number < 2 {
            return Ok(());
        }
        let question = format!(
            "Supersede {} and return to {}?",
            format_decision_count(number),
            preview.to
        );
        match confirm(&question, context.environment) {
            Confirmation::Yes | Confirmation::NoTerminal => Ok(()),
            Confirmation::No => Err(CommandFailure::new(
                ExitCode::Decision,
                "nothing was corrected",
            )
            .because("not confirmed")
            .hint("agents plan correct --mode append … keeps what was decided")
            .hint("agents plan correct --mode revert … --yes")),
        }
    }
}

/// Returns the decisions that would be discarded, nearest first.
fn reverted_decisions(
    app: &AppContext<'_>,
    service: &DecisionService,
    preview: &CorrectionPreview,
) -> Result<Vec<Decision>, CommandFailure> {
    let plan = preview.plan.identity.plan_id;
    let tree = app.block_on(service.tree(plan, SupersededVisibility::Shown))?;
    let by_id: HashMap<DecisionId, Decision> = tree
        .nodes
        .into_iter()
        .map(|node| (node.decision.decision_id, node.decision))
        .collect();
    let found = preview.superseded.iter().filter_map(|id| by_id.get(id));
    Ok(found.cloned().collect())
}

fn format_decision_count(number: usize) -> String {
    format_count(i64::try_from(number).unwrap_or(i64::MAX), "decision")
}

fn preview_answer(preview: &CorrectionPreview, given_up: &[Decision]) -> CommandAnswer {
    let plan = &preview.plan;
    let attempt = plan.attempt + 1;
    let listed = given_up.iter().map(|decision| {
        json!({
            "id": decision.decision_id,
            "type": decision.decision_type,
            "chosen": decision.chosen_option,
        })
    });
    let data = json!({
        "dry_run": true,
        "plan_id": plan.identity.plan_id,
        "correction": {
            "mode": preview.mode,
            "impact": preview.impact.level().as_str(),
            "new_decision": null,
            "corrects": preview.decision.decision_id,
            "attempt": attempt,
        },
        "would_revert": listed.collect::<Vec<_>>(),
        "affected_subtree": affected_data(preview),
        "goes_back_to": preview.to,
    });
    let rows = vec![
        ("decision", headline(&preview.decision.chosen_option).into()),
        ("mode", preview.mode.as_str().into()),
        ("impact", preview.impact.level().as_str().into()),
        ("plan", ViewCell::new(plan.name.to_string(), Tone::Strong)),
        ("at", plan.position.to_string().into()),
        ("would return to", preview.to.as_str().into()),
        ("attempt", attempt.to_string().into()),
        (
            "unaffected",
            format_decision_count(preview.unaffected).into(),
        ),
    ];
    let view = OutputView::new().panel("Dry Run: Correction Preview", rows);
    let view = if given_up.is_empty() {
        view.text("Nothing would be reverted.")
    } else {
        view.table(
            "Would Revert",
            &["decision", "type", "chosen"],
            given_up.iter().map(|decision| {
                vec![
                    decision.decision_id.short().into(),
                    decision.decision_type.as_str().into(),
                    headline(&decision.chosen_option).into(),
                ]
            }),
        )
    };
    CommandAnswer::new(data, view).with_message(MessageLevel::Info, "Dry run: nothing was changed")
}

/// Returns what a correction discards. It does not touch child plans and files; commands that do
/// count them.
fn affected_data(preview: &CorrectionPreview) -> Value {
    json!({
        "decisions_invalidated": preview.superseded.len(),
        "child_plans_rolled_back": 0,
        "artifacts_archived": 0,
        "unaffected_decisions": preview.unaffected,
    })
}

fn reverted_answer(corrected: &CorrectionOutcome, history: &[Correction]) -> CommandAnswer {
    let preview = &corrected.preview;
    let data = json!({
        "plan_id": corrected.plan.identity.plan_id,
        "correction": correction_data(corrected),
        "affected_subtree": affected_data(preview),
        "sandbox_rollback": {
            "checkpoint": null,
            "files_reverted": 0,
            "status": "none",
        },
        "recompute": {
            "queued": corrected.plan.position.phase(),
            "eta": null,
        },
        "history": history_data(history),
    });
    let subtree = [
        (
            "superseded",
            format_decision_count(preview.superseded.len()),
        ),
        ("unaffected", format_decision_count(preview.unaffected)),
    ];
    let view = OutputView::new()
        .panel("Correction", facts(corrected))
        .panel("Affected Subtree", subtree)
        .panel("Sandbox Rollback", [("files", "not changed")])
        .panel(
            "Recompute",
            [("queued", corrected.plan.position.phase().as_str())],
        );
    finish(data, view, corrected, history, "Correction applied")
}

fn appended_answer(corrected: &CorrectionOutcome, history: &[Correction]) -> CommandAnswer {
    let kept = corrected.preview.impact.artifacts.len();
    let note = format!(
        "No decision was superseded; the plan returns to {}.",
        corrected.plan.position.phase()
    );
    let data = json!({
        "plan_id": corrected.plan.identity.plan_id,
        "correction": correction_data(corrected),
        "append_detail": {
            "original_decision_preserved": true,
            "existing_artifacts_kept": kept,
            "additional_work": corrected.correction.guidance,
            "note": note,
        },
        "queued": {
            "new_child": corrected.decision.decision_id,
            "eta": null,
        },
        "history": history_data(history),
    });
    let view = OutputView::new()
        .panel("Correction", facts(corrected))
        .text(note);
    finish(data, view, corrected, history, "Append correction queued")
}

fn correction_data(corrected: &CorrectionOutcome) -> Value {
    json!({
        "id": corrected.correction.id,
        "mode": corrected.correction.mode,
        "impact": corrected.preview.impact.level().as_str(),
        "new_decision": corrected.decision.decision_id,
        "corrects": corrected.correction.original_decision_id,
        "attempt": corrected.plan.attempt,
        "state": corrected.correction.state,
    })
}

fn facts(corrected: &CorrectionOutcome) -> Vec<(&'static str, ViewCell)> {
    let original = &corrected.preview.decision;
    vec![
        ("mode", corrected.correction.mode.as_str().into()),
        ("impact", corrected.preview.impact.level().as_str().into()),
        ("corrects", original.decision_id.short().into()),
        ("was", headline(&original.chosen_option).into()),
        (
            "new decision",
            corrected.decision.decision_id.short().into(),
        ),
        (
            "guidance",
            ViewCell::new(corrected.correction.guidance.as_str(), Tone::Strong),
        ),
        ("plan", corrected.plan.name.to_string().into()),
        ("at", corrected.plan.position.to_string().into()),
        ("attempt", corrected.plan.attempt.to_string().into()),
    ]
}

/// Returns the corrections of the plan, newest first.
fn history_data(history: &[Correction]) -> Vec<Value> {
    let entry_data = |one: &Correction| {
        json!({
            "id": one.id,
            "decision": one.original_decision_id,
            "mode": one.mode,
            "guidance": one.guidance,
            "state": one.state,
            "created": one.created_at,
        })
    };
    history.iter().rev().map(entry_data).collect()
}

fn finish(
    data: Value,
    view: OutputView,
    corrected: &CorrectionOutcome,
    history: &[Correction],
    message: &str,
) -> CommandAnswer {
    let rows = history.iter().rev().map(|one| {
        vec![
            ViewCell::from(one.created_at.to_string()),
            one.mode.as_str().into(),
            one.original_decision_id.short().into(),
            one.state.as_str().into(),
        ]
    });
    let view = view.table("History", &["when", "mode", "decision", "state"], rows);
    let plan = corrected.plan.identity.plan_id.short();
    CommandAnswer::new(data, view)
        .with_message(MessageLevel::Info, message)
        .with_message(MessageLevel::Hint, format!("agents plan tree {plan}"))
        .with_message(MessageLevel::Hint, format!("agents plan execute {plan}"))
}
