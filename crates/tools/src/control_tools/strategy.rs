//! `builtin/submit-strategy`

use cleveragents_domain::tool::Capability;
use cleveragents_domain::tool::control::{DECISIONS_MAXIMUM, STEPS_MAXIMUM, TITLE_MAXIMUM};
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use serde_json::{Value, json};

use super::{TIMEOUT_SECONDS, acknowledgement_schema, bounds, decision};
use crate::builtin::{ToolDescription, ToolImpl, invalid_input, read_only_output};
use crate::schema_parts::{fraction, list, non_empty_text, object, text};

#[derive(Debug)]
pub(crate) struct SubmitStrategyTool;

impl ToolImpl for SubmitStrategyTool {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "submit-strategy",
            text: "Submit the strategy: the steps in their order, the decisions \
                   behind them, and how sure you are. Call it once, alone, after inspecting the \
                   files; it ends the planning. Texts are at most 16 KiB each."
                .to_owned(),
            input: schema(),
            output: acknowledgement_schema("accepted", "The strategy can be used."),
            capability: Capability::read_only(),
            timeout_seconds: TIMEOUT_SECONDS,
        }
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        bounds::check_all_texts(input)?;
        bounds::check_not_blank("", input, &["summary"])?;
        let decisions = bounds::bounded_entries("", input, "decisions", DECISIONS_MAXIMUM)?;
        for (index, each) in decisions.iter().enumerate() {
            decision::check(&format!("/decisions/{index}"), each)?;
        }
        let steps = bounds::bounded_entries("", input, "steps", STEPS_MAXIMUM)?;
        for (index, step) in steps.iter().enumerate() {
            check_step(&format!("/steps/{index}"), step)?;
        }
        Ok(())
    }

    fn run(&self, _: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        Ok(read_only_output(json!({"accepted": true})))
    }
}

fn schema() -> Value {
    let title = format!("What to do, in one line of at most {TITLE_MAXIMUM} characters.");
    let step = object([
        ("title", non_empty_text(&title)),
        ("description?", text("How to do it, and how to check it.")),
    ]);
    let mut steps = list(
        step,
        &format!("What to do, in its order: 1 to {STEPS_MAXIMUM} steps."),
    );
    steps["minItems"] = 1.into();
    let decisions = format!("The decisions it is based on; at most {DECISIONS_MAXIMUM}.");
    object([
        ("summary", non_empty_text("A summary in a few sentences.")),
        (
            "confidence",
            fraction("The confidence that this strategy fulfils the request, from 0 to 1."),
        ),
        ("rationale?", text("The reason for this approach.")),
        ("decisions?", list(decision::schema(), &decisions)),
        ("steps", steps),
    ])
}

fn check_step(pointer: &str, step: &Value) -> Result<(), ToolFailure> {
    bounds::check_not_blank(pointer, step, &["title"])?;
    let title = step["title"].as_str().unwrap_or_default();
    let length = title.chars().count();
    if length > TITLE_MAXIMUM {
        return Err(invalid_input(format!(
            "at {pointer}/title: a title may have {TITLE_MAXIMUM} characters, this one has {length}"
        )));
    }
    if title.trim().contains(['\n', '\r']) {
        Err(invalid_input(format!(
            "at {pointer}/title: a title is one line"
        )))
    } else {
        Ok(())
    }
}
