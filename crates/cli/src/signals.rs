//! Signals that are heard rather than ending the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears one kind of signal from when it is made on.
#[derive(Debug)]
pub struct SignalListener(Option<Signal>);

impl SignalListener {
    /// Made within the runtime. Where nothing can be heard, nothing ever is.
    pub fn new(kind: SignalKind) -> Self {
        Self(signal(kind).ok())
    }

    /// Ctrl-C.
    pub fn for_interrupts() -> Self {
        Self::new(SignalKind::interrupt())
    }

    /// Waits for the next one.
    pub async fn recv(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}
