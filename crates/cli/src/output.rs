//! How answers reach people and programs.
//!
//! A command returns an [`Answer`] and never prints. This module masks its secrets, picks the
//! format (`choice`), renders it (one file per format) and writes it: data to stdout, everything
//! said to people to stderr.

mod choice;
mod color;
mod json;
mod layout;
mod lines;
mod model;
mod notes;
mod patch;
mod plain;
mod rich;
mod table;
mod text;
mod tree;
mod yaml;

use std::io::{self, Write};
use std::time::Duration;

use cleveragents_domain::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub use choice::{Choice, Colour, Shape};
pub use lines::{Lines, Reader};
pub use model::{Answer, Block, Cell, Level, Message, Status, Tone, Twig, View};
pub use text::counted;

use crate::arguments::Format;
use crate::failure::Failure;
use crate::redact::Redactor;

const HOLDS_SECRETS: &str = "the patch holds what looks like a secret, and is written as it is: masked it could not be applied";

/// The answer of a command and what its envelope says about it.
#[derive(Debug)]
pub struct Report {
    /// The words of the command: `config get`.
    pub command: String,
    pub started: Timestamp,
    pub duration: Duration,
    pub outcome: Result<Answer, Failure>,
}

/// What is written where.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Rendered {
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// What JSON and YAML print. Keys are only ever added.
#[derive(Debug, Serialize)]
struct Envelope<'a> {
    command: &'a str,
    status: Status,
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

impl Report {
    pub fn exit_code(&self) -> u8 {
        match &self.outcome {
            Ok(answer) => answer.exit.code(),
            Err(failure) => failure.exit.code(),
        }
    }

    /// Renders without secrets. Masking comes before rendering, because a wrapped or escaped
    /// secret would no longer be recognised.
    pub fn render(&self, choice: &Choice, redactor: &Redactor) -> Rendered {
        if choice.format.is_envelope() {
            return self.render_envelope(choice, redactor);
        }
        match &self.outcome {
            Ok(answer) => {
                let shown = answer.redacted(redactor);
                match exact_patch(&answer.view, choice) {
                    None => Rendered {
                        stdout: render_view(&shown.view, choice).into_bytes(),
                        stderr: notes::messages(&shown, choice),
                    },
                    Some(patch) => {
                        let shown = match shown.view == answer.view {
                            true => shown,
                            false => shown.say(Level::Warn, HOLDS_SECRETS),
                        };
                        Rendered {
                            stdout: patch.to_vec(),
                            stderr: notes::messages(&shown, choice),
                        }
                    }
                }
            }
            Err(failure) => Rendered {
                stdout: Vec::new(),
                stderr: notes::failure(failure, choice, redactor),
            },
        }
    }

    fn render_envelope(&self, choice: &Choice, redactor: &Redactor) -> Rendered {
        let (status, mut data, mut messages) = match &self.outcome {
            Ok(answer) => (answer.status, answer.data.clone(), answer.messages.clone()),
            Err(failure) => {
                let message = Message::new(Level::Error, failure.to_string());
                (Status::Error, failure.to_data(), vec![message])
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
        let stdout = match (choice.shape, choice.format) {
            (Shape::LastLine, _) => json::render_line(&envelope),
            (Shape::Whole, Format::Yaml) => yaml::render(&envelope),
            (Shape::Whole, _) => json::render(&envelope),
        };
        Rendered {
            stdout: stdout.into_bytes(),
            stderr: String::new(),
        }
    }
}

/// A patch that is the whole answer and goes to a program. Masked it could not be applied: it is
/// what is in the user's own files, and that it holds something secret is said beside it.
fn exact_patch<'a>(view: &'a View, choice: &Choice) -> Option<&'a [u8]> {
    match view.blocks.as_slice() {
        [Block::Patch(bytes)] if choice.piped => Some(bytes),
        _ => None,
    }
}

fn render_view(view: &View, choice: &Choice) -> String {
    match choice.format {
        Format::Rich => rich::render(view, choice),
        Format::Color => color::render(view, choice),
        Format::Table => table::render(view, choice),
        Format::Plain | Format::Json | Format::Yaml => plain::render(view, choice),
    }
}

/// Writes what was rendered. A reader who went away (`agents … | head -1`) is no error.
pub fn write(rendered: &Rendered) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(&rendered.stdout)
        .and_then(|()| stdout.flush());
    // Nobody is left to be told when stderr is gone.
    let _ = io::stderr().write_all(rendered.stderr.as_bytes());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
