//! `builtin/ask-user`

use cleveragents_domain::tool::Capability;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use serde_json::{Value, json};

use super::{TIMEOUT_SECONDS, acknowledgement_schema, bounds};
use crate::builtin::{ToolDescription, ToolImpl, read_only_output};
use crate::schema_parts::{non_empty_text, object};

#[derive(Debug)]
pub(crate) struct AskUserTool;

impl ToolImpl for AskUserTool {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "ask-user",
            text:
                "Ask the user and wait for the answer. The plan waits until then, which may take \
                   hours: ask only what the files do not answer and what would be wrong to guess. \
                   The question is at most 16 KiB."
                    .to_owned(),
            input: object([(
                "question",
                non_empty_text("The question, with all that is needed to answer it."),
            )]),
            output: acknowledgement_schema(
                "asked",
                "The question was sent; the answer follows separately.",
            ),
            capability: Capability::read_only(),
            timeout_seconds: TIMEOUT_SECONDS,
        }
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        bounds::check_all_texts(input)?;
        bounds::check_not_blank("", input, &["question"])
    }

    fn run(&self, _: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        Ok(read_only_output(json!({"asked": true})))
    }
}
