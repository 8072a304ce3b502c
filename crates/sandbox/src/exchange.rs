//! Gives a run its input and takes its output, both in memory, without a thread: three threads a run
//! cost more than most runs of git do.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::time::{Duration, Instant};

use cleveragents_engine::ports::stop::Stop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::watch::STOP_INTERVAL;

/// What came of it.
#[derive(Debug)]
pub(crate) struct Exchanged {
    pub(crate) status: ExitStatus,
    /// No longer than one more byte than was allowed.
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// Whether all of the input was taken.
    pub(crate) written: io::Result<()>,
}

/// How much is kept, and how long it may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) stdout: usize,
    pub(crate) stderr: usize,
    pub(crate) timeout: Duration,
}

/// Runs the child to its end; one that takes too long or has to stop is killed with all it started, and there is
/// nothing.
pub(crate) fn exchange(
    mut child: Child,
    input: &[u8],
    limits: Limits,
    stop: &Stop,
) -> io::Result<Option<Exchanged>> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let until = Until {
        time: Instant::now().checked_add(limits.timeout),
        stop,
    };
    let mut pipes = Pipes {
        stdin: child.stdin.take().map(|pipe| (pipe, input)),
        stdout: child.stdout.take(),
        stderr: child.stderr.take(),
        answer: Exchanged {
            status: ExitStatus::from_raw(0),
            stdout: Vec::new(),
            stderr: Vec::new(),
            written: Ok(()),
        },
        limits,
    };
    let ended = pipes.pump(&until).and_then(|pumped| match pumped {
        Waited::InTime => wait_for(process, &until),
        late => Ok(late),
    });
    if !matches!(ended, Ok(Waited::InTime))
        && let Some(process) = process
    {
        // Not reaped yet, so the id is still its own.
        let _ = kill_process_group(process, Signal::KILL);
    }
    drop(pipes.stdin.take());
    pipes.answer.status = child.wait()?;
    Ok((ended? == Waited::InTime).then_some(pipes.answer))
}

/// How long something is waited for.
struct Until<'a> {
    time: Option<Instant>,
    stop: &'a Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    InTime,
    TooLong,
}

struct Pipes<'a> {
    stdin: Option<(ChildStdin, &'a [u8])>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    answer: Exchanged,
    limits: Limits,
}

impl Pipes<'_> {
    /// Moves bytes until all pipes are closed.
    fn pump(&mut self, until: &Until<'_>) -> io::Result<Waited> {
        for pipe in self.open() {
            ioctl_fionbio(pipe, true)?;
        }
        self.write();
        while self.stdout.is_some() || self.stderr.is_some() || self.stdin.is_some() {
            let mut polled: Vec<PollFd<'_>> = Vec::new();
            let wanted = [
                (self.stdin.as_ref().map(|it| it.0.as_fd()), PollFlags::OUT),
                (self.stdout.as_ref().map(AsFd::as_fd), PollFlags::IN),
                (self.stderr.as_ref().map(AsFd::as_fd), PollFlags::IN),
            ];
            for (pipe, flags) in wanted {
                polled.extend(pipe.map(|pipe| PollFd::from_borrowed_fd(pipe, flags)));
            }
            if wait(&mut polled, until)? == Waited::TooLong {
                return Ok(Waited::TooLong);
            }
            drop(polled);
            self.write();
            let (out, err) = (&mut self.answer.stdout, &mut self.answer.stderr);
            // A pipe nobody reads stops a run that says too much; complaints are read and dropped.
            if drain(&mut self.stdout, out, self.limits.stdout + 1)? == Kept::Full {
                self.stdout = None;
            }
            while drain(&mut self.stderr, err, self.limits.stderr)? == Kept::Full {
                let mut rest = Vec::new();
                drain(&mut self.stderr, &mut rest, 1 << 16)?;
                if rest.is_empty() {
                    break;
                }
            }
        }
        Ok(Waited::InTime)
    }

    fn open(&self) -> Vec<BorrowedFd<'_>> {
        let stdin = self.stdin.as_ref().map(|it| it.0.as_fd());
        let stdout = self.stdout.as_ref().map(AsFd::as_fd);
        let stderr = self.stderr.as_ref().map(AsFd::as_fd);
        [stdin, stdout, stderr].into_iter().flatten().collect()
    }

    /// Writes what the pipe takes; closes it after the last byte.
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
                    self.answer.written = Err(error);
                    self.stdin = None;
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// All there was so far.
    All,
    /// As much as is allowed; there may be more.
    Full,
}

/// Reads what is there; closes the pipe at its end.
fn drain(pipe: &mut Option<impl Read>, kept: &mut Vec<u8>, most: usize) -> io::Result<Kept> {
    let mut buffer = [0; 1 << 14];
    while let Some(open) = pipe {
        let room = most.saturating_sub(kept.len()).min(buffer.len());
        if room == 0 {
            return Ok(Kept::Full);
        }
        match open.read(&mut buffer[..room]) {
            Ok(0) => *pipe = None,
            Ok(got) => kept.extend_from_slice(&buffer[..got]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Kept::All)
}

/// Waits for the end of a process that has closed its pipes.
#[cfg(target_os = "linux")]
fn wait_for(process: Option<Pid>, until: &Until<'_>) -> io::Result<Waited> {
    use rustix::process::{PidfdFlags, pidfd_open};

    let Some(Ok(process)) = process.map(|it| pidfd_open(it, PidfdFlags::empty())) else {
        return Ok(Waited::InTime);
    };
    let mut polled = [PollFd::new(&process, PollFlags::IN)];
    wait(&mut polled, until)
}

/// Other systems cannot wait for a process so long and no longer; with its pipes closed it is about
/// to end.
#[cfg(not(target_os = "linux"))]
fn wait_for(_process: Option<Pid>, _until: &Until<'_>) -> io::Result<Waited> {
    Ok(Waited::InTime)
}

fn wait(polled: &mut [PollFd<'_>], until: &Until<'_>) -> io::Result<Waited> {
    loop {
        let left = until.time.map_or(STOP_INTERVAL, |time| {
            time.saturating_duration_since(Instant::now())
        });
        if left.is_zero() || until.stop.check().is_err() {
            return Ok(Waited::TooLong);
        }
        let interval = Timespec::try_from(left.min(STOP_INTERVAL)).ok();
        match poll(polled, interval.as_ref()) {
            Ok(0) => {}
            Ok(_) => return Ok(Waited::InTime),
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
    fn run_until(script: &str, input: &[u8], timeout: u64, stop: &Stop) -> Option<Exchanged> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let limits = Limits {
            stdout: 200_000,
            stderr: 10,
            timeout: Duration::from_millis(timeout),
        };
        exchange(command.spawn().unwrap(), input, limits, stop).unwrap()
    }

    fn run(script: &str, input: &[u8], timeout: u64) -> Option<Exchanged> {
        run_until(script, input, timeout, &Stop::new())
    }

    #[test]
    fn more_than_a_pipe_holds_goes_both_ways() {
        let input = vec![b'x'; 150_000];
        let answer = run("cat", &input, 60_000).unwrap();
        assert!(answer.stdout == input && answer.status.success());
        assert!(answer.written.is_ok() && answer.stderr.is_empty());
    }

    #[test]
    fn what_is_too_much_is_cut_and_never_waited_for() {
        let script = "head -c 300000 /dev/zero >&2; printf a; exit 3";
        let answer = run(script, b"", 60_000).unwrap();
        assert_eq!((answer.stderr.len(), answer.status.code()), (10, Some(3)));
        assert_eq!(answer.stdout, b"a");
        let answer = run("head -c 100000000 /dev/zero", b"", 60_000).unwrap();
        assert_eq!(answer.stdout.len(), 200_001);
    }

    #[test]
    fn input_nobody_wants_is_no_obstacle() {
        let answer = run("exec <&-; echo no >&2; exit 1", &vec![0; 1 << 20], 60_000).unwrap();
        assert_eq!(
            answer.written.unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
        assert_eq!(answer.stderr, b"no\n");
    }

    #[test]
    fn whoever_takes_too_long_is_killed() {
        for script in ["sleep 1000 & wait", "exec >&- 2>&-; sleep 1000"] {
            assert!(run(script, b"", 200).is_none(), "{script}");
        }
    }

    #[test]
    fn whoever_has_to_stop_is_killed() {
        let stop = Stop::new();
        stop.stop(cleveragents_engine::ports::stop::Stopped::Cancelled);
        assert!(run_until("sleep 1000 & wait", b"", 600_000, &stop).is_none());
    }
}
