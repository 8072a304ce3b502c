//! An owner that dies on this machine is replaced at once; one that only hangs is not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{Phase, StreamId, Timestamp};
use cleveragents_engine::ports::{Claim, Claimed, Ids, Lease, Liveness, Slots, StoreError};
use cleveragents_engine::runs::{Outcome, RunService};
use cleveragents_engine::system::SystemIds;
use cleveragents_proof::child::{Hammer, Job};
use cleveragents_proof::place::operation;
use cleveragents_proof::{Backend, Opened, Place, block_on, trials};

use crate::{HAMMER, ledger};

engines! {
    a_killed_owner_is_replaced_before_its_lease_ends,
    a_hanging_owner_keeps_its_run_until_its_lease_ends,
    of_thirty_two_who_see_a_dead_owner_one_takes_over,
}

/// What a user calls at once; generous, because the machine may be loaded.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A process that owns `plan`'s run, and the lease it says it has.
fn owner_of(place: &Place, plan: PlanId) -> (Hammer, Lease) {
    let id = plan.to_string();
    let more = ["--plan", id.as_str()];
    let job = Job {
        more: &more,
        ..Job::new("claim")
    };
    let mut hammer = Hammer::start(HAMMER, place, &job);
    hammer.expect("ready");
    let line = hammer.expect("claimed ");
    let words: Vec<&str> = line.split(' ').collect();
    let lease = Lease {
        plan,
        epoch: words[1].parse().unwrap(),
        owner: words[2].parse().unwrap(),
        expires_at: Timestamp::from_micros(words[3].parse().unwrap()),
    };
    (hammer, lease)
}

fn service(opened: &Opened) -> RunService {
    RunService::new(
        opened.store.clone(),
        Arc::new(SystemIds),
        opened.presence.clone(),
        opened.owner,
    )
}

fn now(opened: &Opened) -> Timestamp {
    let now = block_on(opened.store.read(|unit| unit.now()));
    now.unwrap_or_else(|error: StoreError| panic!("{error}"))
}

fn new_plan() -> PlanId {
    PlanId::new(SystemIds.next())
}

fn a_killed_owner_is_replaced_before_its_lease_ends(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let service = service(&opened);
    let mut spans = Vec::new();
    for _ in 0..trials(50, 5) {
        let plan = new_plan();
        let (mut hammer, dead) = owner_of(&place, plan);
        let held = block_on(service.claim(plan, Phase::Execute, Slots::Shared)).unwrap();
        assert!(matches!(held, Outcome::Held(holder) if holder.owner == dead.owner));
        hammer.kill();
        let killed = Instant::now();
        let won = block_on(service.claim(plan, Phase::Execute, Slots::Shared)).unwrap();
        spans.push(killed.elapsed());
        let Outcome::Won(lease) = won else {
            panic!("the dead owner is still in the way: {won:?}");
        };
        assert!(
            now(&opened) < dead.expires_at,
            "the lease had run out anyway"
        );
        assert_eq!(lease.lease().epoch, dead.epoch + 1);
    }
    spans.sort_unstable();
    let (median, most) = (spans[spans.len() / 2], spans[spans.len() - 1]);
    println!("{backend:?}: takeover {median:?} (median), {most:?} (most) after the kill");
    println!("{backend:?}: all {spans:?}");
    assert!(median < AT_ONCE, "half of the takeovers took {median:?}");
}

fn a_hanging_owner_keeps_its_run_until_its_lease_ends(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let plan = new_plan();
    let (mut hammer, lease) = owner_of(&place, plan);
    let claim = || block_on(service(&opened).claim(plan, Phase::Execute, Slots::Shared)).unwrap();

    hammer.freeze();
    assert!(matches!(claim(), Outcome::Held(holder) if holder.owner == lease.owner));
    hammer.thaw();
    hammer.tell("write");
    hammer.expect("written");
    hammer.tell("beat");
    hammer.expect("written");

    hammer.freeze();
    let old = lease.clone();
    let expired = opened.store.write(operation("test.expire"), move |unit| {
        unit.heartbeat(&old, Duration::ZERO)
    });
    let _: Lease = block_on(expired).unwrap_or_else(|e: StoreError| panic!("{e}"));
    // Its process is alive, so the service lets it be; only a claim that knows nothing of it wins.
    assert!(matches!(claim(), Outcome::Held(holder) if holder.owner == lease.owner));
    let Claimed::Won(taken) = claim_expired(&opened, plan) else {
        panic!("an expired lease is in the way");
    };
    assert_eq!(taken.epoch, lease.epoch + 1);
    let stream = StreamId::Plan(plan);
    let before = ledger::events(&opened.store, stream, 0).len();
    hammer.thaw();
    for order in ["write", "beat", "write"] {
        hammer.tell(order);
        hammer.expect("lost");
    }
    assert_eq!(ledger::events(&opened.store, stream, 0).len(), before);
    ledger::assert_verified(&opened.store, &[stream]);
}

/// A claim that knows of nobody's death: only the lease's end counts.
fn claim_expired(opened: &Opened, plan: PlanId) -> Claimed {
    let claim = Claim {
        plan,
        phase: Phase::Execute,
        owner: OwnerId::new(SystemIds.next()),
        node: opened.presence.node().to_owned(),
        lease: Duration::from_secs(600),
        slots: Slots::Shared,
        dead: Vec::new(),
    };
    let claimed = opened
        .store
        .write(operation("test.claim"), move |unit| unit.claim_run(&claim));
    block_on(claimed).unwrap_or_else(|error: StoreError| panic!("{error}"))
}

fn of_thirty_two_who_see_a_dead_owner_one_takes_over(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let job = Job {
        threads: 8,
        ..Job::new("contend-run")
    };
    let mut hammers: Vec<Hammer> = (0..4)
        .map(|_| Hammer::start(HAMMER, &place, &job))
        .collect();
    hammers
        .iter_mut()
        .for_each(|hammer| drop(hammer.expect("ready")));
    for _ in 0..trials(100, 5) {
        let plan = new_plan();
        let (mut owner, dead) = owner_of(&place, plan);
        owner.kill();
        hammers
            .iter_mut()
            .for_each(|hammer| hammer.tell(&plan.to_string()));
        let lines: Vec<String> = hammers
            .iter_mut()
            .flat_map(|hammer| (0..8).map(|_| hammer.line().unwrap()).collect::<Vec<_>>())
            .collect();
        let won: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("won "))
            .collect();
        assert_eq!(won, [(dead.epoch + 1).to_string()], "{lines:?}");
        assert!(
            now(&opened) < dead.expires_at,
            "the lease had run out anyway"
        );
        let blamed = format!("held {}", dead.owner);
        assert!(
            !lines.contains(&blamed),
            "a loser was told of the dead owner"
        );
        // Two claims on record: the dead owner's and the winner's.
        assert_eq!(
            ledger::events(&opened.store, StreamId::Plan(plan), 0).len(),
            2
        );
    }
}
