//! Signals that are handled instead of ending the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives one kind of signal from its creation on.
#[derive(Debug)]
pub struct SignalListener(Option<Signal>);

impl SignalListener {
    /// Must be called within the runtime. If the handler cannot be installed, [`recv`](Self::recv)
    /// never returns.
    pub fn new(kind: SignalKind) -> Self {
        Self(signal(kind).ok())
    }

    /// Listens for Ctrl-C.
    pub fn for_interrupts() -> Self {
        Self::new(SignalKind::interrupt())
    }

    pub async fn recv(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}
