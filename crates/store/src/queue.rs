//! How work reaches the store's own threads: callers send tasks and await answers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use cleveragents_engine::ports::store::{StoreFuture, StoreJobError};
use cleveragents_engine::ports::{Result, StoreError};
use tokio::sync::oneshot;

use crate::session::StoreSession;

/// Anything a task may return.
pub(crate) type TaskOutput = Box<dyn Any + Send>;
/// Work inside one transaction; may run more than once.
pub(crate) type TaskFn =
    Box<dyn Fn(&mut StoreSession<'_>) -> Result<TaskOutput, StoreJobError> + Send>;
pub(crate) type TaskResult = Result<TaskOutput, StoreJobError>;

/// Whether a task may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionMode {
    Write,
    Read,
}

/// A task on its way: what to do, and who waits for it.
pub(crate) struct StoreTask {
    pub(crate) mode: TransactionMode,
    pub(crate) work: TaskFn,
    reply: oneshot::Sender<TaskResult>,
}

impl StoreTask {
    /// Runs the work; a panic in it is an error of that task alone.
    pub(crate) fn run(&self, session: &mut StoreSession<'_>) -> TaskResult {
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(session)));
        let outcome = outcome.unwrap_or_else(|_| {
            let error = StoreError::internal("a transaction panicked and was undone");
            Err(StoreJobError::Store(error))
        });
        match session.failure() {
            Some(failure) if outcome.is_ok() => Err(StoreJobError::Store(failure.clone())),
            _ => outcome,
        }
    }

    /// Answers the caller; one who no longer waits is passed over. What the work held is let go
    /// before, so that a caller who then drops the store is the last to hold it.
    pub(crate) fn send_result(self, outcome: TaskResult) {
        let Self { work, reply, .. } = self;
        drop(work);
        let _ = reply.send(outcome);
    }

    pub(crate) fn send_error(self, error: StoreError) {
        self.send_result(Err(StoreJobError::Store(error)));
    }
}

/// Waits for threads of the store to end. Work whose caller went away may hold the last of the
/// store, which is then dropped by the very thread that did the work: what waits for that one
/// would wait for ever, and all of them end by themselves.
pub(crate) fn join_threads(threads: impl Iterator<Item = JoinHandle<()>>) {
    let threads: Vec<_> = threads.collect();
    let current = std::thread::current().id();
    if threads.iter().all(|thread| thread.thread().id() != current) {
        for thread in threads {
            let _ = thread.join();
        }
    }
}

/// Sends `work` into `queue` and awaits its answer.
pub(crate) fn submit(
    queue: Option<&Sender<StoreTask>>,
    mode: TransactionMode,
    work: TaskFn,
) -> StoreFuture<TaskOutput, StoreJobError> {
    let (reply, answer) = oneshot::channel();
    let task = StoreTask { mode, work, reply };
    // A task that could not be sent is dropped, which the receiver below notices.
    let _ = queue.map(|queue| queue.send(task));
    Box::pin(async move {
        answer.await.unwrap_or_else(|_| {
            let error = StoreError::unavailable("the store was closed before it answered");
            Err(StoreJobError::Store(error))
        })
    })
}
