//! `agents plan correct`

use std::collections::HashMap;

use clap::{Args, ValueEnum};
use cleveragents_domain::id::{DecisionId, IdFragment};
use cleveragents_domain::{Correction, CorrectionMode, Decision};
use cleveragents_engine::decisions::{
    CorrectRequest, Corrected, DecisionService, Preview, Superseded,
};
use serde_json::{Value, json};

use super::aborting::abort_stopped_apply;
use super::headline;
use crate::ask::{Reply, confirm};
use crate::commands::Context;
use crate::failure::{ExitCode, Failure};
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::wiring::Wired;

/// Change a decision, or add to it, and have the plan worked on again
///
/// `revert` gives up the decision and all that followed from it and puts your guidance in its
/// place; `append` keeps everything and adds your guidance. Either way the plan goes back to the
/// phase that has to be done again, as a new attempt. Refused while the plan runs and once it is
/// finished.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan correct --mode revert --dry-run -g KeepTheOldApi 01jz4q7x
  agents plan correct --mode revert -g KeepTheOldApi 01jz4q7x --yes
  agents plan correct --mode append --guidance CoverTheErrorsToo 01jz4q7x")]
pub struct Correct {
    /// The decision: its id, or at least four characters of either end of it
    #[arg(value_name = "DECISION")]
    decision: IdFragment,

    /// What becomes of what was decided
    #[arg(long, value_enum)]
    mode: Mode,

    /// What should be decided instead, or added
    #[arg(long, short, allow_hyphen_values = true)]
    guidance: String,

    /// Only say what would be given up
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Give up the decision and what followed from it
    Revert,
    /// Keep everything and add the guidance
    Append,
}

impl From<Mode> for CorrectionMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Revert => Self::Revert,
            Mode::Append => Self::Append,
        }
    }
}

impl Correct {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        DecisionService::check_guidance(&self.guidance)?;
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let service = wired.decisions();
        let request = self.request(&wired, &service)?;
        let preview = wired.wait(service.impact(request.decision, request.mode))?;
        if self.dry_run {
            let given_up = given_up(&wired, &service, &preview)?;
            return Ok(preview_answer(&preview, &given_up));
        }
        self.ask(&preview, context)?;
        let decision = wired.wait(service.find(self.decision.clone()))?;
        let plan = wired.wait(wired.lifecycle().plan(decision.plan_id))?;
        abort_stopped_apply(&wired, &plan)?;
        let corrected = wired.wait(service.correct(request))?;
        let plan = corrected.correction.plan_id;
        let history = wired.wait(service.corrections(plan))?;
        Ok(match corrected.correction.mode {
            CorrectionMode::Revert => reverted(&corrected, &history),
            CorrectionMode::Append => appended(&corrected, &history),
        })
    }

    fn request(
        &self,
        wired: &Wired<'_>,
        service: &DecisionService,
    ) -> Result<CorrectRequest, Failure> {
        let decision = wired.wait(service.find(self.decision.clone()))?;
        Ok(CorrectRequest {
            decision: decision.decision_id,
            mode: self.mode.into(),
            guidance: wired.hide(&self.guidance)?,
            actor: wired.actor().to_owned(),
        })
    }

    /// Somebody at a terminal is asked once, if more than the decision itself is given up.
    fn ask(&self, preview: &Preview, context: &Context<'_>) -> Result<(), Failure> {
        let number = preview.superseded.len();
        if self.yes || number < 2 {
            return Ok(());
        }
        let question = format!(
            "Give up {} and go back to {}?",
            decisions(number),
            preview.to
        );
        match confirm(&question, context.environment) {
            Reply::Yes | Reply::Nobody => Ok(()),
            Reply::No => Err(Failure::new(ExitCode::Decision, "nothing was corrected")
                .because("the question was not answered with yes")
                .hint("agents plan correct --mode append … keeps what was decided")
                .hint("agents plan correct --mode revert … --yes")),
        }
    }
}

/// The decisions that would be given up, nearest first.
fn given_up(
    wired: &Wired<'_>,
    service: &DecisionService,
    preview: &Preview,
) -> Result<Vec<Decision>, Failure> {
    let plan = preview.plan.identity.plan_id;
    let tree = wired.wait(service.tree(plan, Superseded::Shown))?;
    let by_id: HashMap<DecisionId, Decision> = tree
        .nodes
        .into_iter()
        .map(|node| (node.decision.decision_id, node.decision))
        .collect();
    let found = preview.superseded.iter().filter_map(|id| by_id.get(id));
    Ok(found.cloned().collect())
}

fn decisions(number: usize) -> String {
    counted(i64::try_from(number).unwrap_or(i64::MAX), "decision")
}

fn preview_answer(preview: &Preview, given_up: &[Decision]) -> Answer {
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
        "affected_subtree": affected(preview),
        "goes_back_to": preview.to,
    });
    let rows = vec![
        ("decision", headline(&preview.decision).into()),
        ("mode", preview.mode.as_str().into()),
        ("impact", preview.impact.level().as_str().into()),
        ("plan", Cell::new(plan.name.to_string(), Tone::Strong)),
        ("at", plan.position.to_string().into()),
        ("would go back to", preview.to.as_str().into()),
        ("attempt", attempt.to_string().into()),
        ("unaffected", decisions(preview.unaffected).into()),
    ];
    let view = View::new().panel("Dry Run: Correction Preview", rows);
    let view = match given_up.is_empty() {
        true => view.text("Nothing would be reverted."),
        false => view.table(
            "Would Revert",
            &["decision", "type", "chosen"],
            given_up.iter().map(|decision| {
                vec![
                    decision.decision_id.short().into(),
                    decision.decision_type.as_str().into(),
                    headline(decision).into(),
                ]
            }),
        ),
    };
    Answer::new(data, view).say(Level::Info, "Dry run: nothing was changed")
}

/// What a correction gives up. Child plans and files are not touched by it: they are counted where
/// something is done to them.
fn affected(preview: &Preview) -> Value {
    json!({
        "decisions_invalidated": preview.superseded.len(),
        "child_plans_rolled_back": 0,
        "artifacts_archived": 0,
        "unaffected_decisions": preview.unaffected,
    })
}

fn reverted(corrected: &Corrected, history: &[Correction]) -> Answer {
    let preview = &corrected.preview;
    let data = json!({
        "plan_id": corrected.plan.identity.plan_id,
        "correction": correction(corrected),
        "affected_subtree": affected(preview),
        "sandbox_rollback": {
            "checkpoint": null,
            "files_reverted": 0,
            "status": "none",
        },
        "recompute": {
            "queued": corrected.plan.position.phase(),
            "eta": null,
        },
        "history": past(history),
    });
    let subtree = [
        ("given up", decisions(preview.superseded.len())),
        ("unaffected", decisions(preview.unaffected)),
    ];
    let view = View::new()
        .panel("Correction", facts(corrected))
        .panel("Affected Subtree", subtree)
        .panel("Sandbox Rollback", [("files", "none were changed back")])
        .panel(
            "Recompute",
            [("queued", corrected.plan.position.phase().as_str())],
        );
    finish(data, view, corrected, history, "Correction applied")
}

fn appended(corrected: &Corrected, history: &[Correction]) -> Answer {
    let kept = corrected.preview.impact.artifacts.len();
    let note = format!(
        "Nothing was given up; the plan goes back to {}.",
        corrected.plan.position.phase()
    );
    let data = json!({
        "plan_id": corrected.plan.identity.plan_id,
        "correction": correction(corrected),
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
        "history": past(history),
    });
    let view = View::new().panel("Correction", facts(corrected)).text(note);
    finish(data, view, corrected, history, "Append correction queued")
}

fn correction(corrected: &Corrected) -> Value {
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

fn facts(corrected: &Corrected) -> Vec<(&'static str, Cell)> {
    let original = &corrected.preview.decision;
    vec![
        ("mode", corrected.correction.mode.as_str().into()),
        ("impact", corrected.preview.impact.level().as_str().into()),
        ("corrects", original.decision_id.short().into()),
        ("was", headline(original).into()),
        (
            "new decision",
            corrected.decision.decision_id.short().into(),
        ),
        (
            "guidance",
            Cell::new(corrected.correction.guidance.as_str(), Tone::Strong),
        ),
        ("plan", corrected.plan.name.to_string().into()),
        ("at", corrected.plan.position.to_string().into()),
        ("attempt", corrected.plan.attempt.to_string().into()),
    ]
}

/// Corrections of the plan, newest first.
fn past(history: &[Correction]) -> Vec<Value> {
    let told = |one: &Correction| {
        json!({
            "id": one.id,
            "decision": one.original_decision_id,
            "mode": one.mode,
            "guidance": one.guidance,
            "state": one.state,
            "created": one.created_at,
        })
    };
    history.iter().rev().map(told).collect()
}

fn finish(
    data: Value,
    view: View,
    corrected: &Corrected,
    history: &[Correction],
    said: &str,
) -> Answer {
    let rows = history.iter().rev().map(|one| {
        vec![
            Cell::from(one.created_at.to_string()),
            one.mode.as_str().into(),
            one.original_decision_id.short().into(),
            one.state.as_str().into(),
        ]
    });
    let view = view.table("History", &["when", "mode", "decision", "state"], rows);
    let plan = corrected.plan.identity.plan_id.short();
    Answer::new(data, view)
        .say(Level::Info, said)
        .say(Level::Hint, format!("agents plan tree {plan}"))
        .say(Level::Hint, format!("agents plan execute {plan}"))
}
