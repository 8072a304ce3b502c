//! `builtin/ask-user`

use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use serde_json::{Value, json};

use super::{TIMEOUT_SECONDS, bounds, heard};
use crate::builtin::{Description, Work, untouched};
use crate::schema_parts::{object, some_text};

#[derive(Debug)]
pub(crate) struct AskUser;

impl Work for AskUser {
    fn describe(&self) -> Description {
        Description {
            name: "ask-user",
            text: "Ask a person and wait for the answer. The work stands still until then, which \
                   may take hours: ask only what the files cannot tell and what would be wrong to \
                   guess. The question is at most 16 KiB."
                .to_owned(),
            input: object([(
                "question",
                some_text("The question, with all that is needed to answer it."),
            )]),
            output: heard(
                "asked",
                "The question has been put; the answer comes apart.",
            ),
            capability: Capability::reads(),
            timeout_seconds: TIMEOUT_SECONDS,
        }
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        bounds::texts(input)?;
        bounds::said("", input, &["question"])
    }

    fn run(&self, _: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        Ok(untouched(json!({"asked": true})))
    }
}
