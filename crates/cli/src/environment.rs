//! The one place that reads the process: arguments, variables, directories, terminals and the
//! clock. Everything below gets an [`Environment`], a plain value that tests can make up.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cleveragents_domain::Timestamp;

/// How wide output is when nobody says.
const DEFAULT_WIDTH: u16 = 100;

/// What the program was started with.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The arguments, the program's own name first.
    pub arguments: Vec<OsString>,
    /// Our own program file, as far as the system says where it is.
    pub executable: Option<PathBuf>,
    /// The variables whose names are readable text; the values may be any bytes.
    pub variables: BTreeMap<String, OsString>,
    /// The working directory, unless it was deleted under our feet.
    pub working_directory: Option<PathBuf>,
    pub stdin: Terminal,
    pub stdout: Terminal,
    pub stderr: Terminal,
    /// The width of output in columns.
    pub width: u16,
    pub started: Timestamp,
    /// The same moment on the clock that never jumps.
    pub started_instant: Instant,
}

/// What a stream is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// A person who can see colours and boxes.
    Capable,
    /// A terminal that says it can do nothing but text (`TERM=dumb`).
    Dumb,
    /// A pipe or a file.
    None,
}

impl Environment {
    /// Reads the process once.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one home of the process environment and of the command's start time"
    )]
    pub fn from_process() -> Self {
        let started_instant = Instant::now();
        let started = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(Timestamp::default(), |span| {
                Timestamp::from_micros(0).after(span)
            });
        let variables: BTreeMap<String, OsString> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .collect();
        let dumb = variables.get("TERM").is_some_and(|term| term == "dumb");
        let stdin = Terminal::of(std::io::stdin().is_terminal(), dumb);
        let stdout = Terminal::of(std::io::stdout().is_terminal(), dumb);
        let stderr = Terminal::of(std::io::stderr().is_terminal(), dumb);
        let width = parse_columns(variables.get("COLUMNS")).or_else(terminal_width);
        Self {
            arguments: std::env::args_os().collect(),
            executable: std::env::current_exe().ok(),
            variables,
            working_directory: std::env::current_dir().ok(),
            stdin,
            stdout,
            stderr,
            width: width.unwrap_or(DEFAULT_WIDTH),
            started,
            started_instant,
        }
    }

    /// A variable that is set to something; an empty one counts as not set.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(name)
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// The user's home directory.
    pub fn home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from)
    }

    /// Whether the user asked for no colour (<https://no-color.org>).
    pub fn no_color(&self) -> bool {
        self.variable("NO_COLOR").is_some()
    }
}

impl Terminal {
    fn of(is_terminal: bool, dumb: bool) -> Self {
        match (is_terminal, dumb) {
            (true, false) => Self::Capable,
            (true, true) => Self::Dumb,
            (false, _) => Self::None,
        }
    }

    pub fn is_terminal(self) -> bool {
        self != Self::None
    }
}

/// `COLUMNS`, when someone set it to a number.
fn parse_columns(value: Option<&OsString>) -> Option<u16> {
    value?.to_str()?.parse().ok().filter(|columns| *columns > 0)
}

fn terminal_width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}
