//! Signals that are heard rather than ending the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears one kind of signal from when it is made on.
#[derive(Debug)]
pub struct Listener(Option<Signal>);

impl Listener {
    /// Made within the runtime. Where nothing can be heard, nothing ever is.
    pub fn of(kind: SignalKind) -> Self {
        Self(signal(kind).ok())
    }

    /// Ctrl-C.
    pub fn of_interrupts() -> Self {
        Self::of(SignalKind::interrupt())
    }

    /// Waits for the next one.
    pub async fn heard(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}
