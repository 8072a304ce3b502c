//! Passes input to a child process and collects its output in memory, without threads: three threads
//! per run would cost more than most runs of git.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::time::{Duration, Instant};

use cleveragents_ports::stop::StopSignal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::watch::STOP_INTERVAL;

#[derive(Debug)]
pub(crate) struct ChildOutput {
    pub(crate) status: ExitStatus,
    /// At most one byte longer than the limit, which shows that the limit was exceeded.
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// Fails if the child did not read all of its input.
    pub(crate) input_result: io::Result<()>,
}

/// Output limits in bytes, and the timeout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChildIoLimits {
    pub(crate) stdout: usize,
    pub(crate) stderr: usize,
    pub(crate) timeout: Duration,
}

/// Runs the child to its end. On a timeout or stop signal, kills it with its process group and
/// returns `None`.
pub(crate) fn communicate(
    mut child: Child,
    input: &[u8],
    limits: ChildIoLimits,
    stop: &StopSignal,
) -> io::Result<Option<ChildOutput>> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let until = WaitDeadline {
        time: Instant::now().checked_add(limits.timeout),
        stop,
    };
    let mut pipes = Pipes {
        stdin: child.stdin.take().map(|pipe| (pipe, input)),
        stdout: child.stdout.take(),
        stderr: child.stderr.take(),
        output: ChildOutput {
            status: ExitStatus::from_raw(0),
            stdout: Vec::new(),
            stderr: Vec::new(),
            input_result: Ok(()),
        },
        limits,
    };
    let ended = pipes.pump(&until).and_then(|pumped| match pumped {
        ChildWaitOutcome::InTime => wait_for(process, &until),
        late => Ok(late),
    });
    if !matches!(ended, Ok(ChildWaitOutcome::InTime))
        && let Some(process) = process
    {
        // Not reaped yet, so the process id cannot have been reused.
        let _ = kill_process_group(process, Signal::KILL);
    }
    // Closed before the wait, because a child that reads to the end of its input would never exit.
    drop(pipes.stdin.take());
    pipes.output.status = child.wait()?;
    Ok((ended? == ChildWaitOutcome::InTime).then_some(pipes.output))
}

/// When to stop waiting.
struct WaitDeadline<'a> {
    time: Option<Instant>,
    stop: &'a StopSignal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChildWaitOutcome {
    InTime,
    TimedOut,
}

struct Pipes<'a> {
    stdin: Option<(ChildStdin, &'a [u8])>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    output: ChildOutput,
    limits: ChildIoLimits,
}

impl Pipes<'_> {
    /// Transfers bytes until all pipes are closed.
    fn pump(&mut self, until: &WaitDeadline<'_>) -> io::Result<ChildWaitOutcome> {
        // One thread serves all pipes, so none of them may block it.
        for pipe in self.open_pipes() {
            ioctl_fionbio(pipe, true)?;
        }
        self.write();
        while self.stdout.is_some() || self.stderr.is_some() || self.stdin.is_some() {
            let mut polled: Vec<PollFd<'_>> = Vec::new();
            let polled_pipes = [
                (self.stdin.as_ref().map(|it| it.0.as_fd()), PollFlags::OUT),
                (self.stdout.as_ref().map(AsFd::as_fd), PollFlags::IN),
                (self.stderr.as_ref().map(AsFd::as_fd), PollFlags::IN),
            ];
            for (pipe, flags) in polled_pipes {
                polled.extend(pipe.map(|pipe| PollFd::from_borrowed_fd(pipe, flags)));
            }
            if wait(&mut polled, until)? == ChildWaitOutcome::TimedOut {
                return Ok(ChildWaitOutcome::TimedOut);
            }
            drop(polled);
            self.write();
            let (out, err) = (&mut self.output.stdout, &mut self.output.stderr);
            // Closing stdout stops a child that prints too much; excess stderr is read and discarded.
            if drain(&mut self.stdout, out, self.limits.stdout + 1)? == DrainOutcome::Full {
                self.stdout = None;
            }
            while drain(&mut self.stderr, err, self.limits.stderr)? == DrainOutcome::Full {
                let mut rest = Vec::new();
                drain(&mut self.stderr, &mut rest, 1 << 16)?;
                if rest.is_empty() {
                    break;
                }
            }
        }
        Ok(ChildWaitOutcome::InTime)
    }

    fn open_pipes(&self) -> Vec<BorrowedFd<'_>> {
        let stdin = self.stdin.as_ref().map(|it| it.0.as_fd());
        let stdout = self.stdout.as_ref().map(AsFd::as_fd);
        let stderr = self.stderr.as_ref().map(AsFd::as_fd);
        [stdin, stdout, stderr].into_iter().flatten().collect()
    }

    /// Writes as much as the pipe accepts and closes it after the last byte.
    fn write(&mut self) {
        while let Some((pipe, input)) = &mut self.stdin {
            if input.is_empty() {
                self.stdin = None;
                return;
            }
            match pipe.write(input) {
                Ok(written) => *input = &input[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.output.input_result = Err(error);
                    self.stdin = None;
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrainOutcome {
    /// Everything available was read.
    All,
    /// The limit was reached; there may be more.
    Full,
}

/// Reads what is available and closes the pipe at its end.
fn drain(
    pipe: &mut Option<impl Read>,
    kept: &mut Vec<u8>,
    limit: usize,
) -> io::Result<DrainOutcome> {
    let mut buffer = [0; 1 << 14];
    while let Some(open) = pipe {
        let room = limit.saturating_sub(kept.len()).min(buffer.len());
        if room == 0 {
            return Ok(DrainOutcome::Full);
        }
        match open.read(&mut buffer[..room]) {
            Ok(0) => *pipe = None,
            Ok(got) => kept.extend_from_slice(&buffer[..got]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(DrainOutcome::All)
}

/// Waits for a process that has closed its pipes.
#[cfg(target_os = "linux")]
fn wait_for(process: Option<Pid>, until: &WaitDeadline<'_>) -> io::Result<ChildWaitOutcome> {
    use rustix::process::{PidfdFlags, pidfd_open};

    let Some(Ok(process)) = process.map(|it| pidfd_open(it, PidfdFlags::empty())) else {
        return Ok(ChildWaitOutcome::InTime);
    };
    let mut polled = [PollFd::new(&process, PollFlags::IN)];
    wait(&mut polled, until)
}

/// Other systems have no wait with a timeout. The process has closed its pipes, so it is about to
/// end.
#[cfg(not(target_os = "linux"))]
fn wait_for(_process: Option<Pid>, _until: &WaitDeadline<'_>) -> io::Result<ChildWaitOutcome> {
    Ok(ChildWaitOutcome::InTime)
}

fn wait(polled: &mut [PollFd<'_>], until: &WaitDeadline<'_>) -> io::Result<ChildWaitOutcome> {
    loop {
        let remaining = until.time.map_or(STOP_INTERVAL, |time| {
            time.saturating_duration_since(Instant::now())
        });
        if remaining.is_zero() || until.stop.check().is_err() {
            return Ok(ChildWaitOutcome::TimedOut);
        }
        let interval = Timespec::try_from(remaining.min(STOP_INTERVAL)).ok();
        match poll(polled, interval.as_ref()) {
            Ok(0) => {}
            Ok(_) => return Ok(ChildWaitOutcome::InTime),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test's own child")]
    fn run_until(
        script: &str,
        input: &[u8],
        timeout: u64,
        stop: &StopSignal,
    ) -> Option<ChildOutput> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let limits = ChildIoLimits {
            stdout: 200_000,
            stderr: 10,
            timeout: Duration::from_millis(timeout),
        };
        communicate(command.spawn().unwrap(), input, limits, stop).unwrap()
    }

    fn run(script: &str, input: &[u8], timeout: u64) -> Option<ChildOutput> {
        run_until(script, input, timeout, &StopSignal::new())
    }

    #[test]
    fn input_and_output_may_exceed_a_pipe() {
        let input = vec![b'x'; 150_000];
        let answer = run("cat", &input, 60_000).unwrap();
        assert!(answer.stdout == input && answer.status.success());
        assert!(answer.input_result.is_ok() && answer.stderr.is_empty());
    }

    #[test]
    fn excess_output_is_cut() {
        let script = "head -c 300000 /dev/zero >&2; printf a; exit 3";
        let answer = run(script, b"", 60_000).unwrap();
        assert_eq!((answer.stderr.len(), answer.status.code()), (10, Some(3)));
        assert_eq!(answer.stdout, b"a");
        let answer = run("head -c 100000000 /dev/zero", b"", 60_000).unwrap();
        assert_eq!(answer.stdout.len(), 200_001);
    }

    #[test]
    fn unread_input_is_not_an_error() {
        let answer = run("exec <&-; echo no >&2; exit 1", &vec![0; 1 << 20], 60_000).unwrap();
        assert_eq!(
            answer.input_result.unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
        assert_eq!(answer.stderr, b"no\n");
    }

    #[test]
    fn a_process_past_its_timeout_is_killed() {
        for script in ["sleep 1000 & wait", "exec >&- 2>&-; sleep 1000"] {
            assert!(run(script, b"", 200).is_none(), "{script}");
        }
    }

    #[test]
    fn a_process_is_killed_on_the_stop_signal() {
        let stop = StopSignal::new();
        stop.stop(cleveragents_ports::stop::StopReason::Cancelled);
        assert!(run_until("sleep 1000 & wait", b"", 600_000, &stop).is_none());
    }
}
