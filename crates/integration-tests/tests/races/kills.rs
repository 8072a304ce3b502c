//! `kill -9` of a writing process at random moments: nothing acknowledged is lost, the database
//! opens, and a write in flight is executed once when resent.

use std::time::{Duration, Instant};

use cleveragents_integration_tests::child::{Ack, Hammer, HammerJob};
use cleveragents_integration_tests::rng::RaceRng;
use cleveragents_integration_tests::workload::{HammerWrite, shared_stream, thread_stream};
use cleveragents_integration_tests::{Backend, TestDatabase, bare, block_on, trials};
use cleveragents_ports::StoreHandle;
use cleveragents_store::NEWEST_SCHEMA;

use crate::{HAMMER, ledger};

const FIRST: HammerWrite = HammerWrite {
    seed: 1,
    thread: 0,
    number: 0,
};
const VERSIONS: &str = "SELECT count(*) FROM schema_versions";

engines! {
    a_killed_writer_loses_nothing,
    a_writer_killed_in_a_group_commit_loses_nothing,
}

fn a_killed_writer_loses_nothing(backend: Backend) {
    let rounds = match backend {
        Backend::Postgres => trials(40, 4),
        _ => trials(200, 20),
    };
    kill_rounds(backend, rounds, 4, |place, seed, chance| {
        write_and_kill(place, seed, 4, chance)
    });
}

fn a_writer_killed_in_a_group_commit_loses_nothing(backend: Backend) {
    let rounds = match backend {
        Backend::Postgres => trials(20, 2),
        _ => trials(50, 5),
    };
    kill_rounds(backend, rounds, 64, |place, seed, chance| {
        write_and_kill(place, seed, 64, chance)
    });
}

/// Not random: at the first, second, third … call with which the writer changes or syncs a file.
#[test]
fn a_writer_killed_at_any_of_its_calls_loses_nothing() {
    let rounds = trials(CALLS, 12);
    kill_rounds(Backend::Sqlite, rounds, 4, |place, seed, _| {
        let job = HammerJob {
            threads: 4,
            count: 20,
            seed,
            ..HammerJob::new("append")
        };
        // The database is created first, so that only the writer's own calls count.
        drop(place.open());
        run_killed_at_call(place, &job, seed * CALLS / rounds).0
    });
}

/// The last call number with a separate kill.
const CALLS: u32 = 120;

/// Runs a hammer that the kernel kills when one of its threads enters its `call`th call that
/// changes or syncs a file. Returns what it acknowledged before, and whether it completed.
fn run_killed_at_call(test_db: &TestDatabase, job: &HammerJob<'_>, call: u32) -> (Vec<Ack>, bool) {
    let kill = format!("inject=pwrite64,fdatasync,fsync,ftruncate,unlink:signal=KILL:when={call}");
    let mut program = vec!["strace", "-f", "-qq", "-o", "/dev/null", "-e", &kill];
    program.extend(HAMMER);
    let mut hammer = Hammer::start(&program, test_db, job);
    hammer.send_line("go");
    let mut acks = Vec::new();
    // An opening hammer waits for a line before it ends; an appending one would treat the line as a
    // stop.
    if job.verb == "open" {
        hammer.stop();
    }
    while let Some(ack) = hammer.next_ack() {
        acks.push(ack);
    }
    (acks, hammer.finish())
}

/// The writes found in flight after the kills.
#[derive(Debug, Default)]
struct UnackedWrites {
    committed: u32,
    undone: u32,
}

fn kill_rounds(
    backend: Backend,
    rounds: u32,
    threads: u32,
    write_and_kill: impl Fn(&TestDatabase, u32, &mut RaceRng) -> Vec<Ack>,
) {
    let test_db = TestDatabase::new(backend);
    let mut rng = RaceRng::new();
    let mut history = KillHistory::default();
    for seed in 1..=rounds {
        let acks = write_and_kill(&test_db, seed, &mut rng);
        // No other process has the database open: this is the recovery.
        let opened = test_db.open();
        history.check(&opened.store, seed, threads, &acks);
    }
    let opened = test_db.open();
    let places = ledger::all_positions(&opened.store);
    ledger::assert_present(&places, &history.acks);
    ledger::assert_verified(&opened.store, &ledger::all_streams(&opened.store));
    let number = history.acks.len();
    println!(
        "{backend:?}: {rounds} kills, {number} acknowledged, {:?}",
        history.unacked
    );
}

/// Starts a writer, kills it after a random number of acknowledgements and a random delay, and
/// returns everything it has acknowledged.
fn write_and_kill(test_db: &TestDatabase, seed: u32, threads: u32, rng: &mut RaceRng) -> Vec<Ack> {
    let job = HammerJob {
        threads,
        seed,
        ..HammerJob::new("append")
    };
    let mut hammer = Hammer::start(HAMMER, test_db, &job);
    hammer.expect_line("ready");
    hammer.send_line("go");
    let mut acks = Vec::new();
    for _ in 0..rng.below(60) {
        acks.extend(hammer.next_ack());
    }
    rng.spin_randomly(Duration::from_millis(3));
    hammer.kill();
    while let Some(ack) = hammer.next_ack() {
        acks.push(ack);
    }
    acks
}

#[derive(Debug, Default)]
struct KillHistory {
    acks: Vec<Ack>,
    /// The last known position of the shared stream.
    shared: i64,
    unacked: UnackedWrites,
}

impl KillHistory {
    fn check(&mut self, store: &StoreHandle, seed: u32, threads: u32, acks: &[Ack]) {
        let shared = shared_stream().unwrap();
        let mut streams: Vec<_> = (0..threads)
            .map(|t| thread_stream(seed, t).unwrap())
            .collect();
        streams.push(shared);
        ledger::assert_verified(store, &streams);
        let look = |after| {
            let mut places = ledger::WritePositions::new();
            for stream in &streams {
                let after = if *stream == shared { after } else { 0 };
                ledger::add_events(&mut places, &ledger::events(store, *stream, after));
            }
            places
        };
        let before = look(self.shared);
        ledger::assert_present(&before, acks);

        let mut repeated = 0;
        for thread in 0..threads {
            repeated += self.resend(
                store,
                &before,
                acks,
                HammerWrite {
                    seed,
                    thread,
                    number: 0,
                },
            );
        }
        let after = look(self.shared);
        assert_eq!(
            after.len(),
            before.len() + repeated,
            "a repeated write was done again"
        );
        ledger::assert_verified(store, &streams);
        let events = ledger::events(store, shared, self.shared);
        self.shared = events.last().map_or(self.shared, |event| event.stream_seq);
        self.acks.extend(acks);
    }

    /// Resends a thread's last acknowledged write and the one in flight; returns how many of them
    /// had to be executed.
    fn resend(
        &mut self,
        store: &StoreHandle,
        before: &ledger::WritePositions,
        acks: &[Ack],
        first: HammerWrite,
    ) -> usize {
        let mine = acks.iter().filter(|ack| ack.write.thread == first.thread);
        let last = mine.max_by_key(|ack| ack.write.number);
        let number = last.map_or(0, |ack| ack.write.number + 1);
        let in_hand = HammerWrite { number, ..first };
        let send = |write: HammerWrite| block_on(write.append(store)).unwrap().stream_seq;
        if let Some(ack) = last {
            assert_eq!(
                send(ack.write),
                ack.stream_seq,
                "another answer than the first"
            );
        }
        let answer = send(in_hand);
        assert_eq!(send(in_hand), answer, "another answer than the first");
        match before.get(&in_hand) {
            Some((_, stream_seq)) => {
                assert_eq!(answer, *stream_seq, "another answer than the first");
                self.unacked.committed += 1;
                0
            }
            None => {
                self.unacked.undone += 1;
                1
            }
        }
    }
}

#[test]
fn a_process_killed_while_creating_the_database_leaves_one_that_opens() {
    let mut rng = RaceRng::new();
    let usual = measure_creation();
    let mut unfinished = 0;
    for _ in 0..trials(200, 20) {
        let test_db = TestDatabase::new(Backend::Sqlite);
        let mut hammer = Hammer::start(HAMMER, &test_db, &HammerJob::new("open"));
        hammer.expect_line("ready");
        hammer.send_line("go");
        rng.spin_randomly(usual);
        hammer.kill();
        unfinished += u32::from(hammer.next_line().is_none());
        let opened = test_db.open();
        block_on(
            HammerWrite {
                seed: 1,
                thread: 0,
                number: 0,
            }
            .append(&opened.store),
        )
        .unwrap();
        let versions = bare::query_number(&test_db.database_file(), VERSIONS);
        assert_eq!(versions, NEWEST_SCHEMA, "each migration ran once");
    }
    println!("{unfinished} were killed before the database was open (usually {usual:?})");
    assert!(unfinished > 0, "all kills came too late");
}

/// Not random: at each call in turn, until one run completes.
#[test]
fn a_process_killed_at_any_call_of_creating_the_database_leaves_one_that_opens() {
    let step = 100 / trials(100, 10);
    let mut call = 1;
    loop {
        let test_db = TestDatabase::new(Backend::Sqlite);
        let (_, survived) = run_killed_at_call(&test_db, &HammerJob::new("open"), call);
        let opened = test_db.open();
        block_on(FIRST.append(&opened.store)).unwrap();
        let versions = bare::query_number(&test_db.database_file(), VERSIONS);
        assert_eq!(versions, NEWEST_SCHEMA, "each migration ran once");
        if survived {
            println!("creating takes {call} calls at most");
            assert!(call > 20, "the kills came too late");
            return;
        }
        call += step;
    }
}

fn measure_creation() -> Duration {
    let test_db = TestDatabase::new(Backend::Sqlite);
    let mut hammer = Hammer::start(HAMMER, &test_db, &HammerJob::new("open"));
    hammer.expect_line("ready");
    let started = Instant::now();
    hammer.send_line("go");
    hammer.expect_line("opened");
    started.elapsed()
}
