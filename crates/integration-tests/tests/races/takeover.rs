//! An owner that dies on this machine is replaced immediately; one that only hangs is not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{Phase, StreamId, Timestamp};
use cleveragents_engine::runs::{ClaimOutcome, RunService};
use cleveragents_integration_tests::child::{Hammer, HammerJob};
use cleveragents_integration_tests::test_database::new_operation;
use cleveragents_integration_tests::{Backend, OpenTestDatabase, TestDatabase, block_on, trials};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Claim, Ids, Lease, Liveness, RunClaimOutcome, Slots, StoreError};

use crate::{HAMMER, ledger};

engines! {
    a_killed_owner_is_replaced_before_its_lease_ends,
    a_hung_owner_keeps_its_run_until_lease_expiry,
    one_of_32_claimants_replaces_a_dead_owner,
}

/// The time that a user perceives as immediate; generous, because the machine may be loaded.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(1);

/// A process that owns `plan`'s run, and the lease it reports.
fn start_owner(test_db: &TestDatabase, plan: PlanId) -> (Hammer, Lease) {
    let id = plan.to_string();
    let more = ["--plan", id.as_str()];
    let job = HammerJob {
        more: &more,
        ..HammerJob::new("claim")
    };
    let mut hammer = Hammer::start(HAMMER, test_db, &job);
    hammer.expect_line("ready");
    let line = hammer.expect_line("claimed ");
    let words: Vec<&str> = line.split(' ').collect();
    let lease = Lease {
        plan,
        epoch: words[1].parse().unwrap(),
        owner: words[2].parse().unwrap(),
        expires_at: Timestamp::from_micros(words[3].parse().unwrap()),
    };
    (hammer, lease)
}

fn service(opened: &OpenTestDatabase) -> RunService {
    RunService::new(
        opened.store.clone(),
        Arc::new(SystemIds),
        opened.presence.clone(),
        opened.owner,
    )
}

fn database_time(opened: &OpenTestDatabase) -> Timestamp {
    let now = block_on(opened.store.read(|tx| tx.now()));
    now.unwrap_or_else(|error: StoreError| panic!("{error}"))
}

fn new_plan() -> PlanId {
    PlanId::new(SystemIds.next())
}

fn a_killed_owner_is_replaced_before_its_lease_ends(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let service = service(&opened);
    let mut spans = Vec::new();
    for _ in 0..trials(50, 5) {
        let plan = new_plan();
        let (mut hammer, dead) = start_owner(&test_db, plan);
        let held = block_on(service.claim(plan, Phase::Execute, Slots::Shared)).unwrap();
        assert!(matches!(held, ClaimOutcome::Held(holder) if holder.owner == dead.owner));
        hammer.kill();
        let killed = Instant::now();
        let won = block_on(service.claim(plan, Phase::Execute, Slots::Shared)).unwrap();
        spans.push(killed.elapsed());
        let ClaimOutcome::Won(lease) = won else {
            panic!("the dead owner is still in the way: {won:?}");
        };
        assert!(
            database_time(&opened) < dead.expires_at,
            "the lease had run out anyway"
        );
        assert_eq!(lease.lease().epoch, dead.epoch + 1);
    }
    spans.sort_unstable();
    let (median, most) = (spans[spans.len() / 2], spans[spans.len() - 1]);
    println!("{backend:?}: takeover {median:?} (median), {most:?} (most) after the kill");
    println!("{backend:?}: all {spans:?}");
    assert!(
        median < TAKEOVER_LIMIT,
        "half of the takeovers took {median:?}"
    );
}

fn a_hung_owner_keeps_its_run_until_lease_expiry(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let plan = new_plan();
    let (mut hammer, lease) = start_owner(&test_db, plan);
    let claim = || block_on(service(&opened).claim(plan, Phase::Execute, Slots::Shared)).unwrap();

    hammer.freeze();
    assert!(matches!(claim(), ClaimOutcome::Held(holder) if holder.owner == lease.owner));
    hammer.thaw();
    hammer.send_line("write");
    hammer.expect_line("written");
    hammer.send_line("beat");
    hammer.expect_line("written");

    hammer.freeze();
    let old = lease.clone();
    let expired = opened.store.write(new_operation("test.expire"), move |tx| {
        tx.heartbeat(&old, Duration::ZERO)
    });
    let _: Lease = block_on(expired).unwrap_or_else(|e: StoreError| panic!("{e}"));
    // Its process is alive, so the service does not take over; only a claim without liveness
    // information wins.
    assert!(matches!(claim(), ClaimOutcome::Held(holder) if holder.owner == lease.owner));
    let RunClaimOutcome::Won(taken) = claim_expired(&opened, plan) else {
        panic!("an expired lease is in the way");
    };
    assert_eq!(taken.epoch, lease.epoch + 1);
    let stream = StreamId::Plan(plan);
    let before = ledger::events(&opened.store, stream, 0).len();
    hammer.thaw();
    for order in ["write", "beat", "write"] {
        hammer.send_line(order);
        hammer.expect_line("lost");
    }
    assert_eq!(ledger::events(&opened.store, stream, 0).len(), before);
    ledger::assert_verified(&opened.store, &[stream]);
}

/// A claim without any proof of death: only the expiry of the lease counts.
fn claim_expired(opened: &OpenTestDatabase, plan: PlanId) -> RunClaimOutcome {
    let claim = Claim {
        plan,
        phase: Phase::Execute,
        owner: OwnerId::new(SystemIds.next()),
        node: opened.presence.node().to_owned(),
        lease: Duration::from_secs(600),
        slots: Slots::Shared,
        dead_owners: Vec::new(),
    };
    let claimed = opened
        .store
        .write(new_operation("test.claim"), move |tx| tx.claim_run(&claim));
    block_on(claimed).unwrap_or_else(|error: StoreError| panic!("{error}"))
}

fn one_of_32_claimants_replaces_a_dead_owner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let job = HammerJob {
        threads: 8,
        ..HammerJob::new("contend-run")
    };
    let mut hammers: Vec<Hammer> = (0..4)
        .map(|_| Hammer::start(HAMMER, &test_db, &job))
        .collect();
    hammers
        .iter_mut()
        .for_each(|hammer| drop(hammer.expect_line("ready")));
    for _ in 0..trials(100, 5) {
        let plan = new_plan();
        let (mut owner, dead) = start_owner(&test_db, plan);
        owner.kill();
        hammers
            .iter_mut()
            .for_each(|hammer| hammer.send_line(&plan.to_string()));
        let lines: Vec<String> = hammers
            .iter_mut()
            .flat_map(|hammer| {
                (0..8)
                    .map(|_| hammer.next_line().unwrap())
                    .collect::<Vec<_>>()
            })
            .collect();
        let won: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("won "))
            .collect();
        assert_eq!(won, [(dead.epoch + 1).to_string()], "{lines:?}");
        assert!(
            database_time(&opened) < dead.expires_at,
            "the lease had run out anyway"
        );
        let blamed = format!("held {}", dead.owner);
        assert!(
            !lines.contains(&blamed),
            "a loser was told of the dead owner"
        );
        // Two recorded claims: the dead owner's and the winner's.
        assert_eq!(
            ledger::events(&opened.store, StreamId::Plan(plan), 0).len(),
            2
        );
    }
}
