//! Wake-ups between processes: at most one `NOTIFY` per [`NOTIFY_INTERVAL`], after the commit and
//! on a separate connection. Inside the writing transaction it would cost most of the throughput.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use cleveragents_ports::Result;
use postgres::fallible_iterator::FallibleIterator;
use tokio::sync::watch;

use super::address::Address;
use super::connection::PostgresConnection;
use crate::sql_executor::SqlExecutor;

const NOTIFY_INTERVAL: Duration = Duration::from_millis(10);
/// Time after which the listener notices that the store is gone.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(1);

const CHANNEL: &str = "SELECT 'cleveragents_' || abs(hashtext(current_schema())::bigint)";
const NOTIFY: &str =
    "SELECT pg_notify('cleveragents_' || abs(hashtext(current_schema())::bigint), '')::text";

/// Turns marks into notifications until all senders are gone. A notification that cannot be sent is
/// dropped, because it is only a hint.
pub(super) fn spawn_notifier(address: Arc<Address>, marks: Receiver<()>) -> Result<JoinHandle<()>> {
    super::spawn("store-notifier", move || {
        let mut connection: Option<PostgresConnection> = None;
        while marks.recv().is_ok() {
            // All commits since the last notification share one.
            while marks.try_recv().is_ok() {}
            if connection.is_none() {
                connection = PostgresConnection::open(&address).ok();
            }
            let sent = connection.as_mut().map(|c| c.query(NOTIFY, &[]));
            if !matches!(sent, Some(Ok(_))) {
                tracing::debug!("a notification could not be sent");
                connection = None;
            }
            // Commits during this pause are marks in the queue, so a busy writer costs at most one
            // notification per interval.
            std::thread::sleep(NOTIFY_INTERVAL);
        }
    })
}

/// Turns other processes' notifications into hints until the store is gone.
pub(super) fn spawn_listener(address: Arc<Address>, hints: Weak<watch::Sender<u64>>) {
    let started = super::spawn("store-listener", move || {
        while hints.strong_count() > 0 {
            if let Err(error) = listen(&address, &hints) {
                tracing::debug!(%error, "not listening for notifications; polling continues");
                std::thread::sleep(LISTEN_TIMEOUT);
            }
        }
    });
    if let Err(error) = started {
        tracing::debug!(%error, "not listening for notifications; polling continues");
    }
}

fn listen(address: &Address, hints: &Weak<watch::Sender<u64>>) -> Result<()> {
    let mut connection = PostgresConnection::open(address)?;
    let rows = connection.query(CHANNEL, &[])?;
    let channel = rows.first().map(|row| row.text(0)).transpose()?;
    connection.batch(&format!("LISTEN {}", channel.unwrap_or_default()))?;
    let location = connection.location().to_owned();
    // The store is held only for one wait, so that it can be dropped while this thread listens.
    while let Some(hints) = hints.upgrade() {
        let mut notifications = connection.client().notifications();
        let mut turn = notifications.timeout_iter(LISTEN_TIMEOUT);
        let notification = turn
            .next()
            .map_err(|e| super::connection::map_postgres_error(&location, &e))?;
        if notification.is_some() {
            hints.send_modify(|count| *count += 1);
        }
    }
    Ok(())
}
