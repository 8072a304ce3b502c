//! `builtin/finish`

use cleveragents_domain::tool::Capability;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use serde_json::{Value, json};

use super::{TIMEOUT_SECONDS, acknowledgement_schema, bounds};
use crate::builtin::{ToolDescription, ToolImpl, read_only_output};
use crate::schema_parts::{non_empty_text, object};

#[derive(Debug)]
pub(crate) struct FinishTool;

impl ToolImpl for FinishTool {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "finish",
            text: "Report that the work is done. Call it once, alone, when everything that \
                   was requested is in the files and has been checked; it ends the work. The \
                   summary is at most 16 KiB."
                .to_owned(),
            input: object([(
                "summary",
                non_empty_text("What was done, and what was left undone and why."),
            )]),
            output: acknowledgement_schema("finished", "The work is done."),
            capability: Capability::read_only(),
            timeout_seconds: TIMEOUT_SECONDS,
        }
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        bounds::check_all_texts(input)?;
        bounds::check_not_blank("", input, &["summary"])
    }

    fn run(&self, _: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        Ok(read_only_output(json!({"finished": true})))
    }
}
