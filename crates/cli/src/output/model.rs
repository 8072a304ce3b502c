//! The answer of a command: data for programs and a view of the same data for people.

use cleveragents_api::{MessageLevel, Reply};
use cleveragents_domain::Timestamp;
use cleveragents_engine::secrets::Redactor;
use serde::Serialize;
use serde_json::Value;

use crate::failure::{CommandFailure, ExitCode};
use crate::local_time::LocalClock;
use crate::next_step;

/// The answer of a command that succeeded, at least in part.
#[derive(Debug, Clone)]
pub struct CommandAnswer {
    /// For programs: the `data` of the envelope.
    pub(super) data: Value,
    pub view: OutputView,
    pub messages: Vec<Message>,
    pub status: AnswerStatus,
    pub exit: ExitCode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerStatus {
    Ok,
    Warn,
    Error,
}

/// A message besides the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    pub level: MessageLevel,
    pub text: String,
}

/// The output for people: blocks from top to bottom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputView {
    pub blocks: Vec<ViewBlock>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewBlock {
    /// A title and named values.
    Panel {
        title: String,
        rows: Vec<(String, ViewCell)>,
    },
    Table {
        title: String,
        headers: Vec<String>,
        rows: Vec<Vec<ViewCell>>,
    },
    /// A tree: lines from top to bottom, parents before their children.
    Tree { title: String, lines: Vec<TreeRow> },
    /// Prose, wrapped at the terminal width.
    Text(String),
    /// Preformatted text (a script): never wrapped. `plain` writes exactly these bytes to a pipe.
    Verbatim(String),
    /// A patch: coloured for people. If it is the only block, a pipe gets exactly these bytes.
    Patch(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeRow {
    /// 0 for a root; at most one more than that of the line above.
    pub depth: usize,
    pub cells: Vec<ViewCell>,
}

/// A value and its tone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewCell {
    pub text: String,
    pub tone: Tone,
    /// The time that the text stands for. People see it in their time zone.
    time: Option<Timestamp>,
}

/// The meaning of a value; formats with colour display it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Normal,
    Strong,
    Good,
    Doubtful,
    Bad,
    Faint,
}

impl CommandAnswer {
    /// Returns an answer with the serialised `data` for programs and a view of it for people.
    pub fn new(data: &impl Serialize, view: OutputView) -> Result<Self, CommandFailure> {
        Ok(Self {
            data: serialize(data)?,
            view,
            messages: Vec::new(),
            status: AnswerStatus::Ok,
            exit: ExitCode::Ok,
        })
    }

    /// Returns the answer to a request: its data is the serialised answer, displayed to people by
    /// `view`.
    pub fn from_reply<A: Serialize>(
        reply: Reply<A>,
        view: impl FnOnce(&A) -> OutputView,
    ) -> Result<Self, CommandFailure> {
        let answer = Self::new(&reply.answer, view(&reply.answer))?;
        let add = |answer: Self, message: cleveragents_api::Message| {
            answer.with_message(message.level, next_step::render(&message.content))
        };
        let answer = reply.messages.into_iter().fold(answer, add);
        Ok(answer.with_exit_code(reply.exit))
    }

    /// Adds a message; a warning sets the status to `warn`.
    #[must_use]
    pub fn with_message(mut self, level: MessageLevel, text: impl Into<String>) -> Self {
        if level == MessageLevel::Warn && self.status == AnswerStatus::Ok {
            self.status = AnswerStatus::Warn;
        }
        self.messages.push(Message::new(level, text.into()));
        self
    }

    /// Sets the exit code; any but 0 sets the status to `error`.
    #[must_use]
    pub fn with_exit_code(mut self, exit: ExitCode) -> Self {
        if exit != ExitCode::Ok {
            self.status = AnswerStatus::Error;
        }
        self.exit = exit;
        self
    }

    /// Returns the answer with times in the user's time zone.
    pub(super) fn localized(mut self, clock: &LocalClock) -> Self {
        for block in &mut self.view.blocks {
            block.for_each_cell(&|cell| cell.localize(clock));
        }
        self
    }

    /// Returns the answer with secrets masked in messages and view.
    pub(super) fn redacted(&self, redactor: &Redactor) -> Self {
        let mut answer = self.clone();
        for message in &mut answer.messages {
            message.text = redactor.redact(&message.text);
        }
        for block in &mut answer.view.blocks {
            block.for_each_text(&|text| *text = redactor.redact(text));
        }
        answer
    }
}

/// Serialises what a command answers, so that secrets in it can be masked before it is written.
pub(super) fn serialize(data: &impl Serialize) -> Result<Value, CommandFailure> {
    serde_json::to_value(data).map_err(|error| {
        CommandFailure::new(ExitCode::Error, "cannot write the answer").caused_by(&error)
    })
}

impl Message {
    pub fn new(level: MessageLevel, text: String) -> Self {
        Self { level, text }
    }
}

impl OutputView {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn panel<K: Into<String>, C: Into<ViewCell>>(
        mut self,
        title: &str,
        rows: impl IntoIterator<Item = (K, C)>,
    ) -> Self {
        self.blocks.push(ViewBlock::Panel {
            title: title.to_owned(),
            rows: rows
                .into_iter()
                .map(|(key, cell)| (key.into(), cell.into()))
                .collect(),
        });
        self
    }

    #[must_use]
    pub fn table(
        mut self,
        title: &str,
        headers: &[&str],
        rows: impl IntoIterator<Item = Vec<ViewCell>>,
    ) -> Self {
        self.blocks.push(ViewBlock::Table {
            title: title.to_owned(),
            headers: headers.iter().map(|&header| header.to_owned()).collect(),
            rows: rows.into_iter().collect(),
        });
        self
    }

    #[must_use]
    pub fn tree(mut self, title: &str, lines: impl IntoIterator<Item = TreeRow>) -> Self {
        self.blocks.push(ViewBlock::Tree {
            title: title.to_owned(),
            lines: lines.into_iter().collect(),
        });
        self
    }

    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(ViewBlock::Text(text.into()));
        self
    }

    #[must_use]
    pub fn patch(mut self, bytes: Vec<u8>) -> Self {
        self.blocks.push(ViewBlock::Patch(bytes));
        self
    }

    #[must_use]
    pub fn verbatim(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(ViewBlock::Verbatim(text.into()));
        self
    }
}

impl ViewBlock {
    fn for_each_cell(&mut self, change: &dyn Fn(&mut ViewCell)) {
        match self {
            Self::Panel { rows, .. } => rows.iter_mut().for_each(|(_, cell)| change(cell)),
            Self::Table { rows, .. } => rows.iter_mut().flatten().for_each(change),
            Self::Tree { lines, .. } => {
                let cells = lines.iter_mut().flat_map(|row| &mut row.cells);
                cells.for_each(change);
            }
            Self::Text(_) | Self::Verbatim(_) | Self::Patch(_) => {}
        }
    }

    fn for_each_text(&mut self, change: &dyn Fn(&mut String)) {
        match self {
            Self::Panel { title, rows } => {
                change(title);
                for (key, cell) in rows {
                    change(key);
                    change(&mut cell.text);
                }
            }
            Self::Table {
                title,
                headers,
                rows,
            } => {
                change(title);
                headers.iter_mut().for_each(change);
                let cells = rows.iter_mut().flatten();
                cells.for_each(|cell| change(&mut cell.text));
            }
            Self::Tree { title, lines } => {
                change(title);
                let cells = lines.iter_mut().flat_map(|row| &mut row.cells);
                cells.for_each(|cell| change(&mut cell.text));
            }
            Self::Text(text) | Self::Verbatim(text) => change(text),
            Self::Patch(bytes) => {
                let text = String::from_utf8_lossy(bytes).into_owned();
                let mut changed = text.clone();
                change(&mut changed);
                if changed != text {
                    *bytes = changed.into_bytes();
                }
            }
        }
    }
}

impl ViewCell {
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
            time: None,
        }
    }

    /// Returns a time, which is shown as local time.
    pub fn time(time: Timestamp, tone: Tone) -> Self {
        Self {
            time: Some(time),
            ..Self::new(time.to_string(), tone)
        }
    }

    /// Replaces a time by local time.
    pub(super) fn localize(&mut self, clock: &LocalClock) {
        if let Some(time) = self.time {
            self.text = clock.format(time);
        }
    }
}

impl<T: Into<String>> From<T> for ViewCell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Normal)
    }
}
