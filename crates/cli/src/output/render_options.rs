//! Which format, which width, and whether with colour.

use crate::arguments::Format;
use crate::environment::{Environment, Terminal};

/// Narrower is not readable; output is then wider than the terminal rather than broken.
const WIDTH_MINIMUM: u16 = 20;

/// How this run writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderOptions {
    pub format: Format,
    pub stdout: ColourMode,
    pub stderr: ColourMode,
    pub width: u16,
    /// Whether stdout is a pipe or file, where verbatim text is written byte for byte.
    pub piped: bool,
    /// Say nothing but the answer and errors.
    pub quiet: bool,
    pub shape: EnvelopeShape,
}

/// How an envelope stands in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeShape {
    /// It is the output.
    Whole,
    /// It is the last line, below one line for each event.
    LastLine,
}

/// Whether a stream shows colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourMode {
    Yes,
    No,
}

impl RenderOptions {
    /// Takes the format someone chose (flag, variable or setting), else the terminal's.
    pub fn new(chosen: Option<Format>, environment: &Environment, quiet: bool) -> Self {
        let terminal = environment.stdout;
        let format = match (chosen, terminal) {
            (None, Terminal::None) => Format::Plain,
            (None | Some(Format::Rich | Format::Color), Terminal::Dumb) => Format::Plain,
            (None, Terminal::Capable) => Format::Rich,
            (Some(format), _) => format,
        };
        let colour = |terminal: Terminal| {
            let coloured = terminal == Terminal::Capable && !environment.no_color();
            match (coloured, format) {
                (true, Format::Rich | Format::Color) => ColourMode::Yes,
                _ => ColourMode::No,
            }
        };
        Self {
            format,
            stdout: colour(terminal),
            stderr: colour(environment.stderr),
            width: environment.width.max(WIDTH_MINIMUM),
            piped: !terminal.is_terminal(),
            quiet,
            shape: EnvelopeShape::Whole,
        }
    }

    /// For a command that writes events as lines: the envelope is JSON and one more line.
    #[must_use]
    pub fn with_event_lines(mut self) -> Self {
        self.format = Format::Json;
        self.shape = EnvelopeShape::LastLine;
        self
    }
}
