//! Blocking work that honours the stop signal of the plan's owner.

use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::error::Result;
use cleveragents_ports::{StopReason, StopSignal};

/// Runs `work` on a thread that may block. Its [`StopSignal`] is set when the owner must stop.
/// Returns only when the work has ended.
pub(super) async fn run_until_stopped<T: Send + 'static>(
    stop_receiver: &watch::Receiver<Option<StopReason>>,
    work: impl FnOnce(&StopSignal) -> T + Send + 'static,
) -> Result<T> {
    let stop = StopSignal::new();
    let given = stop.clone();
    let mut working = spawn_blocking(move || work(&given));
    let mut stop_receiver = stop_receiver.clone();
    tokio::select! {
        done = &mut working => return Ok(done?),
        why = stop_receiver.wait_for(Option::is_some) => {
            let why = why.ok().and_then(|why| *why);
            stop.stop(why.unwrap_or(StopReason::Cancelled));
        }
    }
    Ok(working.await?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_signal_of_the_owner_reaches_the_thread() {
        let (give, stop_receiver) = watch::channel(None);
        let work = run_until_stopped(&stop_receiver, |stop| stop.wait(Duration::MAX));
        give.send(Some(StopReason::OutOfTime)).unwrap();
        assert_eq!(work.await.unwrap(), Some(StopReason::OutOfTime));
    }

    #[tokio::test]
    async fn work_that_is_done_ends_without_a_signal() {
        let (_give, stop_receiver) = watch::channel(None);
        assert_eq!(run_until_stopped(&stop_receiver, |_| 7).await.unwrap(), 7);
    }
}
