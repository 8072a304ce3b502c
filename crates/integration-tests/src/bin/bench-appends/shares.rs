//! Measures how eight processes share one database.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use cleveragents_integration_tests::child::{Hammer, HammerJob};
use cleveragents_integration_tests::{Backend, TestDatabase};
use serde_json::{Value, json};

const PROCESSES: u32 = 8;
const TOTAL: usize = 40_000;

pub(crate) fn measure(backend: Backend) -> Value {
    let program = std::env::current_exe().expect("this program");
    let program = [program.to_str().expect("a path in UTF-8"), "hammer"];
    let test_db = TestDatabase::new(backend);
    let mut hammers: Vec<Hammer> = (1..=PROCESSES)
        .map(|seed| {
            let job = HammerJob {
                threads: 8,
                seed,
                ..HammerJob::new("append")
            };
            Hammer::start(&program, &test_db, &job)
        })
        .collect();
    hammers
        .iter_mut()
        .for_each(|hammer| drop(hammer.expect_line("ready")));
    let started = Instant::now();
    hammers.iter_mut().for_each(|hammer| hammer.send_line("go"));
    let total = AtomicUsize::new(0);
    let count = |mut hammer: Hammer| {
        let mut share = 0_usize;
        while hammer.next_ack().is_some() {
            if total.fetch_add(1, Ordering::Relaxed) >= TOTAL {
                hammer.stop();
            } else {
                share += 1;
            }
        }
        share
    };
    let shares: Vec<usize> = std::thread::scope(|scope| {
        let threads: Vec<_> = hammers
            .into_iter()
            .map(|hammer| scope.spawn(|| count(hammer)))
            .collect();
        let shares = threads.into_iter().map(|thread| thread.join());
        shares.map(|share| share.expect("a reader")).collect()
    });
    let rate = TOTAL as f64 / started.elapsed().as_secs_f64();
    let (least, most) = (shares.iter().min(), shares.iter().max());
    let ratio = most.map_or(0.0, |most| *most as f64) / least.map_or(1.0, |least| *least as f64);
    println!(
        "\n{backend:?}, 8 processes of 8 threads: {rate:.0} appends/s, shares {shares:?}, most/least {ratio:.2}"
    );
    json!({"appends_per_second": rate, "shares": shares, "most_to_least": ratio})
}
