//! Passes the progress of running plans to the front ends that watch them.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::progress::Progress;
use cleveragents_ports::progress::ProgressSink;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{self, Receiver, Sender};

/// Number of items that a slow watcher may be behind before it loses the oldest.
const CAPACITY: usize = 256;

/// The progress of all plans that run in this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ProgressHub {
    sender: Sender<(PlanId, Progress)>,
}

/// The progress of one plan.
#[derive(Debug)]
pub(crate) struct ProgressReceiver {
    plan: PlanId,
    receiver: Receiver<(PlanId, Progress)>,
}

impl Default for ProgressHub {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(CAPACITY),
        }
    }
}

impl ProgressHub {
    pub(crate) fn subscribe(&self, plan: PlanId) -> ProgressReceiver {
        ProgressReceiver {
            plan,
            receiver: self.sender.subscribe(),
        }
    }
}

impl ProgressSink for ProgressHub {
    fn report(&self, plan: PlanId, progress: Progress) {
        // An error means that nothing watches.
        let _ = self.sender.send((plan, progress));
    }
}

impl ProgressReceiver {
    /// Returns the next item of the plan and skips lost ones. Never returns after the last sender is
    /// gone. Cancellation-safe.
    pub(crate) async fn next(&mut self) -> Progress {
        loop {
            match self.receiver.recv().await {
                Ok((plan, progress)) if plan == self.plan => return progress,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Returns the next item of the plan if it is there now.
    pub(crate) fn available(&mut self) -> Option<Progress> {
        loop {
            match self.receiver.try_recv() {
                Ok((plan, progress)) if plan == self.plan => return Some(progress),
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Progress {
        Progress::ModelText {
            model_call: 1,
            text: text.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_watcher_gets_the_progress_of_its_plan_only() {
        let (mine, other): (PlanId, PlanId) = (
            "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
            "01JZZZZZZZ0000000000ABCDEG".parse().unwrap(),
        );
        let hub = ProgressHub::default();
        hub.report(mine, text("before"));
        let mut receiver = hub.subscribe(mine);
        hub.report(other, text("other"));
        hub.report(mine, text("mine"));
        assert_eq!(receiver.next().await, text("mine"));
    }

    #[tokio::test]
    async fn a_slow_watcher_loses_the_oldest_items_and_blocks_nothing() {
        let plan: PlanId = "01JZZZZZZZ0000000000ABCDEF".parse().unwrap();
        let hub = ProgressHub::default();
        let mut receiver = hub.subscribe(plan);
        for number in 0..=CAPACITY {
            hub.report(plan, text(&number.to_string()));
        }
        assert_eq!(receiver.next().await, text("1"));
    }
}
