//! The watch over a run of git whose output is read as it comes.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_engine::ports::stop::StopSignal;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How often the stop signal is looked for while something else is waited for.
pub(crate) const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Kills a run that takes too long or has to stop, and only while its process id is still its own.
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
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == WatchState::Running {
            *state = WatchState::Killed;
            if let Some(process) = self.process {
                // A group that is already gone is what was wanted.
                let _ = kill_process_group(process, Signal::KILL);
            }
        }
    }

    /// Waits for the end without letting the id go, forbids killing it, and only then reaps it.
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
