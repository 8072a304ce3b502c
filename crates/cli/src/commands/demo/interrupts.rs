//! Being asked to end: whoever interrupts the demo finds nothing left of it.

use tokio::signal::unix::SignalKind;

use crate::bootstrap::AppContext;
use crate::failure::{CommandFailure, ExitCode};
use crate::signals::SignalListener;

/// The signals that ask a program to end.
#[derive(Debug)]
pub(super) struct Interrupts {
    interrupt: SignalListener,
    terminate: SignalListener,
}

impl Interrupts {
    /// From now on they are heard, and do not end the process.
    pub(super) fn listen(app: &AppContext<'_>) -> Self {
        app.block_on(async {
            Self {
                interrupt: SignalListener::for_interrupts(),
                terminate: SignalListener::new(SignalKind::terminate()),
            }
        })
    }

    /// Waits for one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            () = self.interrupt.recv() => {}
            () = self.terminate.recv() => {}
        }
    }

    /// Fails if one came.
    pub(super) fn check(&mut self, app: &AppContext<'_>) -> Result<(), CommandFailure> {
        let came = app.block_on(async {
            tokio::select! {
                biased;
                () = self.next() => true,
                () = std::future::ready(()) => false,
            }
        });
        match came {
            true => Err(interrupted_failure()),
            false => Ok(()),
        }
    }
}

pub(super) fn interrupted_failure() -> CommandFailure {
    CommandFailure::new(ExitCode::Interrupted, "interrupted")
        .kind("interrupted")
        .hint("agents demo")
}
