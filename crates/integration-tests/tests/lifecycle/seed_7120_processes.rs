//! Report 7120 across processes: the owner of a plan passes its lease to worker processes.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use cleveragents_domain::id::PlanId;
use cleveragents_integration_tests::child::{Hammer, HammerJob};
use cleveragents_integration_tests::execution_samples::{claim_run, context, creation};
use cleveragents_integration_tests::recorders::{
    AckedChange, RecorderContext, RecorderMark, batch_size, verify_changes,
};
use cleveragents_integration_tests::rng::RaceRng;
use cleveragents_integration_tests::store_access::write;
use cleveragents_integration_tests::{
    Backend, OpenTestDatabase, TestDatabase, block_on, contract, trials,
};
use cleveragents_ports::{Result, StoreError};

contract! {
    durable:
    eight_processes_on_one_plan_lose_and_misplace_nothing,
    eight_processes_on_eight_plans_lose_and_misplace_nothing,
    killed_recorders_lose_and_misplace_nothing,
    a_process_whose_owner_lost_the_plan_records_nothing_more,
}

const PROCESSES: u32 = 8;
const THREADS: u32 = 2;

fn start(test_db: &TestDatabase, seed: u32, count: u32) -> Hammer {
    let job = HammerJob {
        threads: THREADS,
        count,
        seed,
        ..HammerJob::new("record-changes")
    };
    let mut hammer = Hammer::start(&[env!("CARGO_BIN_EXE_hammer")], test_db, &job);
    hammer.expect_line("ready");
    hammer
}

fn send(hammer: &mut Hammer, workplace: &RecorderContext) {
    hammer.send_line(&serde_json::to_string(workplace).unwrap());
}

/// The next change that the process reports as recorded; `None` at its end.
fn next_change(hammer: &mut Hammer) -> Option<AckedChange> {
    loop {
        let line = hammer.next_line()?;
        if let Some(message) = line.strip_prefix("told ") {
            return Some(message.parse().unwrap());
        }
    }
}

/// All remaining reports of the process.
fn remaining_changes(hammer: &mut Hammer) -> Vec<AckedChange> {
    std::iter::from_fn(|| next_change(hammer)).collect()
}

/// All reports of the processes, each read by a thread so that none blocks.
fn read_all(hammers: &mut [Hammer]) -> Vec<Vec<AckedChange>> {
    thread::scope(|scope| {
        let hear = |hammer| scope.spawn(move || remaining_changes(hammer));
        let threads: Vec<_> = hammers.iter_mut().map(hear).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    })
}

fn eight_processes_on_one_plan_lose_and_misplace_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let one = block_on(RecorderContext::new(&opened.store));
    race(&test_db, &opened, &vec![one; PROCESSES as usize]);
}

fn eight_processes_on_eight_plans_lose_and_misplace_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let each = (0..PROCESSES).map(|_| block_on(RecorderContext::new(&opened.store)));
    race(&test_db, &opened, &each.collect::<Vec<_>>());
}

fn race(test_db: &TestDatabase, opened: &OpenTestDatabase, each: &[RecorderContext]) {
    let count = trials(10_000, 800) / PROCESSES / THREADS;
    let mut hammers: Vec<Hammer> = (0..PROCESSES)
        .map(|seed| start(test_db, seed, count))
        .collect();
    for (hammer, workplace) in hammers.iter_mut().zip(each) {
        send(hammer, workplace);
    }
    let heard = read_all(&mut hammers);
    assert!(hammers.iter_mut().all(Hammer::finish), "all end well");
    let mut wanted: BTreeMap<PlanId, Vec<AckedChange>> = BTreeMap::new();
    for (workplace, heard) in each.iter().zip(heard) {
        assert_eq!(heard.len(), (count * THREADS) as usize);
        let plan = workplace.lease.plan;
        wanted.entry(plan).or_default().extend(heard);
    }
    for (plan, mut wanted) in wanted {
        let mut there = block_on(verify_changes(&opened.store, plan));
        wanted.sort();
        there.sort();
        assert_eq!(there.len(), wanted.len(), "none is lost, none is twice");
        assert_eq!(there, wanted);
    }
}

/// How many processes are killed, and how many changes each of their threads would make.
const VICTIMS: usize = 4;
const COUNT: u32 = 30;
const EACH: usize = (COUNT * THREADS) as usize;

/// Half of the processes are killed while the others continue, some of them on the same plan.
fn killed_recorders_lose_and_misplace_nothing(backend: Backend) {
    let mut rng = RaceRng::new();
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let mut cut = 0;
    for round in 0..trials(20, 2) {
        let shared = block_on(RecorderContext::new(&opened.store));
        let alone = block_on(RecorderContext::new(&opened.store));
        let seeds = round * PROCESSES..(round + 1) * PROCESSES;
        let mut hammers: Vec<Hammer> = seeds.map(|seed| start(&test_db, seed, COUNT)).collect();
        for (number, hammer) in hammers.iter_mut().enumerate() {
            send(hammer, if number == 0 { &alone } else { &shared });
        }
        let heard: Vec<Vec<AckedChange>> = thread::scope(|scope| {
            let hear = |(number, hammer): (usize, _)| {
                let timeout = (number < VICTIMS).then(|| rng.below(30) as usize);
                scope.spawn(move || read_or_kill(hammer, timeout))
            };
            let threads: Vec<_> = hammers.iter_mut().enumerate().map(hear).collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.collect()
        });
        let victims = heard.iter().take(VICTIMS);
        cut += victims.filter(|message| message.len() < EACH).count();
        let mut survivors = heard.iter().skip(VICTIMS);
        assert!(survivors.all(|message| message.len() == EACH));
        let there: Vec<AckedChange> = [&alone, &shared]
            .map(|it| block_on(verify_changes(&opened.store, it.lease.plan)))
            .concat();
        check_after_kills(&there, &heard.concat());
        block_on(record_more(&opened, &shared));
    }
    assert!(cut > 0, "all kills came too late");
}

/// Reads a process to its end, or kills it after this many changes.
fn read_or_kill(hammer: &mut Hammer, kill_after: Option<usize>) -> Vec<AckedChange> {
    let mut heard = Vec::new();
    if let Some(timeout) = kill_after {
        heard.extend(std::iter::from_fn(|| next_change(hammer)).take(timeout));
        hammer.kill();
    }
    heard.extend(remaining_changes(hammer));
    heard
}

/// All acknowledged changes are present. Additional ones are those that a killed thread had in
/// flight: the complete batch after its last acknowledged change.
fn check_after_kills(there: &[AckedChange], heard: &[AckedChange]) {
    let message: BTreeSet<AckedChange> = heard.iter().copied().collect();
    assert_eq!(message.len(), heard.len(), "nothing was told twice");
    let present: BTreeSet<AckedChange> = there.iter().copied().collect();
    assert_eq!(present.len(), there.len());
    let lost: Vec<_> = message.difference(&present).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let who = |mark: &RecorderMark| (mark.worker, mark.thread);
    let mut next: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for it in heard {
        let after = next.entry(who(&it.mark)).or_default();
        *after = (*after).max(it.mark.number + 1);
    }
    let mut in_hand: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for it in present.difference(&message) {
        let numbers = in_hand.entry(who(&it.mark)).or_default();
        numbers.push(it.mark.number);
        numbers.sort_unstable();
    }
    for (who, numbers) in in_hand {
        let first = next.get(&who).copied().unwrap_or(0);
        // A kill may come between the acknowledgements of one batch.
        let mut begun = 0;
        while begun + batch_size(begun) <= first {
            begun += batch_size(begun);
        }
        let end = (begun + batch_size(begun)).min(COUNT);
        let whole: Vec<u32> = (first..end).collect();
        assert_eq!(numbers, whole, "{who:?} had {begun}..{end} in hand");
    }
}

/// The holder of the lease continues in the changesets that the dead processes left open, without a
/// gap.
async fn record_more(opened: &OpenTestDatabase, workplace: &RecorderContext) {
    let context = context(&opened.store, workplace.lease.clone());
    for header in context.changesets().await.unwrap() {
        let changeset = context.changeset(header.id).await.unwrap();
        match changeset.record(vec![creation(b"after")]).await {
            Ok(entries) => assert_eq!(entries[0].sequence, header.entries + 1),
            Err(StoreError::Refused { .. }) => assert!(header.closed_at.is_some()),
            Err(other) => panic!("{other}"),
        }
        changeset.close().await.unwrap();
    }
}

/// The lease is plain data in other processes; it is worthless once it is lost.
fn a_process_whose_owner_lost_the_plan_records_nothing_more(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let workplace = block_on(RecorderContext::new(&opened.store));
    let plan = workplace.lease.plan;
    let mut hammer = start(&test_db, 0, u32::MAX);
    send(&mut hammer, &workplace);
    let mut heard: Vec<AckedChange> = (0..20).map(|_| next_change(&mut hammer).unwrap()).collect();
    let (after, lease) = block_on(async {
        let old = workplace.lease.clone();
        write(&opened.store, move |tx| tx.release_run(&old)).await;
        let lease = claim_run(&opened.store, plan).await;
        (verify_changes(&opened.store, plan).await, lease)
    });
    // Its threads end with the refusal, which is their last message.
    let mut refusals = 0;
    while let Some(line) = hammer.next_raw_line() {
        match line.split_once(' ') {
            Some(("told", it)) => heard.push(it.parse().unwrap()),
            Some(("error", why)) => {
                assert!(why.contains("has ended or been taken over"), "{why}");
                refusals += 1;
            }
            _ => assert_eq!(line, "done"),
        }
    }
    assert_eq!(refusals, THREADS);
    let there = block_on(verify_changes(&opened.store, plan));
    assert_eq!(there, after, "nothing came after the new owner");
    let present: BTreeSet<AckedChange> = there.into_iter().collect();
    assert!(heard.iter().all(|it| present.contains(it)));
    let refused: Result<_> = block_on(async {
        let old = context(&opened.store, workplace.lease.clone());
        old.changeset(workplace.shared).await?.close().await?;
        Ok(())
    });
    assert!(matches!(refused, Err(StoreError::LeaseLost { .. })));
    let new = context(&opened.store, lease);
    block_on(async {
        let shared = new.changeset(workplace.shared).await.unwrap();
        shared.record(vec![creation(b"new")]).await.unwrap();
    });
}
