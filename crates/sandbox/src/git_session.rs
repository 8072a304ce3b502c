//! A long-running git that answers many requests: starting a new one for each costs many times what
//! the answer does.
//!
//! It only reads, and it ends with its owner because its input closes then.

use std::io::{self, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use cleveragents_ports::stop::StopSignal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

#[derive(Debug)]
pub(crate) struct GitSession {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<TimedStdout>,
}

/// Interval at which a waiting reader checks the stop signal.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Output that is read until the timeout or the stop signal.
#[derive(Debug)]
struct TimedStdout {
    stdout: ChildStdout,
    timeout: Duration,
    stop: StopSignal,
}

impl GitSession {
    pub(crate) fn new(
        child: Child,
        stdin: ChildStdin,
        stdout: ChildStdout,
        timeout: Duration,
    ) -> Self {
        let stdout = TimedStdout {
            stdout,
            timeout,
            stop: StopSignal::new(),
        };
        let stdout = BufReader::with_capacity(1 << 16, stdout);
        Self {
            child,
            stdin,
            stdout,
        }
    }

    /// Sends one request, which must be short, and reads its complete response. Fails soon after
    /// `stop` is signalled. After an error the session must not be used again.
    pub(crate) fn request<T>(
        &mut self,
        request: &[u8],
        stop: &StopSignal,
        read: impl FnOnce(&mut dyn io::BufRead) -> io::Result<T>,
    ) -> io::Result<T> {
        self.stdout.get_mut().stop = stop.clone();
        self.stdin.write_all(request)?;
        read(&mut self.stdout)
    }
}

impl Read for TimedStdout {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let started = Instant::now();
        loop {
            self.stop.check().map_err(io::Error::other)?;
            let remaining = self.timeout.saturating_sub(started.elapsed());
            if remaining.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let timeout = Timespec::try_from(remaining.min(STOP_POLL_INTERVAL)).ok();
            let mut polled = [PollFd::from_borrowed_fd(self.stdout.as_fd(), PollFlags::IN)];
            match poll(&mut polled, timeout.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return self.stdout.read(buffer),
            }
        }
    }
}

impl Drop for GitSession {
    fn drop(&mut self) {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            // Not reaped yet, so the process id cannot have been reused. It may have ended already.
            let _ = kill_process_group(process, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
