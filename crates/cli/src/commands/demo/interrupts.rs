//! Being asked to end: whoever interrupts the demo finds nothing left of it.

use tokio::signal::unix::SignalKind;

use crate::failure::{ExitCode, Failure};
use crate::signals::Listener;
use crate::wiring::Wired;

/// The signals that ask a program to end.
#[derive(Debug)]
pub(super) struct Interrupts {
    interrupt: Listener,
    terminate: Listener,
}

impl Interrupts {
    /// From now on they are heard, and do not end the process.
    pub(super) fn listen(wired: &Wired<'_>) -> Self {
        wired.wait(async {
            Self {
                interrupt: Listener::of_interrupts(),
                terminate: Listener::of(SignalKind::terminate()),
            }
        })
    }

    /// Waits for one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            () = self.interrupt.heard() => {}
            () = self.terminate.heard() => {}
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

pub(super) fn interrupted() -> Failure {
    Failure::new(ExitCode::Interrupted, "interrupted")
        .kind("interrupted")
        .hint("agents demo")
}
