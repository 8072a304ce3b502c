//! Work that blocks a thread and hears the stop signal of the plan's owner.

use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::error::Result;
use crate::ports::{Stop, Stopped};

/// Runs `work` on a thread that may block. Its [`Stop`] is given when the owner has to stop; the
/// call returns when the work has ended.
pub(super) async fn until_stopped<T: Send + 'static>(
    asked: &watch::Receiver<Option<Stopped>>,
    work: impl FnOnce(&Stop) -> T + Send + 'static,
) -> Result<T> {
    let stop = Stop::new();
    let given = stop.clone();
    let mut working = spawn_blocking(move || work(&given));
    let mut asked = asked.clone();
    tokio::select! {
        done = &mut working => return Ok(done?),
        why = asked.wait_for(Option::is_some) => {
            let why = why.ok().and_then(|why| *why);
            stop.stop(why.unwrap_or(Stopped::Cancelled));
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
        let (give, asked) = watch::channel(None);
        let work = until_stopped(&asked, |stop| stop.wait(Duration::MAX));
        give.send(Some(Stopped::OutOfTime)).unwrap();
        assert_eq!(work.await.unwrap(), Some(Stopped::OutOfTime));
    }

    #[tokio::test]
    async fn work_that_is_done_ends_without_a_signal() {
        let (_give, asked) = watch::channel(None);
        assert_eq!(until_stopped(&asked, |_| 7).await.unwrap(), 7);
    }
}
