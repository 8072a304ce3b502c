//! `builtin/record-decision`

use cleveragents_domain::tool::Capability;
use cleveragents_domain::tool::talk::ALTERNATIVES_MAXIMUM;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use serde_json::{Value, json};

use super::{TIMEOUT_SECONDS, bounds, heard};
use crate::builtin::{Description, Work, untouched};
use crate::schema_parts::{fraction, list, object, some_text, text};

#[derive(Debug)]
pub(crate) struct RecordDecision;

impl Work for RecordDecision {
    fn describe(&self) -> Description {
        Description {
            name: "record-decision",
            text: "Record a choice that others should be able to see and question later: what was \
                   open, what was chosen, instead of what, and why. Texts are at most 16 KiB each."
                .to_owned(),
            input: schema(),
            output: heard("recorded", "The decision stands in the plan's tree."),
            capability: Capability::reads(),
            timeout_seconds: TIMEOUT_SECONDS,
        }
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        bounds::texts(input)?;
        check("", input)
    }

    fn run(&self, _: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        Ok(untouched(json!({"recorded": true})))
    }
}

/// One decision, here and in a strategy.
pub(super) fn schema() -> Value {
    let alternatives = format!("What else could have been chosen; at most {ALTERNATIVES_MAXIMUM}.");
    object([
        ("question", some_text("What had to be decided.")),
        ("chosen", some_text("What was chosen.")),
        (
            "alternatives?",
            list(some_text("An alternative."), &alternatives),
        ),
        (
            "confidence?",
            fraction("How sure it is that this is right, from 0 to 1."),
        ),
        ("rationale?", text("Why it was chosen.")),
    ])
}

pub(super) fn check(place: &str, decision: &Value) -> Result<(), ToolFailure> {
    bounds::said(place, decision, &["question", "chosen"])?;
    bounds::entries(place, decision, "alternatives", ALTERNATIVES_MAXIMUM)?;
    Ok(())
}
