//! Being asked to end: whoever interrupts the demo finds nothing left of it.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{ExitCode, Failure};
use crate::wiring::Wired;

/// The signals that ask a program to end.
#[derive(Debug)]
pub(super) struct Interrupts {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

impl Interrupts {
    /// From now on they are heard, and do not end the process.
    pub(super) fn listen(wired: &Wired<'_>) -> Self {
        let listen = |kind| wired.wait(async { signal(kind).ok() });
        Self {
            interrupt: listen(SignalKind::interrupt()),
            terminate: listen(SignalKind::terminate()),
        }
    }

    /// Waits for one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            () = heard(&mut self.interrupt) => {}
            () = heard(&mut self.terminate) => {}
        }
    }

    /// Fails if one came.
    pub(super) fn check(&mut self, wired: &Wired<'_>) -> Result<(), Failure> {
        let came = wired.wait(async {
            tokio::select! {
                biased;
                () = self.next() => true,
                () = std::future::ready(()) => false,
            }
        });
        match came {
            true => Err(interrupted()),
            false => Ok(()),
        }
    }
}

async fn heard(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

pub(super) fn interrupted() -> Failure {
    Failure::new(ExitCode::Interrupted, "interrupted")
        .kind("interrupted")
        .hint("agents demo")
}
