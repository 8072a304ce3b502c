//! Lines that a command writes while it still runs, such as followed events. Secrets are masked as
//! in every answer.

use std::io::{self, Write};

use cleveragents_engine::secrets::Redactor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::json::render_line;
use super::layout::{paint, wrap};
use super::model::{Tone, ViewCell, serialize};
use super::patch;
use super::render_options::{ColourMode, RenderOptions};
use super::text::{escape_cell, escape_line};
use crate::failure::{CommandFailure, ExitCode};
use crate::local_time::LocalClock;

/// Whether stdout still has a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderState {
    Open,
    /// The other end of the pipe was closed; the command can stop.
    Closed,
}

/// Lines about the work of a command, for people, on stderr.
#[derive(Debug, Clone)]
pub struct WorkLines {
    redactor: Redactor,
    colour: ColourMode,
    /// Longer lines are wrapped at spaces; `None` leaves them whole.
    width: Option<u16>,
}

#[derive(Debug, Clone)]
pub struct OutputLines {
    redactor: Redactor,
    colour: ColourMode,
    clock: LocalClock,
}

impl OutputLines {
    pub fn new(redactor: Redactor, options: &RenderOptions) -> Self {
        Self {
            redactor,
            colour: options.stdout,
            clock: options.clock.clone(),
        }
    }

    /// Returns text of a model as it may be printed, with its line breaks.
    pub fn escape(&self, text: &str) -> String {
        escape_cell(&self.redactor.redact(text))
    }

    /// Returns text of a model as one line that may be printed.
    pub fn escape_line(&self, text: &str) -> String {
        escape_line(&self.redactor.redact(text))
    }

    /// Returns lines on stderr with secrets masked in the same way.
    pub fn work_lines(&self, colour: ColourMode, width: Option<u16>) -> WorkLines {
        WorkLines {
            redactor: self.redactor.clone(),
            colour,
            width,
        }
    }

    /// Checks for a reader without writing anything.
    pub fn reader_state(&self) -> ReaderState {
        let stdout = io::stdout();
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        let now = Timespec::default();
        let gone = PollFlags::ERR | PollFlags::HUP;
        match poll(&mut watched, Some(&now)) {
            Ok(_) if watched[0].revents().intersects(gone) => ReaderState::Closed,
            _ => ReaderState::Open,
        }
    }

    /// Writes one JSON value on its own line.
    pub fn json(&self, value: &impl Serialize) -> Result<ReaderState, CommandFailure> {
        let mut value = serialize(value)?;
        self.redactor.redact_value(&mut value);
        self.write(&render_line(&value))
    }

    /// Writes cells separated by tabs, for people.
    pub fn cells(&self, cells: &[ViewCell]) -> Result<ReaderState, CommandFailure> {
        let shown = cells.iter().map(|cell| {
            let mut cell = cell.clone();
            cell.localize(&self.clock);
            let text = escape_line(&self.redactor.redact(&cell.text));
            paint(&text, cell.tone, self.colour)
        });
        self.write(&(shown.collect::<Vec<_>>().join("\t") + "\n"))
    }

    /// Writes a patch that the user is about to be asked about.
    pub fn patch(&self, patch: &[u8]) -> Result<ReaderState, CommandFailure> {
        self.write(&self.patch_text(patch))
    }

    /// Writes a patch to stderr, where stdout is for programs.
    pub fn patch_for_people(&self, patch: &[u8]) {
        // If stderr is closed, there is no way left to report it.
        let _ = io::stderr().write_all(self.patch_text(patch).as_bytes());
    }

    /// Returns a patch as [`patch`](Self::patch) writes it.
    pub fn patch_text(&self, patch: &[u8]) -> String {
        let shown = patch::render(patch, self.colour);
        self.redactor.redact(&shown)
    }

    /// Writes a progress message to stderr.
    pub fn remark(&self, text: &str) {
        let text = self.escape_line(text) + "\n";
        // If stderr is closed, there is no way left to report it.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    fn write(&self, line: &str) -> Result<ReaderState, CommandFailure> {
        let mut stdout = io::stdout().lock();
        let written = stdout
            .write_all(line.as_bytes())
            .and_then(|()| stdout.flush());
        match written {
            Ok(()) => Ok(ReaderState::Open),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ReaderState::Closed),
            Err(error) => {
                let what = "cannot write the answer to stdout";
                Err(CommandFailure::new(ExitCode::Error, what).caused_by(&error))
            }
        }
    }
}

impl WorkLines {
    /// Writes a line after so many spaces.
    pub fn write(&self, indent: usize, text: &str, tone: Tone) {
        let mut shown = String::new();
        for line in self.wrap(indent, text) {
            shown.push_str(&" ".repeat(indent));
            shown.push_str(&paint(&line, tone, self.colour));
            shown.push('\n');
        }
        // If stderr is closed, there is no way left to report it.
        let _ = io::stderr().write_all(shown.as_bytes());
    }

    /// Returns a text that is not complete yet as it may be shown.
    pub fn open_text(&self, indent: usize, text: &str) -> String {
        match self.escape_tabs(text) {
            text if text.trim().is_empty() => String::new(),
            text => " ".repeat(indent) + &text,
        }
    }

    fn escape_tabs(&self, text: &str) -> String {
        escape_line(&self.redactor.redact(&text.replace('\t', "    ")))
    }

    fn wrap(&self, indent: usize, text: &str) -> Vec<String> {
        let text = self.escape_tabs(text);
        match self.width {
            Some(width) => wrap(
                &text,
                width.saturating_sub(u16::try_from(indent).unwrap_or(0)),
            ),
            None => vec![text],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_model_cannot_control_the_terminal() {
        let work = WorkLines {
            redactor: Redactor::default(),
            colour: ColourMode::No,
            width: Some(80),
        };
        let hostile = "a\x1b[2Jb\x1b]0;c\x07d\re\u{9b}2J\u{202e}f\tg";
        let shown = "  a\\x1b[2Jb\\x1b]0;c\\x07d\\re\\u{9b}2J\\u{202e}f    g";
        assert_eq!(work.open_text(2, hostile), shown);
        assert_eq!(work.wrap(2, hostile), [shown.trim_start()]);
    }
}
