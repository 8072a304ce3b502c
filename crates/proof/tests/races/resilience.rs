//! PostgreSQL stopped, or killed, while a process writes: nothing acknowledged is lost, nothing is
//! done twice, and the process goes on by itself.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use cleveragents_proof::chance::Chance;
use cleveragents_proof::child::{Ack, Hammer, Heard, Job};
use cleveragents_proof::cluster::Cluster;
use cleveragents_proof::place::psql;
use cleveragents_proof::{Place, trials};

use crate::{HAMMER, ledger};

const THREADS: u32 = 8;

mod postgres {
    use super::{interrupted, read_until_again};

    #[test]
    fn a_server_restarted_mid_write_loses_nothing() {
        interrupted(|cluster, _, _| {
            cluster.down("fast");
            cluster.up();
        });
    }

    #[test]
    fn a_server_that_stops_at_once_loses_nothing() {
        interrupted(|cluster, _, _| {
            cluster.down("immediate");
            cluster.up();
        });
    }

    #[test]
    fn a_server_killed_mid_write_loses_nothing() {
        interrupted(|cluster, _, _| {
            cluster.kill();
            cluster.up();
        });
    }

    /// Longer than the store itself tries: its callers hear of it and ask again.
    #[test]
    fn a_server_that_stays_away_is_reported_and_found_again() {
        interrupted(|cluster, hammer, acks| {
            cluster.kill();
            read_until_again(hammer, acks);
            cluster.up();
        });
    }
}

fn interrupted(interrupt: impl Fn(&Cluster, &mut Hammer, &mut Vec<Ack>)) {
    let cluster = Cluster::start();
    let place = Place::on_server(cluster.url());
    let job = Job {
        threads: THREADS,
        more: &["--patient", "yes"],
        ..Job::new("append")
    };
    let mut hammer = Hammer::start(HAMMER, &place, &job);
    hammer.expect("ready");
    hammer.tell("go");
    let mut acks = Vec::new();
    let mut chance = Chance::new();
    for _ in 0..trials(10, 2) {
        // Behind all that was there before: each thread got through again, not only its old lines.
        let goal = reached(&place);
        read_beyond(&mut hammer, &mut acks, &goal);
        chance.spin(Duration::from_millis(5));
        interrupt(&cluster, &mut hammer, &mut acks);
    }
    let goal = reached(&place);
    read_beyond(&mut hammer, &mut acks, &goal);
    hammer.stop();
    while let Some(ack) = hammer.ack() {
        acks.push(ack);
    }
    println!("{} acknowledged, {} sent again", acks.len(), hammer.again);

    let opened = place.open();
    let places = ledger::all_places(&opened.store);
    ledger::assert_present(&places, &acks);
    ledger::assert_verified(&opened.store, &ledger::all_streams(&opened.store));
    // Each thread has at most the one write that was in hand when it was told to stop.
    let unanswered = places.len() - acks.len();
    assert!(
        unanswered <= THREADS as usize,
        "{unanswered} events nobody was told of"
    );
    let operations = psql(&cluster.url(), "SELECT count(*) FROM operations");
    assert_eq!(operations, places.len().to_string());
}

/// The highest number each thread has in the journal.
fn reached(place: &Place) -> HashMap<u32, u32> {
    let opened = place.open();
    let mut reached: HashMap<u32, u32> = (0..THREADS).map(|thread| (thread, 0)).collect();
    for write in ledger::all_places(&opened.store).keys() {
        let highest = reached.entry(write.thread).or_default();
        *highest = write.number.max(*highest);
    }
    reached
}

/// Reads acknowledgements until every thread is beyond its goal.
fn read_beyond(hammer: &mut Hammer, acks: &mut Vec<Ack>, goal: &HashMap<u32, u32>) {
    let mut waiting: HashSet<u32> = goal.keys().copied().collect();
    while !waiting.is_empty() {
        let ack = hammer.ack().expect("the hammer goes on");
        acks.push(ack);
        if ack.write.number > goal[&ack.write.thread] {
            waiting.remove(&ack.write.thread);
        }
    }
}

/// Reads until a writer has been told that the store is out of reach.
fn read_until_again(hammer: &mut Hammer, acks: &mut Vec<Ack>) {
    loop {
        match hammer.hear().expect("the hammer goes on") {
            Heard::Ack(ack) => acks.push(ack),
            Heard::Again => return,
            Heard::Other => {}
        }
    }
}
