//! The only module that runs other programs for the command line itself. They are searched on
//! `PATH`, started without a shell in a clean environment, and killed after a timeout.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::environment::Environment;

const TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Output beyond this many bytes is not read.
const OUTPUT_MAXIMUM: u64 = 64 * 1024;
/// The variables that a program inherits.
const INHERITED_VARIABLES: [&str; 4] = ["PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR"];

/// The pager if `PAGER` names none.
const PAGER: &str = "less -R";
/// The variables that a pager inherits.
const PAGER_VARIABLES: [&str; 8] = [
    "PATH", "HOME", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "COLUMNS", "LINES",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramOutput {
    pub succeeded: bool,
    /// Its stdout, without the final line break.
    pub output: String,
    pub last_error_line: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("it cannot be started")]
    NotStarted(#[source] std::io::Error),
    #[error("it did not end within {} seconds", TIMEOUT.as_secs())]
    TimedOut,
}

/// Finds a program on `PATH`. Relative folders are skipped: a program in the working directory may
/// come from an untrusted repository.
pub fn find(name: &str, environment: &Environment) -> Option<PathBuf> {
    let path = environment.variable("PATH")?;
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|program| is_executable(program))
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// Runs a program and waits until it exits.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is where processes are started and reaped"
)]
pub fn run_program(
    program: &Path,
    arguments: &[&str],
    environment: &Environment,
) -> Result<ProgramOutput, ProgramError> {
    let variables = INHERITED_VARIABLES
        .iter()
        .filter_map(|name| Some((*name, environment.variable(name)?)));
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(variables)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(folder) = &environment.working_directory {
        command.current_dir(folder);
    }
    let mut child = command.spawn().map_err(ProgramError::NotStarted)?;
    let output = read_stream(child.stdout.take());
    let complaint = read_stream(child.stderr.take());
    let succeeded = wait(&mut child)?;
    // A background child may keep the streams open, so wait for their end only for a limited time.
    let text = |heard: Receiver<String>| heard.recv_timeout(TIMEOUT).unwrap_or_default();
    let complaint = text(complaint);
    Ok(ProgramOutput {
        succeeded,
        output: text(output).trim_end().to_owned(),
        last_error_line: complaint.lines().last().unwrap_or_default().to_owned(),
    })
}

/// Shows a text with the user's pager, on the terminal of this process. Returns whether that worked.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is where processes are started and reaped"
)]
pub fn show_in_pager(text: &str, environment: &Environment) -> bool {
    let chosen = environment.variable("PAGER").and_then(OsStr::to_str);
    let mut words = chosen.unwrap_or(PAGER).split_whitespace();
    let Some(program) = words.next().and_then(|name| find_pager(name, environment)) else {
        return false;
    };
    let variables = PAGER_VARIABLES
        .iter()
        .filter_map(|name| Some((*name, environment.variable(name)?)));
    let mut command = Command::new(program);
    command
        .args(words)
        .env_clear()
        .envs(variables)
        // The text was written by a model: the pager must not run what is in it.
        .env("LESSSECURE", "1")
        .stdin(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        return false;
    };
    if let Some(mut input) = child.stdin.take() {
        // The user may leave the pager before its end.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().is_ok_and(|status| status.success())
}

/// Finds a pager on `PATH`, or by its absolute path.
fn find_pager(name: &str, environment: &Environment) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.is_absolute() {
        return is_executable(path).then(|| path.to_owned());
    }
    (!name.contains('/'))
        .then(|| find(name, environment))
        .flatten()
}

fn read_stream(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (heard, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            // A read error ends the output; what was read so far counts.
            let _ = stream.take(OUTPUT_MAXIMUM).read_to_end(&mut bytes);
        }
        // The receiver may have timed out and be gone.
        let _ = heard.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// Waits and returns whether the program succeeded; kills it after the timeout.
fn wait(child: &mut Child) -> Result<bool, ProgramError> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if started.elapsed() < TIMEOUT => thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(ProgramError::TimedOut);
            }
            Err(error) => return Err(ProgramError::NotStarted(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_in_a_clean_environment() {
        let mut environment = Environment::from_process();
        let variables = [("PATH", "relative:/nowhere:/usr/bin:/bin"), ("SECRET", "x")];
        environment.variables = variables
            .map(|(name, value)| (name.to_owned(), value.into()))
            .into();
        let shell = find("sh", &environment).unwrap();
        assert!(shell.is_absolute());
        assert_eq!(find("no-such-program", &environment), None);
        let script = "echo \"<$SECRET>\"; echo one >&2; echo two >&2; exit 3";
        let said = run_program(&shell, &["-c", script], &environment).unwrap();
        let expected = ProgramOutput {
            succeeded: false,
            output: "<>".to_owned(),
            last_error_line: "two".to_owned(),
        };
        assert_eq!(said, expected);
        let missing = run_program(Path::new("/no/program"), &[], &environment);
        assert!(matches!(missing, Err(ProgramError::NotStarted(_))));
    }
}
