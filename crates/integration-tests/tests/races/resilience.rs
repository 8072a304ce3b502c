//! PostgreSQL stopped or killed while a process writes: nothing acknowledged is lost, nothing is
//! executed twice, and the process continues by itself.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use cleveragents_integration_tests::child::{Ack, Hammer, HammerJob, HammerMessage};
use cleveragents_integration_tests::cluster::TestCluster;
use cleveragents_integration_tests::rng::RaceRng;
use cleveragents_integration_tests::test_database::psql;
use cleveragents_integration_tests::{TestDatabase, trials};

use crate::{HAMMER, ledger};

const THREADS: u32 = 8;

mod postgres {
    use super::{read_acks_until_retry, run_interrupted};

    #[test]
    fn a_server_restarted_mid_write_loses_nothing() {
        run_interrupted(|cluster, _, _| {
            cluster.stop_server("fast");
            cluster.start_server();
        });
    }

    #[test]
    fn a_server_stopped_immediately_loses_nothing() {
        run_interrupted(|cluster, _, _| {
            cluster.stop_server("immediate");
            cluster.start_server();
        });
    }

    #[test]
    fn a_server_killed_mid_write_loses_nothing() {
        run_interrupted(|cluster, _, _| {
            cluster.kill();
            cluster.start_server();
        });
    }

    /// Longer than the store itself retries: its callers get an error and retry.
    #[test]
    fn a_long_outage_is_reported_and_recovered_from() {
        run_interrupted(|cluster, hammer, acks| {
            cluster.kill();
            read_acks_until_retry(hammer, acks);
            cluster.start_server();
        });
    }
}

fn run_interrupted(interrupt: impl Fn(&TestCluster, &mut Hammer, &mut Vec<Ack>)) {
    let cluster = TestCluster::start();
    let test_db = TestDatabase::on_server(cluster.url());
    let job = HammerJob {
        threads: THREADS,
        more: &["--patient", "yes"],
        ..HammerJob::new("append")
    };
    let mut hammer = Hammer::start(HAMMER, &test_db, &job);
    hammer.expect_line("ready");
    hammer.send_line("go");
    let mut acks = Vec::new();
    let mut rng = RaceRng::new();
    for _ in 0..trials(10, 2) {
        // Beyond everything that existed before: each thread succeeded again, rather than only
        // flushing old lines.
        let goal = highest_numbers(&test_db);
        read_acks_beyond(&mut hammer, &mut acks, &goal);
        rng.spin_randomly(Duration::from_millis(5));
        interrupt(&cluster, &mut hammer, &mut acks);
    }
    let goal = highest_numbers(&test_db);
    read_acks_beyond(&mut hammer, &mut acks, &goal);
    hammer.stop();
    while let Some(ack) = hammer.next_ack() {
        acks.push(ack);
    }
    println!("{} acknowledged, {} sent again", acks.len(), hammer.retries);

    let opened = test_db.open();
    let places = ledger::all_positions(&opened.store);
    ledger::assert_present(&places, &acks);
    ledger::assert_verified(&opened.store, &ledger::all_streams(&opened.store));
    // Each thread has at most the one write that was in flight when it was stopped.
    let unanswered = places.len() - acks.len();
    assert!(
        unanswered <= THREADS as usize,
        "{unanswered} events nobody was told of"
    );
    let operations = psql(&cluster.url(), "SELECT count(*) FROM operations");
    assert_eq!(operations, places.len().to_string());
}

/// The highest number of each thread in the journal.
fn highest_numbers(test_db: &TestDatabase) -> HashMap<u32, u32> {
    let opened = test_db.open();
    let mut reached: HashMap<u32, u32> = (0..THREADS).map(|thread| (thread, 0)).collect();
    for write in ledger::all_positions(&opened.store).keys() {
        let highest = reached.entry(write.thread).or_default();
        *highest = write.number.max(*highest);
    }
    reached
}

/// Reads acknowledgements until every thread is beyond its goal.
fn read_acks_beyond(hammer: &mut Hammer, acks: &mut Vec<Ack>, goal: &HashMap<u32, u32>) {
    let mut waiting: HashSet<u32> = goal.keys().copied().collect();
    while !waiting.is_empty() {
        let ack = hammer.next_ack().expect("the hammer goes on");
        acks.push(ack);
        if ack.write.number > goal[&ack.write.thread] {
            waiting.remove(&ack.write.thread);
        }
    }
}

/// Reads until a writer reports that the store is unavailable.
fn read_acks_until_retry(hammer: &mut Hammer, acks: &mut Vec<Ack>) {
    loop {
        match hammer.next_message().expect("the hammer goes on") {
            HammerMessage::Ack(ack) => acks.push(ack),
            HammerMessage::Retry => return,
            HammerMessage::Other => {}
        }
    }
}
