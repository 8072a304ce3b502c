//! Selection of format, width and colour.

use crate::arguments::{Format, GlobalArguments};
use crate::environment::{Environment, Terminal};
use crate::local_time::LocalClock;

/// The minimum width. On a narrower terminal the output is too wide rather than unreadable.
const WIDTH_MINIMUM: u16 = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderOptions {
    pub format: Format,
    pub stdout: ColourMode,
    pub stderr: ColourMode,
    pub width: u16,
    /// Whether stdout is a pipe or file; verbatim text is then written byte for byte.
    pub piped: bool,
    pub verbosity: Verbosity,
    pub shape: EnvelopeShape,
    /// For the times that people see.
    pub clock: LocalClock,
}

/// Which messages are printed beside the answer. Errors always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// Only warnings.
    Quiet,
    Normal,
    /// Also the reasons of decisions.
    Verbose,
}

impl Verbosity {
    pub fn new(arguments: &GlobalArguments) -> Self {
        match (arguments.quiet, arguments.verbose) {
            (true, _) => Self::Quiet,
            (false, 0) => Self::Normal,
            (false, _) => Self::Verbose,
        }
    }
}

/// Position of the envelope in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeShape {
    /// The envelope is the whole output.
    Whole,
    /// The envelope is the last line, after one line for each event.
    LastLine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourMode {
    Yes,
    No,
}

impl RenderOptions {
    /// Uses the chosen format (flag, variable or setting), else the default for the terminal.
    pub fn new(chosen: Option<Format>, environment: &Environment, verbosity: Verbosity) -> Self {
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
            verbosity,
            shape: EnvelopeShape::Whole,
            clock: LocalClock::new(environment.time_zone(), environment.started),
        }
    }

    /// Adapts to a command that streams events as lines: the envelope becomes one more JSON line.
    #[must_use]
    pub fn with_event_lines(mut self) -> Self {
        self.format = Format::Json;
        self.shape = EnvelopeShape::LastLine;
        self
    }
}
