//! Signal handling of the demo: an interrupted demo removes everything it created.

use tokio::signal::unix::SignalKind;

use crate::bootstrap::AppContext;
use crate::failure::{CommandFailure, ExitCode, FailureKind};
use crate::signals::SignalListener;

/// The signals that ask a program to exit.
#[derive(Debug)]
pub(super) struct Interrupts {
    interrupt: SignalListener,
    terminate: SignalListener,
}

impl Interrupts {
    /// Starts handling the signals; they no longer end the process.
    pub(super) fn listen(app: &AppContext<'_>) -> Self {
        app.block_on(async {
            Self {
                interrupt: SignalListener::for_interrupts(),
                terminate: SignalListener::new(SignalKind::terminate()),
            }
        })
    }

    /// Waits for a signal.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            () = self.interrupt.recv() => {}
            () = self.terminate.recv() => {}
        }
    }

    /// Fails if a signal was received.
    pub(super) fn check(&mut self, app: &AppContext<'_>) -> Result<(), CommandFailure> {
        let came = app.block_on(async {
            tokio::select! {
                biased;
                () = self.next() => true,
                () = std::future::ready(()) => false,
            }
        });
        if came {
            Err(interrupted_failure())
        } else {
            Ok(())
        }
    }
}

pub(super) fn interrupted_failure() -> CommandFailure {
    CommandFailure::new(ExitCode::Interrupted, "interrupted")
        .kind(FailureKind::Interrupted)
        .hint("agents demo")
}
