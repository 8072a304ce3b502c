//! What a command answers: data for programs and a view of the same for people.

use serde::Serialize;
use serde_json::Value;

use crate::failure::ExitCode;
use crate::redact::Redactor;

/// The answer of a command that did what it was asked, or as much as it could.
#[derive(Debug, Clone)]
pub struct Answer {
    /// For programs: the `data` of the envelope.
    pub data: Value,
    /// For people.
    pub view: View,
    pub messages: Vec<Message>,
    pub status: Status,
    pub exit: ExitCode,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    Warn,
    Error,
}

/// Something said beside the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    pub level: Level,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Info,
    /// A command to run next.
    Hint,
    Warn,
    Error,
}

/// What people see: blocks from top to bottom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A title and named values.
    Panel {
        title: String,
        rows: Vec<(String, Cell)>,
    },
    Table {
        title: String,
        headers: Vec<String>,
        rows: Vec<Vec<Cell>>,
    },
    /// A tree, its lines from top to bottom, parents before their children.
    Tree { title: String, lines: Vec<Twig> },
    /// Lines of prose.
    Text(String),
    /// Text with a form of its own (a script): never wrapped, and in `plain` to a pipe exactly
    /// these bytes.
    Verbatim(String),
    /// A patch: coloured for people, and to a pipe, if it is all there is, exactly these bytes.
    Patch(Vec<u8>),
}

/// One line of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twig {
    /// 0 for a root; at most one more than the line above.
    pub depth: usize,
    pub cells: Vec<Cell>,
}

/// A value and what it means to the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub tone: Tone,
}

/// What a value means; formats with colour show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Normal,
    Strong,
    Good,
    Doubtful,
    Bad,
    Faint,
}

impl Answer {
    pub fn new(data: Value, view: View) -> Self {
        Self {
            data,
            view,
            messages: Vec::new(),
            status: Status::Ok,
            exit: ExitCode::Ok,
        }
    }

    /// Says something; a warning makes the status `warn`.
    #[must_use]
    pub fn say(mut self, level: Level, text: impl Into<String>) -> Self {
        if level == Level::Warn && self.status == Status::Ok {
            self.status = Status::Warn;
        }
        self.messages.push(Message::new(level, text.into()));
        self
    }

    /// Ends with an exit code other than 0: the status is `error`.
    #[must_use]
    pub fn exit(mut self, exit: ExitCode) -> Self {
        if exit != ExitCode::Ok {
            self.status = Status::Error;
        }
        self.exit = exit;
        self
    }

    /// The same answer without secrets in anything people see.
    pub(super) fn redacted(&self, redactor: &Redactor) -> Self {
        let mut answer = self.clone();
        for message in &mut answer.messages {
            message.text = redactor.redact(&message.text);
        }
        for block in &mut answer.view.blocks {
            block.each_text(&|text| *text = redactor.redact(text));
        }
        answer
    }
}

impl Message {
    pub fn new(level: Level, text: String) -> Self {
        Self { level, text }
    }
}

impl View {
    /// Begins an empty view.
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn panel<K: Into<String>, C: Into<Cell>>(
        mut self,
        title: &str,
        rows: impl IntoIterator<Item = (K, C)>,
    ) -> Self {
        self.blocks.push(Block::Panel {
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
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        self.blocks.push(Block::Table {
            title: title.to_owned(),
            headers: headers.iter().map(|&header| header.to_owned()).collect(),
            rows: rows.into_iter().collect(),
        });
        self
    }

    #[must_use]
    pub fn tree(mut self, title: &str, lines: impl IntoIterator<Item = Twig>) -> Self {
        self.blocks.push(Block::Tree {
            title: title.to_owned(),
            lines: lines.into_iter().collect(),
        });
        self
    }

    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    #[must_use]
    pub fn patch(mut self, bytes: Vec<u8>) -> Self {
        self.blocks.push(Block::Patch(bytes));
        self
    }

    #[must_use]
    pub fn verbatim(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Verbatim(text.into()));
        self
    }
}

impl Block {
    fn each_text(&mut self, change: &dyn Fn(&mut String)) {
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
                let cells = lines.iter_mut().flat_map(|twig| &mut twig.cells);
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

impl Cell {
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Normal)
    }
}
