//! Kills a run of git, whose output is streamed, on timeout or stop signal.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_ports::stop::StopSignal;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Interval at which other waits check the stop signal.
pub(crate) const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Kills a run on timeout or stop signal, but only while its process id cannot have been reused.
#[derive(Debug)]
pub(crate) struct Watch {
    process: Option<Pid>,
    state: Mutex<WatchState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchState {
    Running,
    Ended,
    Killed,
}

impl Watch {
    pub(crate) fn new(child: &Child) -> Self {
        Self {
            process: i32::try_from(child.id()).ok().and_then(Pid::from_raw),
            state: Mutex::new(WatchState::Running),
        }
    }

    pub(crate) fn kill_after(
        &self,
        timeout: Duration,
        stop: &StopSignal,
        done: &mpsc::Receiver<()>,
    ) {
        let begun = Instant::now();
        loop {
            let left = timeout.saturating_sub(begun.elapsed());
            let interval = left.min(STOP_INTERVAL);
            if done.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            if left.is_zero() || stop.check().is_err() {
                break;
            }
        }
        // Kills under the mutex: `reap` takes it before it frees the process id.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == WatchState::Running {
            *state = WatchState::Killed;
            if let Some(process) = self.process {
                // The process group may already have ended.
                let _ = kill_process_group(process, Signal::KILL);
            }
        }
    }

    /// Waits for the end without reaping, forbids killing, and only then reaps, which frees the id.
    pub(crate) fn reap(&self, child: &mut Child) -> io::Result<ExitStatus> {
        if let Some(process) = self.process {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(process), options) {}
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == WatchState::Running {
            *state = WatchState::Ended;
        }
        child.wait()
    }

    pub(crate) fn has_killed(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state == WatchState::Killed
    }
}
