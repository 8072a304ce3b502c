//! `agents plan explain`

use clap::Args;
use cleveragents_domain::Decision;
use cleveragents_domain::id::IdFragment;
use cleveragents_engine::decisions::{DecisionExplanation, StoredContext};
use serde_json::{Value, json};

use super::headline;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

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
    decision: IdFragment,

    /// Also show the actor's context
    #[arg(long)]
    show_context: bool,

    /// Also show the actor's reasoning
    #[arg(long)]
    show_reasoning: bool,
}

impl PlanExplainArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let explained = app.block_on(app.decisions().explain(self.decision.clone()))?;
        Ok(self.answer(&explained))
    }

    fn answer(&self, explained: &DecisionExplanation) -> CommandAnswer {
        let decision = &explained.decision;
        let answer = CommandAnswer::new(self.data(explained), self.view(explained));
        let answer = match (&explained.context, self.show_context) {
            (StoredContext::Released, _) => answer.with_message(
                MessageLevel::Warn,
                "the context was stored but is no longer kept",
            ),
            (StoredContext::None, true) => answer.with_message(
                MessageLevel::Warn,
                "no context was stored with this decision",
            ),
            _ => answer,
        };
        match (self.show_reasoning, &decision.actor_reasoning) {
            (true, None) => {
                answer.with_message(MessageLevel::Warn, "no model reasoning was stored")
            }
            _ => answer,
        }
    }

    fn data(&self, explained: &DecisionExplanation) -> Value {
        let decision = &explained.decision;
        let impact = &explained.impact;
        let hash = &decision.context_snapshot.hash;
        let mut data = json!({
            "decision_id": decision.decision_id,
            "type": decision.decision_type,
            "question": decision.question,
            "chosen": decision.chosen_option,
            "confidence": decision.confidence_score,
            "plan_id": decision.plan_id,
            "phase": decision.phase,
            "sequence": format_position(explained),
            "created": decision.created_at,
            "superseded": decision.is_superseded,
            "correction": decision.is_correction,
            "path": explained.path_to_root.iter().map(|it| it.decision_id).collect::<Vec<_>>(),
            "alternatives": alternatives(decision)
                .iter()
                .map(|one| json!({
                    "index": one.index,
                    "description": one.description,
                    "chosen": one.chosen,
                }))
                .collect::<Vec<_>>(),
            "impact": {
                "downstream_decisions": impact.downstream.len(),
                "downstream_child_plans": impact.child_plans.len(),
                "artifacts_produced": impact.artifacts.len(),
                "correction_impact": impact.level().as_str(),
            },
            "context_snapshot": {
                "items": item_names(&explained.context),
                "hot_context_hash": (!hash.is_empty()).then(|| format!("blake3:{hash}")),
                "resources": decision.context_snapshot.resources,
                "actor_state_hash": decision
                    .context_snapshot
                    .actor_state_ref
                    .as_ref()
                    .map(|hash| format!("blake3:{hash}")),
                "state": context_state(&explained.context),
            },
            "rationale": decision.rationale,
            "correction_hint": correction_hint(decision),
        });
        if self.show_context {
            data["context"] = match &explained.context {
                StoredContext::Kept { text, .. } => json!(text),
                StoredContext::None | StoredContext::Released => Value::Null,
            };
        }
        if self.show_reasoning {
            data["reasoning"] = json!(decision.actor_reasoning);
        }
        data
    }

    fn view(&self, explained: &DecisionExplanation) -> OutputView {
        let decision = &explained.decision;
        let view = OutputView::new()
            .panel("Decision", facts(explained))
            .panel("Alternatives Considered", choices(decision))
            .panel("Impact", impact_rows(explained))
            .panel("Context Snapshot", context_rows(explained))
            .panel("Rationale", [("why", or_none(decision.rationale.clone()))]);
        let view = match (&explained.context, self.show_context) {
            (StoredContext::Kept { items, .. }, true) => items.iter().fold(view, |view, item| {
                let title = format!("Context: {}", item.name);
                view.text(title).verbatim(with_final_newline(&item.text))
            }),
            _ => view,
        };
        let view = match (&decision.actor_reasoning, self.show_reasoning) {
            (Some(words), true) => view
                .text("Model Reasoning (raw)")
                .verbatim(with_final_newline(words)),
            _ => view,
        };
        view.panel("Correction", [("how", correction_hint(decision))])
    }
}

/// Ends the text with a line break, so that the next output starts on its own line.
fn with_final_newline(text: &str) -> String {
    if text.ends_with('\n') {
        text.to_owned()
    } else {
        format!("{text}\n")
    }
}

/// Returns for example `2 of 5`.
fn format_position(explained: &DecisionExplanation) -> String {
    let place = explained.decision.sequence_number;
    format!("{place} of {}", explained.decisions)
}

struct Alternative<'a> {
    index: usize,
    description: &'a str,
    chosen: bool,
}

/// Returns all options, including the chosen one: at its position in the actor's list, else first.
fn alternatives(decision: &Decision) -> Vec<Alternative<'_>> {
    let chosen = decision.chosen_option.as_str();
    let others = decision.alternatives_considered.iter().map(String::as_str);
    let missing = !others.clone().any(|other| other == chosen);
    let first = missing.then_some(chosen).into_iter();
    first
        .chain(others)
        .enumerate()
        .map(|(number, description)| Alternative {
            index: number + 1,
            description,
            chosen: description == chosen,
        })
        .collect()
}

fn facts(explained: &DecisionExplanation) -> Vec<(&'static str, ViewCell)> {
    let decision = &explained.decision;
    let state = match (decision.is_superseded, decision.is_correction) {
        (true, _) => ViewCell::new("superseded by a correction", Tone::Doubtful),
        (false, true) => ViewCell::new("active, as a correction", Tone::Good),
        (false, false) => "active".into(),
    };
    let score = match decision.confidence_score {
        Some(score) => ViewCell::from(format!("{:.2}", score.value())),
        None => ViewCell::new("(not given)", Tone::Faint),
    };
    let mut path: Vec<String> = explained.path_to_root.iter().map(headline).collect();
    path.reverse();
    vec![
        ("id", decision.decision_id.to_string().into()),
        ("type", decision.decision_type.as_str().into()),
        ("question", decision.question.as_str().into()),
        (
            "chosen",
            ViewCell::new(decision.chosen_option.as_str(), Tone::Strong),
        ),
        ("confidence", score),
        ("plan", explained.plan.name.to_string().into()),
        ("phase", decision.phase.as_str().into()),
        ("sequence", format_position(explained).into()),
        ("created", decision.created_at.to_string().into()),
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

fn choices(decision: &Decision) -> Vec<(String, ViewCell)> {
    let row = |one: &Alternative<'_>| {
        let cell = if one.chosen {
            ViewCell::new(format!("{} (chosen)", one.description), Tone::Strong)
        } else {
            one.description.into()
        };
        (one.index.to_string(), cell)
    };
    alternatives(decision).iter().map(row).collect()
}

fn impact_rows(explained: &DecisionExplanation) -> Vec<(&'static str, String)> {
    let impact = &explained.impact;
    vec![
        ("downstream decisions", impact.downstream.len().to_string()),
        ("child plans", impact.child_plans.len().to_string()),
        ("artifacts", impact.artifacts.len().to_string()),
        ("impact of a correction", impact.level().as_str().to_owned()),
    ]
}

fn context_rows(explained: &DecisionExplanation) -> Vec<(&'static str, ViewCell)> {
    let snapshot = &explained.decision.context_snapshot;
    let state = match &explained.context {
        StoredContext::None => ViewCell::new("nothing was stored", Tone::Faint),
        StoredContext::Released => ViewCell::new("no longer kept", Tone::Doubtful),
        StoredContext::Kept { text, .. } => {
            ViewCell::new(format!("{} bytes, hash checked", text.len()), Tone::Good)
        }
    };
    let hash = match snapshot.hash.as_str() {
        "" => String::new(),
        hash => format!("blake3:{hash}"),
    };
    vec![
        ("stored", state),
        ("items", or_none(item_names(&explained.context).join(", "))),
        ("resources", or_none(snapshot.resources.join(", "))),
        ("hash", or_none(hash)),
    ]
}

fn item_names(context: &StoredContext) -> Vec<&str> {
    match context {
        StoredContext::Kept { items, .. } => items.iter().map(|item| item.name.as_str()).collect(),
        StoredContext::None | StoredContext::Released => Vec::new(),
    }
}

fn context_state(context: &StoredContext) -> &'static str {
    match context {
        StoredContext::None => "none",
        StoredContext::Released => "released",
        StoredContext::Kept { .. } => "kept",
    }
}

/// Returns the command that corrects this decision, or why it cannot be corrected.
fn correction_hint(decision: &Decision) -> String {
    if decision.is_superseded {
        "a decision that was superseded cannot be corrected".to_owned()
    } else {
        format!(
            "agents plan correct --mode revert --guidance TEXT {}",
            decision.decision_id
        )
    }
}
