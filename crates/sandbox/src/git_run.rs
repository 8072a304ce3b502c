//! One run of git, from its start to its output.

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_ports::stop::StopSignal;

use crate::child_io::{ChildIoLimits, communicate};
use crate::git_session::GitSession;
use crate::watch::Watch;

/// Maximum size in bytes of output kept in memory.
const MAX_OUTPUT: usize = 512 << 20;

/// Maximum size in bytes of git's error output that is kept.
const MAX_STDERR: usize = 8 << 10;

/// A git that was started.
#[derive(Debug)]
pub(crate) struct GitRun {
    child: Child,
    /// For error messages.
    command: String,
    timeout: Duration,
    stop: StopSignal,
}

/// The result of a run, successful or not.
#[derive(Debug)]
pub(crate) struct GitOutput {
    command: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl GitRun {
    /// `command` is the call for error messages. `stop` kills the run.
    pub(crate) fn new(child: Child, command: String, timeout: Duration, stop: StopSignal) -> Self {
        Self {
            child,
            command,
            timeout,
            stop,
        }
    }

    /// Writes git's input, reads its output and waits for its end. Accepts any exit status. Fails if
    /// git was killed.
    pub(crate) fn output(self, input: &[u8]) -> SandboxResult<GitOutput> {
        let Self {
            child,
            command,
            timeout,
            stop,
        } = self;
        let limits = ChildIoLimits {
            stdout: MAX_OUTPUT,
            stderr: MAX_STDERR,
            timeout,
        };
        let exchanged = communicate(child, input, limits, &stop);
        let Some(ended) = exchanged.map_err(|error| git_io_error(&command, error))? else {
            return Err(kill_error(command, timeout, &stop));
        };
        if ended.stdout.len() > MAX_OUTPUT {
            let limit = MAX_OUTPUT;
            return Err(SandboxError::TooMuchOutput { command, limit });
        }
        check_input_written(&command, ended.input_result, ended.status)?;
        let stderr = String::from_utf8_lossy(&ended.stderr);
        if ended.status.code().is_none() {
            return Err(exit_error(&command, ended.status, stderr.trim_end()));
        }
        Ok(GitOutput {
            command,
            status: ended.status,
            stdout: ended.stdout,
            stderr: stderr.trim_end().to_owned(),
        })
    }

    /// Writes git's input in a thread while this thread reads its output. Returns the result of
    /// `read`. Fails unless git succeeds.
    pub(crate) fn stream<T>(
        self,
        write: impl FnOnce(&mut ChildStdin) -> io::Result<()> + Send,
        read: impl FnOnce(&mut ChildStdout) -> io::Result<T>,
    ) -> SandboxResult<T> {
        let Self {
            mut child,
            command,
            timeout,
            stop,
        } = self;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(mut stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(git_io_error(&command, "its pipes are missing"));
        };
        let watch = Watch::new(&child);
        let (value, written, complaint, status) = thread::scope(|scope| {
            let (done, waiting) = mpsc::channel::<()>();
            let (watch, stop) = (&watch, &stop);
            scope.spawn(move || watch.kill_after(timeout, stop, &waiting));
            let writer = scope.spawn(move || write(&mut stdin));
            let complaints = scope.spawn(move || read_stderr(stderr));
            let value = read(&mut stdout);
            // Closed before the wait, because a git that still writes would never exit.
            drop(stdout);
            let status = watch.reap(&mut child);
            drop(done);
            let written = writer.join().unwrap_or(Ok(()));
            let complaint = complaints.join().unwrap_or_default();
            (value, written, complaint, status)
        });
        if watch.has_killed() {
            return Err(kill_error(command, timeout, &stop));
        }
        let status = status.map_err(|error| git_io_error(&command, error))?;
        check_input_written(&command, written, status)?;
        if !status.success() {
            return Err(exit_error(&command, status, &complaint));
        }
        value.map_err(|error| git_io_error(&command, error))
    }

    /// Keeps git running to answer several requests.
    pub(crate) fn into_session(mut self) -> SandboxResult<GitSession> {
        let (stdin, stdout) = (self.child.stdin.take(), self.child.stdout.take());
        // Not read: if the session fails, the run that replaces it reports the same error.
        drop(self.child.stderr.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(git_io_error(&self.command, "its pipes are missing"));
        };
        Ok(GitSession::new(self.child, stdin, stdout, self.timeout))
    }
}

impl GitOutput {
    /// Returns the output of git. Fails unless git succeeded.
    pub(crate) fn into_stdout(self) -> SandboxResult<Vec<u8>> {
        if self.status.success() {
            Ok(self.stdout)
        } else {
            Err(exit_error(&self.command, self.status, &self.stderr))
        }
    }

    /// Returns the output as one line of text, or `None` if git says no by exit code 1.
    pub(crate) fn optional_line(self) -> SandboxResult<Option<String>> {
        match self.status.code() {
            Some(0) => {
                let line = String::from_utf8_lossy(&self.stdout);
                Ok(Some(line.trim_end().to_owned()))
            }
            Some(1) => Ok(None),
            _ => Err(exit_error(&self.command, self.status, &self.stderr)),
        }
    }
}

fn kill_error(command: String, timeout: Duration, stop: &StopSignal) -> SandboxError {
    match stop.check() {
        Err(why) => SandboxError::Stopped(why),
        Ok(()) => SandboxError::TimedOut {
            command,
            seconds: timeout.as_secs(),
        },
    }
}

fn read_stderr(mut stderr: impl Read) -> String {
    let mut kept = Vec::new();
    // Output above the limit must be read too, or git would block on the full pipe.
    let _ = (&mut stderr).take(MAX_STDERR as u64).read_to_end(&mut kept);
    let _ = io::copy(&mut stderr, &mut io::sink());
    String::from_utf8_lossy(&kept).trim_end().to_owned()
}

/// A git that ends early closes its input. Its own error message says more than a broken pipe.
fn check_input_written(
    command: &str,
    written: io::Result<()>,
    status: ExitStatus,
) -> SandboxResult<()> {
    match written {
        Err(error) if status.success() || error.kind() != io::ErrorKind::BrokenPipe => {
            Err(git_io_error(command, error))
        }
        _ => Ok(()),
    }
}

fn exit_error(command: &str, status: ExitStatus, stderr: &str) -> SandboxError {
    let status = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit status".to_owned(),
    };
    SandboxError::Git {
        command: command.to_owned(),
        status,
        stderr: stderr.to_owned(),
    }
}

fn git_io_error(command: &str, error: impl ToString) -> SandboxError {
    SandboxError::Git {
        command: command.to_owned(),
        status: "no answer".to_owned(),
        stderr: error.to_string(),
    }
}
