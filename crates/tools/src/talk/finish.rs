//! `builtin/finish`

use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use serde_json::{Value, json};

use super::{TIMEOUT_SECONDS, bounds, heard};
use crate::builtin::{Description, Work, untouched};
use crate::schema_parts::{object, some_text};

#[derive(Debug)]
pub(crate) struct Finish;

impl Work for Finish {
    fn describe(&self) -> Description {
        Description {
            name: "finish",
            text: "Say that the work is done. Call it once, alone, when everything that was asked \
                   for is in the files and has been checked; nothing is done after it. The \
                   summary is at most 16 KiB."
                .to_owned(),
            input: object([(
                "summary",
                some_text("What was done, and what was left undone and why."),
            )]),
            output: heard("finished", "The work is done."),
            capability: Capability::reads(),
            timeout_seconds: TIMEOUT_SECONDS,
        }
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        bounds::texts(input)?;
        bounds::said("", input, &["summary"])
    }

    fn run(&self, _: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        Ok(untouched(json!({"finished": true})))
    }
}
