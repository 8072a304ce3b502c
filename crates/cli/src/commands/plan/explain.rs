//! `agents plan explain`

use clap::Args;
use cleveragents_api::plan::explain::{Alternative, ContextState, ExplainedDecision};
use cleveragents_api::plan::{DecisionReference, PlanExplain};

use super::headline;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Explain a decision: its rationale, its context, and what depends on it
///
/// The actor's context is stored with a hash, which is checked: --show-context shows exactly what
/// the actor read.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan explain 01jz4q7x
  agents plan explain 01jz4q7x --show-context --show-reasoning
  agents plan explain 01jz4q7x --show-context --format json | jq -r .data.context")]
pub struct PlanExplainArgs {
    /// The decision: its id, or at least four characters of either end of it
    #[arg(value_name = "DECISION")]
    decision: DecisionReference,

    /// Also show the actor's context
    #[arg(long)]
    show_context: bool,

    /// Also show the actor's reasoning
    #[arg(long)]
    show_reasoning: bool,
}

impl PlanExplainArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(PlanExplain {
            decision: self.decision.clone(),
            show_context: self.show_context,
            show_reasoning: self.show_reasoning,
        })?;
        CommandAnswer::from_reply(reply, view)
    }
}

fn view(explained: &ExplainedDecision) -> OutputView {
    let view = OutputView::new()
        .panel("Decision", facts(explained))
        .panel("Alternatives Considered", choices(&explained.alternatives))
        .panel("Impact", impact_rows(explained))
        .panel("Context Snapshot", context_rows(explained))
        .panel("Rationale", [("why", or_none(explained.rationale.clone()))]);
    let parts = explained.context_items.iter();
    let view = parts.fold(view, |view, part| {
        let title = format!("Context: {}", part.name);
        view.text(title).verbatim(with_final_newline(&part.text))
    });
    let view = match &explained.reasoning {
        Some(Some(words)) => view
            .text("Model Reasoning (raw)")
            .verbatim(with_final_newline(words)),
        Some(None) | None => view,
    };
    view.panel("Correction", [("how", explained.correction_hint.clone())])
}

/// Ends the text with a line break, so that the next output starts on its own line.
fn with_final_newline(text: &str) -> String {
    if text.ends_with('\n') {
        text.to_owned()
    } else {
        format!("{text}\n")
    }
}

fn facts(explained: &ExplainedDecision) -> Vec<(&'static str, ViewCell)> {
    let state = match (explained.superseded, explained.correction) {
        (true, _) => ViewCell::new("superseded by a correction", Tone::Doubtful),
        (false, true) => ViewCell::new("active, as a correction", Tone::Good),
        (false, false) => "active".into(),
    };
    let score = match explained.confidence {
        Some(score) => ViewCell::from(format!("{:.2}", score.value())),
        None => ViewCell::new("(not given)", Tone::Faint),
    };
    let path = explained.path_choices.iter().rev();
    let path: Vec<String> = path.map(|chosen| headline(chosen)).collect();
    vec![
        ("id", explained.decision_id.to_string().into()),
        ("type", explained.decision_type.as_str().into()),
        ("question", explained.question.as_str().into()),
        (
            "chosen",
            ViewCell::new(explained.chosen.as_str(), Tone::Strong),
        ),
        ("confidence", score),
        ("plan", explained.plan_name.to_string().into()),
        ("phase", explained.phase.as_str().into()),
        ("sequence", explained.sequence.as_str().into()),
        ("created", ViewCell::time(explained.created, Tone::Normal)),
        ("state", state),
        ("below", or_none(path.join(" › "))),
    ]
}

fn or_none(text: String) -> ViewCell {
    if text.is_empty() {
        ViewCell::new("(nothing)", Tone::Faint)
    } else {
        text.into()
    }
}

fn choices(alternatives: &[Alternative]) -> Vec<(String, ViewCell)> {
    let row = |one: &Alternative| {
        let cell = if one.chosen {
            ViewCell::new(format!("{} (chosen)", one.description), Tone::Strong)
        } else {
            one.description.as_str().into()
        };
        (one.index.to_string(), cell)
    };
    alternatives.iter().map(row).collect()
}

fn impact_rows(explained: &ExplainedDecision) -> Vec<(&'static str, String)> {
    let impact = &explained.impact;
    let level = impact.correction_impact.as_str().to_owned();
    vec![
        (
            "downstream decisions",
            impact.downstream_decisions.to_string(),
        ),
        ("child plans", impact.downstream_child_plans.to_string()),
        ("artifacts", impact.artifacts_produced.to_string()),
        ("impact of a correction", level),
    ]
}

fn context_rows(explained: &ExplainedDecision) -> Vec<(&'static str, ViewCell)> {
    let snapshot = &explained.context_snapshot;
    let bytes = snapshot.bytes.unwrap_or_default();
    let state = match snapshot.state {
        ContextState::None => ViewCell::new("nothing was stored", Tone::Faint),
        ContextState::Released => ViewCell::new("no longer kept", Tone::Doubtful),
        ContextState::Kept => ViewCell::new(format!("{bytes} bytes, hash checked"), Tone::Good),
    };
    let hash = snapshot.hot_context_hash.clone();
    vec![
        ("stored", state),
        ("items", or_none(snapshot.items.join(", "))),
        ("resources", or_none(snapshot.resources.join(", "))),
        ("hash", or_none(hash.unwrap_or_default())),
    ]
}
