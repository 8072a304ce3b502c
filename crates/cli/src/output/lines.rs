//! Lines that are written while a command still works: a journal that is being followed. They pass
//! the same filter as every answer.

use std::io::{self, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use super::choice::Colour;
use super::json::render_line;
use super::layout::painted;
use super::model::Cell;
use super::patch;
use super::text::one_line;
use crate::failure::{ExitCode, Failure};
use crate::redact::Redactor;

/// Whether anybody still reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    There,
    /// The other end of the pipe was closed: there is nobody to go on for.
    Gone,
}

#[derive(Debug, Clone)]
pub struct Lines {
    redactor: Redactor,
    colour: Colour,
}

impl Lines {
    pub fn new(redactor: Redactor, colour: Colour) -> Self {
        Self { redactor, colour }
    }

    /// Whether anybody still reads, asked without writing anything.
    pub fn reader(&self) -> Reader {
        let stdout = io::stdout();
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        let now = Timespec::default();
        let gone = PollFlags::ERR | PollFlags::HUP;
        match poll(&mut watched, Some(&now)) {
            Ok(_) if watched[0].revents().intersects(gone) => Reader::Gone,
            _ => Reader::There,
        }
    }

    /// One JSON value on a line of its own.
    pub fn json(&self, value: &Value) -> Result<Reader, Failure> {
        let mut value = value.clone();
        self.redactor.redact_value(&mut value);
        self.write(&render_line(&value))
    }

    /// Cells with tabs between them, for people.
    pub fn cells(&self, cells: &[Cell]) -> Result<Reader, Failure> {
        let shown = cells.iter().map(|cell| {
            let text = one_line(&self.redactor.redact(&cell.text));
            painted(&text, cell.tone, self.colour)
        });
        self.write(&(shown.collect::<Vec<_>>().join("\t") + "\n"))
    }

    /// A patch, for a person who is about to be asked about it.
    pub fn patch(&self, patch: &[u8]) -> Result<Reader, Failure> {
        let shown = patch::shown(patch, self.colour);
        self.write(&self.redactor.redact(&shown))
    }

    /// A line beside the answer, for people who wait.
    pub fn remark(&self, text: &str) {
        let text = one_line(&self.redactor.redact(text)) + "\n";
        // Nobody is left to be told when stderr is gone.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    fn write(&self, line: &str) -> Result<Reader, Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout
            .write_all(line.as_bytes())
            .and_then(|()| stdout.flush());
        match written {
            Ok(()) => Ok(Reader::There),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
            Err(error) => {
                let what = "cannot write the answer to stdout";
                Err(Failure::new(ExitCode::Error, what).caused_by(&error))
            }
        }
    }
}
