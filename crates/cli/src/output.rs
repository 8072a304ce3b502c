//! Output of answers to people and programs.
//!
//! A command returns a [`CommandAnswer`] and never prints. This module masks secrets, picks the
//! format (`render_options`), renders it (one file per format) and writes it: data to stdout,
//! messages for people to stderr.

mod color;
mod json;
mod layout;
mod lines;
mod model;
mod notes;
mod patch;
mod plain;
mod render_options;
mod rich;
mod row_limit;
mod table;
mod text;
mod tree;
mod yaml;

use std::io::{self, Write};
use std::time::Duration;

use cleveragents_api::{FailureFacts, FailureKind};
use cleveragents_domain::Timestamp;
use cleveragents_engine::secrets::Redactor;
use serde::Serialize;
use serde_json::Value;

pub use cleveragents_api::MessageLevel;
pub use cleveragents_app::text::format_count;
pub use lines::{OutputLines, ReaderState, WorkLines};
pub use model::{
    AnswerStatus, CommandAnswer, Message, OutputView, Tone, TreeRow, ViewBlock, ViewCell,
};
pub use render_options::{ColourMode, EnvelopeShape, RenderOptions, Verbosity};
pub use row_limit::RowLimit;

use crate::arguments::Format;
use crate::failure::CommandFailure;
use crate::next_step;

const SECRET_PATCH_WARNING: &str = "the patch contains what looks like a secret; it is not masked, \
                                    because a masked patch cannot be applied";

/// The outcome of a command with the other facts of its envelope.
#[derive(Debug)]
pub struct CommandReport {
    /// The subcommand as typed, for example `config get`.
    pub command: String,
    pub started: Timestamp,
    pub duration: Duration,
    pub outcome: Result<CommandAnswer, CommandFailure>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RenderedOutput {
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// The JSON and YAML output. Keys may be added but never removed.
#[derive(Debug, Serialize)]
struct Envelope<'a> {
    command: &'a str,
    status: AnswerStatus,
    exit_code: u8,
    data: Value,
    timing: Timing,
    messages: Vec<Message>,
}

#[derive(Debug, Serialize)]
struct Timing {
    started: Timestamp,
    duration_ms: u64,
}

/// The `data` of the envelope of a failure.
#[derive(Debug, Serialize)]
struct FailureAnswer<'a> {
    #[serde(flatten)]
    facts: &'a FailureFacts,
    error: FailureDescription<'a>,
}

#[derive(Debug, Serialize)]
struct FailureDescription<'a> {
    kind: FailureKind,
    message: &'a str,
    causes: &'a [String],
    hints: Vec<String>,
}

impl CommandReport {
    pub fn exit_code(&self) -> u8 {
        match &self.outcome {
            Ok(answer) => answer.exit.code(),
            Err(failure) => failure.exit.code(),
        }
    }

    /// Renders with secrets masked. Masking comes before rendering, because a wrapped or escaped
    /// secret would not be recognised.
    pub fn render(&self, options: &RenderOptions, redactor: &Redactor) -> RenderedOutput {
        if options.format.is_envelope() {
            return self.render_envelope(options, redactor);
        }
        match &self.outcome {
            Ok(answer) => {
                let shown = answer.redacted(redactor).localized(&options.clock);
                match exact_patch(&answer.view, options) {
                    None => RenderedOutput {
                        stdout: render_view(&shown.view, options).into_bytes(),
                        stderr: notes::render_messages(&shown, options),
                    },
                    Some(patch) => {
                        let shown = if shown.view == answer.view {
                            shown
                        } else {
                            shown.with_message(MessageLevel::Warn, SECRET_PATCH_WARNING)
                        };
                        RenderedOutput {
                            stdout: patch.to_vec(),
                            stderr: notes::render_messages(&shown, options),
                        }
                    }
                }
            }
            Err(failure) => RenderedOutput {
                stdout: Vec::new(),
                stderr: notes::render_failure(failure, options, redactor),
            },
        }
    }

    fn render_envelope(&self, options: &RenderOptions, redactor: &Redactor) -> RenderedOutput {
        let (status, mut data, mut messages) = match &self.outcome {
            Ok(answer) => (answer.status, answer.data.clone(), answer.messages.clone()),
            Err(failure) => {
                let message = Message::new(MessageLevel::Error, failure.to_string());
                let data = model::serialize(&FailureAnswer::from(failure));
                // Cannot fail: all keys are strings.
                let data = data.unwrap_or_default();
                (AnswerStatus::Error, data, vec![message])
            }
        };
        redactor.redact_value(&mut data);
        for message in &mut messages {
            message.text = redactor.redact(&message.text);
        }
        let envelope = Envelope {
            command: &self.command,
            status,
            exit_code: self.exit_code(),
            data,
            timing: Timing {
                started: self.started,
                duration_ms: u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
            },
            messages,
        };
        let stdout = match (options.shape, options.format) {
            (EnvelopeShape::LastLine, _) => json::render_line(&envelope),
            (EnvelopeShape::Whole, Format::Yaml) => yaml::render(&envelope),
            (EnvelopeShape::Whole, _) => json::render(&envelope),
        };
        RenderedOutput {
            stdout: stdout.into_bytes(),
            stderr: String::new(),
        }
    }
}

impl<'a> From<&'a CommandFailure> for FailureAnswer<'a> {
    fn from(failure: &'a CommandFailure) -> Self {
        Self {
            facts: &failure.facts,
            error: FailureDescription {
                kind: failure.kind,
                message: &failure.message,
                causes: &failure.causes,
                hints: failure.next_steps.iter().map(next_step::render).collect(),
            },
        }
    }
}

/// Returns the patch if it is the whole answer and stdout is a pipe. It is not masked, because a
/// masked patch could not be applied and its content is in the user's own files anyway. A message
/// warns if it contains a secret.
fn exact_patch<'a>(view: &'a OutputView, options: &RenderOptions) -> Option<&'a [u8]> {
    match view.blocks.as_slice() {
        [ViewBlock::Patch(bytes)] if options.piped => Some(bytes),
        _ => None,
    }
}

fn render_view(view: &OutputView, options: &RenderOptions) -> String {
    match options.format {
        Format::Rich => rich::render(view, options),
        Format::Color => color::render(view, options),
        Format::Table => table::render(view, options),
        Format::Plain | Format::Json | Format::Yaml => plain::render(view, options),
    }
}

/// Writes the rendered output. A closed pipe (`agents … | head -1`) is not an error.
pub fn write(rendered: &RenderedOutput) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(&rendered.stdout)
        .and_then(|()| stdout.flush());
    // If stderr is closed, there is no way left to report it.
    let _ = io::stderr().write_all(rendered.stderr.as_bytes());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod format_tests;
#[cfg(test)]
mod tests;
