//! The only module that reads the process: arguments, variables, directories, terminals and clock.
//! The rest of the crate gets an [`Environment`], a plain value that tests can construct.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cleveragents_domain::Timestamp;
use jiff::tz::TimeZone;

/// Output width when it is unknown.
const DEFAULT_WIDTH: u16 = 100;
/// Rows of a terminal of unknown size.
const DEFAULT_HEIGHT: u16 = 40;
/// The system's time zones.
const ZONES: &str = "/usr/share/zoneinfo";

/// The environment that the program was started in.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The arguments, including the program name.
    pub arguments: Vec<OsString>,
    /// The path of our executable, if the system reports it.
    pub executable: Option<PathBuf>,
    /// The variables whose names are valid UTF-8; values may be any bytes.
    pub variables: BTreeMap<String, OsString>,
    /// `None` if the working directory was deleted.
    pub working_directory: Option<PathBuf>,
    pub stdin: Terminal,
    pub stdout: Terminal,
    pub stderr: Terminal,
    /// In columns.
    pub width: u16,
    pub started: Timestamp,
    /// `started` on the monotonic clock, for durations.
    pub started_instant: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// A terminal with colours and box characters.
    Capable,
    /// A terminal that supports only text (`TERM=dumb`).
    Dumb,
    /// A pipe or a file.
    None,
}

impl Environment {
    /// Reads the process state once.
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

    /// Returns a variable; an empty one counts as unset.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(name)
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    pub fn home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from)
    }

    /// Returns the rows of the terminal.
    pub fn height(&self) -> u16 {
        let size = rustix::termios::tcgetwinsize(std::io::stdout());
        let rows = size.map(|size| size.ws_row).unwrap_or_default();
        if rows > 0 { rows } else { DEFAULT_HEIGHT }
    }

    /// Returns the user's time zone, by `TZ` as libc reads it, else by `/etc/localtime`; UTC if there
    /// is none.
    pub fn time_zone(&self) -> TimeZone {
        let name = self.variable("TZ").and_then(OsStr::to_str);
        let named = name.and_then(|name| {
            let name = name.strip_prefix(':').unwrap_or(name);
            let file = Path::new(ZONES).join(name);
            read_zone(name, &file).or_else(|| TimeZone::posix(name).ok())
        });
        match name {
            Some(_) => named,
            None => read_zone("Local", Path::new("/etc/localtime")),
        }
        .unwrap_or(TimeZone::UTC)
    }

    /// Returns whether the user disabled colour (<https://no-color.org>).
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

fn read_zone(name: &str, file: &Path) -> Option<TimeZone> {
    TimeZone::tzif(name, &std::fs::read(file).ok()?).ok()
}

/// Parses `COLUMNS` as a positive number.
fn parse_columns(value: Option<&OsString>) -> Option<u16> {
    value?.to_str()?.parse().ok().filter(|columns| *columns > 0)
}

fn terminal_width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}
