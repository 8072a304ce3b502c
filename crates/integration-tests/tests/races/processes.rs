//! 64 threads, and 8 processes of 8 threads, on one database, with a concurrent tail.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cleveragents_domain::{Event, StreamId};
use cleveragents_engine::journal::Tail;
use cleveragents_integration_tests::child::{Ack, Hammer, HammerJob};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, trials};
use cleveragents_ports::Cursor;
use cleveragents_ports::StoreHandle;
use tokio::sync::oneshot;

use crate::{HAMMER, ledger};

engines! {
    sixty_four_threads_of_one_process_lose_nothing,
    eight_processes_of_eight_threads_lose_nothing_and_share_fairly,
}

/// A tail without events for this long has missed something.
const TAIL_TIMEOUT: Duration = Duration::from_secs(60);

fn sixty_four_threads_of_one_process_lose_nothing(backend: Backend) {
    hammer_together(backend, 1, 64);
}

fn eight_processes_of_eight_threads_lose_nothing_and_share_fairly(backend: Backend) {
    let shares = hammer_together(backend, 8, 8);
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    println!("{backend:?}: shares of eight processes {shares:?}");
    assert!(*most <= 2 * least, "unfair shares: {shares:?}");
}

/// Runs the hammers until they have this number of acknowledgements together, checks everything,
/// and returns each one's share.
fn hammer_together(backend: Backend, processes: u32, threads: u32) -> Vec<usize> {
    let target = trials(40_000, 4000) as usize;
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let job = |seed| HammerJob {
        threads,
        seed,
        ..HammerJob::new("append")
    };
    let mut hammers: Vec<Hammer> = (1..=processes)
        .map(|seed| Hammer::start(HAMMER, &test_db, &job(seed)))
        .collect();
    hammers
        .iter_mut()
        .for_each(|hammer| drop(hammer.expect_line("ready")));

    let (ended, end) = oneshot::channel();
    let (acks, seen) = std::thread::scope(|scope| {
        let tail = scope.spawn(|| block_on(follow(&opened.store, end)));
        let acks = read_until(hammers, target);
        ended
            .send(acks.iter().map(|(acks, _)| acks.len()).sum())
            .unwrap();
        (acks, tail.join().unwrap())
    });

    let all: Vec<Ack> = acks.iter().flat_map(|(acks, _)| acks).copied().collect();
    assert!(all.len() >= target);
    let places = ledger::all_positions(&opened.store);
    assert_eq!(places.len(), all.len(), "more events than acknowledgements");
    ledger::assert_present(&places, &all);
    ledger::assert_verified(&opened.store, &ledger::all_streams(&opened.store));
    let found: HashSet<(StreamId, i64)> = places.values().copied().collect();
    assert_eq!(seen, found, "the tail saw something else");
    acks.iter().map(|(_, share)| *share).collect()
}

/// All acknowledgements of each hammer, and how many of them came before the target was reached.
fn read_until(hammers: Vec<Hammer>, target: usize) -> Vec<(Vec<Ack>, usize)> {
    let total = AtomicUsize::new(0);
    let read = |mut hammer: Hammer| {
        let (mut acks, mut share) = (Vec::new(), 0);
        while let Some(ack) = hammer.next_ack() {
            acks.push(ack);
            if total.fetch_add(1, Ordering::Relaxed) < target {
                share += 1;
            } else {
                hammer.stop();
            }
        }
        (acks, share)
    };
    std::thread::scope(|scope| {
        let mut hammers = hammers;
        hammers.iter_mut().for_each(|hammer| hammer.send_line("go"));
        let readers: Vec<_> = hammers
            .into_iter()
            .map(|hammer| scope.spawn(|| read(hammer)))
            .collect();
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .collect()
    })
}

/// Follows all streams from the beginning until every event was seen.
async fn follow(
    store: &StoreHandle,
    mut end: oneshot::Receiver<usize>,
) -> HashSet<(StreamId, i64)> {
    let mut tail = Tail::of_all(store.clone(), Cursor::default());
    let mut seen = HashSet::new();
    let mut total = None;
    while total.is_none_or(|total| seen.len() < total) {
        tokio::select! {
            number = &mut end, if total.is_none() => total = Some(number.unwrap()),
            events = tokio::time::timeout(TAIL_TIMEOUT, tail.next()) => match events {
                Ok(events) => check_events(&events.unwrap(), &mut seen),
                Err(_) => panic!("the tail saw {} of {total:?} events", seen.len()),
            },
        }
    }
    check_events(&tail.read_available().await.unwrap(), &mut seen);
    seen
}

fn check_events(events: &[Event], seen: &mut HashSet<(StreamId, i64)>) {
    for event in events {
        let new = seen.insert((event.stream, event.stream_seq));
        assert!(
            new,
            "the tail saw {} of {} twice",
            event.stream_seq, event.stream
        );
    }
}
