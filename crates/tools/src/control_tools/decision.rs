//! `builtin/record-decision`

use cleveragents_domain::tool::Capability;
use cleveragents_domain::tool::control::ALTERNATIVES_MAXIMUM;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use serde_json::{Value, json};

use super::{TIMEOUT_SECONDS, acknowledgement_schema, bounds};
use crate::builtin::{ToolDescription, ToolImpl, read_only_output};
use crate::schema_parts::{fraction, list, non_empty_text, object, text};

#[derive(Debug)]
pub(crate) struct RecordDecisionTool;

impl ToolImpl for RecordDecisionTool {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "record-decision",
            text:
                "Record a decision for later review: the question, the choice, the alternatives, \
                   and the reason. Texts are at most 16 KiB each."
                    .to_owned(),
            input: schema(),
            output: acknowledgement_schema(
                "recorded",
                "The decision is recorded in the plan's tree.",
            ),
            capability: Capability::read_only(),
            timeout_seconds: TIMEOUT_SECONDS,
        }
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        bounds::check_all_texts(input)?;
        check("", input)
    }

    fn run(&self, _: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        Ok(read_only_output(json!({"recorded": true})))
    }
}

/// The schema of one decision, also used in a strategy.
pub(super) fn schema() -> Value {
    let alternatives = format!("The alternatives; at most {ALTERNATIVES_MAXIMUM}.");
    object([
        ("question", non_empty_text("The question.")),
        ("chosen", non_empty_text("The choice.")),
        (
            "alternatives?",
            list(non_empty_text("An alternative."), &alternatives),
        ),
        (
            "confidence?",
            fraction("The confidence in this choice, from 0 to 1."),
        ),
        ("rationale?", text("The reason.")),
    ])
}

pub(super) fn check(pointer: &str, decision: &Value) -> Result<(), ToolFailure> {
    bounds::check_not_blank(pointer, decision, &["question", "chosen"])?;
    bounds::bounded_entries(pointer, decision, "alternatives", ALTERNATIVES_MAXIMUM)?;
    Ok(())
}
