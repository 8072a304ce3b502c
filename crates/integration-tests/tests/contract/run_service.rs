//! The run service: recorded claims, immediate takeover from owners proven dead, fenced writes.

use std::fs::{self, File};
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::event::payloads::{RunClaimed, RunReleased};
use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{Event, EventKind, Phase, StreamId, Timestamp};
use cleveragents_engine::runs::{ClaimOutcome, LEASE, RunLease, RunService};
use cleveragents_integration_tests::samples::{event, owner, plan_id};
use cleveragents_integration_tests::store_access::{
    events, payload_of, release_run, run_concurrently, write,
};
use cleveragents_integration_tests::test_database::new_operation;
use cleveragents_integration_tests::{
    Backend, OpenTestDatabase, TestDatabase, block_on, contract, raw_sql,
};
use cleveragents_ports::system::{SystemClock, SystemIds};
use cleveragents_ports::{
    Claim, Clock, Holder, Lease, Liveness, OwnerStatus, RunClaimOutcome, Slots, StoreError,
    StoreHandle,
};
use cleveragents_store::{ProcessInfo, ProcessPresence};

contract! {
    claims_and_releases_are_on_the_record,
    a_refused_claim_leaves_no_record,
    a_live_owner_keeps_its_run,
    an_owner_of_unknown_liveness_keeps_its_run,
    a_dead_owner_of_another_node_keeps_its_run,
    an_exited_owner_is_replaced_at_once,
    a_dead_owner_is_replaced_at_once,
    one_of_sixteen_claimants_replaces_a_dead_owner,
    dead_owners_use_no_slots,
    a_waiting_claimant_sees_a_freed_slot,
    a_write_with_a_lost_lease_is_refused,
    a_heartbeat_keeps_a_lease,
    stale_runs_are_listed,
    a_live_owner_keeps_its_expired_run;
    durable:
    a_heartbeat_leaves_no_operation,
    a_fast_clock_takes_no_run_of_a_live_owner,
}

fn service(opened: &OpenTestDatabase, owner: OwnerId) -> RunService {
    let liveness = Arc::clone(&opened.presence) as Arc<dyn Liveness>;
    RunService::new(opened.store.clone(), Arc::new(SystemIds), liveness, owner)
}

async fn claim(service: &RunService, plan: PlanId) -> ClaimOutcome {
    let claimed = service.claim(plan, Phase::Execute, Slots::Limit(4)).await;
    claimed.unwrap()
}

async fn claim_lease(service: &RunService, plan: PlanId) -> RunLease {
    match claim(service, plan).await {
        ClaimOutcome::Won(lease) => lease,
        other => panic!("{other:?} instead of a lease"),
    }
}

async fn claim_held(service: &RunService, plan: PlanId) -> Holder {
    match claim(service, plan).await {
        ClaimOutcome::Held(holder) => holder,
        other => panic!("{other:?} instead of a holder"),
    }
}

/// The service of another process of this node, on the same store.
fn service_of_presence(opened: &OpenTestDatabase, presence: &Arc<ProcessPresence>) -> RunService {
    let liveness = Arc::clone(presence) as Arc<dyn Liveness>;
    RunService::new(
        opened.store.clone(),
        Arc::new(SystemIds),
        liveness,
        presence.owner(),
    )
}

/// The state after a killed process: a lock file without a holder.
pub(super) fn dead_owner(test_db: &TestDatabase) -> OwnerId {
    let owner = owner();
    let folder = test_db.folder().join("run");
    fs::create_dir_all(&folder).unwrap();
    File::create(folder.join(format!("{owner}.lock"))).unwrap();
    owner
}

/// A second process in the same folder.
pub(super) fn announce_presence(test_db: &TestDatabase, node: &str) -> ProcessPresence {
    let card = ProcessInfo {
        pid: 1,
        command: "other".to_owned(),
        since: Timestamp::default(),
    };
    ProcessPresence::announce(test_db.folder(), node.to_owned(), owner(), &card).unwrap()
}

fn kinds(events: &[Event]) -> Vec<&EventKind> {
    events.iter().map(|event| &event.kind).collect()
}

fn claims_and_releases_are_on_the_record(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (service, plan) = (service(&opened, opened.owner), plan_id());
    block_on(async {
        let lease = claim_lease(&service, plan).await;
        assert_eq!((lease.lease().plan, lease.lease().epoch), (plan, 1));
        assert_eq!(lease.lease().owner, opened.owner);
        release_run(lease).await;
        assert_eq!(claim_lease(&service, plan).await.lease().epoch, 2);
        let found = events(&opened.store, StreamId::Plan(plan)).await;
        let wanted = [
            &EventKind::RunClaimed,
            &EventKind::RunReleased,
            &EventKind::RunClaimed,
        ];
        assert_eq!(kinds(&found), wanted);
        for event in &found {
            assert_eq!(event.actor, opened.owner.to_string());
        }
        let record: RunClaimed = payload_of(&found[0]);
        assert_eq!((record.epoch, record.phase), (1, Phase::Execute));
        assert_eq!(record.owner, opened.owner);
        assert_eq!(record.node, opened.presence.node());
        assert_eq!(record.dead, []);
        assert_eq!(payload_of::<RunReleased>(&found[1]).epoch, 1);
    });
}

fn a_refused_claim_leaves_no_record(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (one, two) = (service(&opened, opened.owner), service(&opened, owner()));
    let (plan, other) = (plan_id(), plan_id());
    block_on(async {
        let lease = claim_lease(&one, plan).await;
        assert_eq!(claim_held(&two, plan).await.owner, opened.owner);
        let full = two
            .claim(other, Phase::Execute, Slots::Limit(1))
            .await
            .unwrap();
        assert!(
            matches!(full, ClaimOutcome::NoSlot { running } if running.len() == 1 && running[0].plan == plan)
        );
        assert_eq!(events(&opened.store, StreamId::Plan(plan)).await.len(), 1);
        assert!(
            events(&opened.store, StreamId::Plan(other))
                .await
                .is_empty()
        );
        release_run(lease).await;
        assert_eq!(claim_lease(&two, plan).await.lease().epoch, 2);
    });
}

fn a_waiting_claimant_sees_a_freed_slot(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let mine = service(&opened, opened.owner);
    let (one, other) = (plan_id(), plan_id());
    block_on(async {
        let (first, second) = (
            claim_lease(&mine, one).await,
            claim_lease(&mine, other).await,
        );
        let full = mine.claim(plan_id(), Phase::Execute, Slots::Limit(2));
        let ClaimOutcome::NoSlot { running } = full.await.unwrap() else {
            panic!("a third run in two slots")
        };
        assert!(mine.are_all_running(&running).await.unwrap());
        first.heartbeat().await.unwrap();
        assert!(mine.are_all_running(&running).await.unwrap(), "it is alive");
        release_run(second).await;
        assert!(!mine.are_all_running(&running).await.unwrap());
        claim_lease(&mine, other).await;
        let again = mine.are_all_running(&running).await.unwrap();
        assert!(
            !again,
            "another run of the same plan is not the one that was in the way"
        );
    });
}

fn a_live_owner_keeps_its_run(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let neighbour = announce_presence(&test_db, opened.presence.node());
    let theirs = service(&opened, neighbour.owner());
    let mine = service(&opened, opened.owner);
    let plan = plan_id();
    block_on(async {
        claim_lease(&theirs, plan).await;
        assert_eq!(
            opened.presence.owner_status(neighbour.owner()),
            OwnerStatus::Alive
        );
        let holder = claim_held(&mine, plan).await;
        assert_eq!((holder.owner, holder.epoch), (neighbour.owner(), 1));
        assert_eq!(holder.expires_at, holder.claimed_at.after(LEASE));
        assert!(mine.stale().await.unwrap().is_empty());
    });
}

/// The OS lock of a process of this node proves that it is alive, whatever its lease says.
fn a_live_owner_keeps_its_expired_run(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let neighbour = announce_presence(&test_db, opened.presence.node());
    let theirs = service(&opened, neighbour.owner());
    let mine = service(&opened, opened.owner);
    let (plan, unknown) = (plan_id(), plan_id());
    block_on(async {
        let lease = claim_lease(&theirs, plan).await;
        expire(&opened.store, lease.lease().clone()).await;
        let holder = claim_held(&mine, plan).await;
        assert_eq!((holder.owner, holder.epoch), (neighbour.owner(), 1));
        assert!(mine.stale().await.unwrap().is_empty());
        assert!(mine.are_all_running(&[holder]).await.unwrap());
        // For an owner without proof only the lease decides.
        let stranger = claim_lease(&service(&opened, owner()), unknown).await;
        expire(&opened.store, stranger.lease().clone()).await;
        assert_eq!(mine.stale().await.unwrap().len(), 1);
        assert_eq!(claim_lease(&mine, unknown).await.lease().epoch, 2);
        drop(neighbour);
        // A missing or an unlocked lock file both end the proof of life.
        assert_eq!(claim_lease(&mine, plan).await.lease().epoch, 2);
    });
}

async fn expire(store: &StoreHandle, lease: Lease) {
    let _: Lease = write(store, move |tx| tx.heartbeat(&lease, Duration::ZERO)).await;
}

/// A clock that runs ahead of all others.
#[derive(Debug)]
struct FastClock(Duration);

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().after(self.0)
    }
}

fn a_fast_clock_takes_no_run_of_a_live_owner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let theirs = test_db.open();
    let skewed = test_db.open_with_clock(Arc::new(FastClock(Duration::from_secs(3600))));
    let (live, elsewhere) = (plan_id(), plan_id());
    let mine = service(&skewed, skewed.owner);
    block_on(async {
        let lease = claim_lease(&service(&theirs, theirs.owner), live).await;
        let holder = claim_held(&mine, live).await;
        assert_eq!((holder.owner, holder.epoch), (theirs.owner, 1));
        assert!(mine.stale().await.unwrap().is_empty());
        lease.heartbeat().await.unwrap();
        release_run(lease).await;
        // Nothing is proven about another node: its lease ends by the database's time.
        let other = Claim {
            plan: elsewhere,
            phase: Phase::Execute,
            owner: theirs.owner,
            node: "elsewhere".to_owned(),
            lease: Duration::ZERO,
            slots: Slots::Shared,
            dead_owners: Vec::new(),
        };
        let claimed = write(&theirs.store, move |tx| tx.claim_run(&other)).await;
        assert!(matches!(claimed, RunClaimOutcome::Won(_)));
        assert_eq!(claim_lease(&mine, elsewhere).await.lease().epoch, 2);
    });
}

fn an_owner_of_unknown_liveness_keeps_its_run(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (stranger, plan) = (owner(), plan_id());
    let mine = service(&opened, opened.owner);
    block_on(async {
        claim_lease(&service(&opened, stranger), plan).await;
        assert_eq!(opened.presence.owner_status(stranger), OwnerStatus::Unknown);
        assert_eq!(claim_held(&mine, plan).await.owner, stranger);
        // A process that ended without owning anything removed its file: nothing is proven about it
        // either.
        let gone = announce_presence(&test_db, opened.presence.node());
        let (left, plan) = (gone.owner(), plan_id());
        claim_lease(&service(&opened, left), plan).await;
        drop(gone);
        assert_eq!(opened.presence.owner_status(left), OwnerStatus::Unknown);
        assert_eq!(claim_held(&mine, plan).await.owner, left);
    });
}

/// A lock file proves something about this machine only: the same id may run elsewhere.
fn a_dead_owner_of_another_node_keeps_its_run(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (dead, plan) = (dead_owner(&test_db), plan_id());
    let mine = service(&opened, opened.owner);
    let theirs = Claim {
        plan,
        phase: Phase::Execute,
        owner: dead,
        node: "elsewhere".to_owned(),
        lease: LEASE,
        slots: Slots::Shared,
        dead_owners: Vec::new(),
    };
    block_on(async {
        let claimed = write(&opened.store, move |tx| tx.claim_run(&theirs)).await;
        assert!(matches!(claimed, RunClaimOutcome::Won(_)), "{claimed:?}");
        assert_eq!(opened.presence.owner_status(dead), OwnerStatus::Dead);
        let holder = claim_held(&mine, plan).await;
        assert_eq!((holder.owner, holder.epoch), (dead, 1));
        assert_eq!(holder.node, "elsewhere");
        assert!(mine.stale().await.unwrap().is_empty());
    });
}

fn an_exited_owner_is_replaced_at_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let mine = service(&opened, opened.owner);
    let plan = plan_id();
    let file = |owner: OwnerId| test_db.folder().join("run").join(format!("{owner}.lock"));
    block_on(async {
        let idle = announce_presence(&test_db, opened.presence.node());
        let left = idle.owner();
        assert!(file(left).exists());
        drop(idle);
        assert!(!file(left).exists(), "who never claimed leaves nothing");

        let busy = Arc::new(announce_presence(&test_db, opened.presence.node()));
        let left = busy.owner();
        let lease = claim_lease(&service_of_presence(&opened, &busy), plan).await;
        assert_eq!(claim_held(&mine, plan).await.owner, left);
        drop(busy);
        assert!(file(left).exists(), "the proof of its death");
        assert_eq!(mine.stale().await.unwrap().len(), 1);
        let heir = claim_lease(&mine, plan).await;
        assert_eq!((heir.lease().owner, heir.lease().epoch), (opened.owner, 2));
        assert!(lease.release().await.is_err());
    });
}

fn a_dead_owner_is_replaced_at_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (dead, plan) = (dead_owner(&test_db), plan_id());
    let mine = service(&opened, opened.owner);
    block_on(async {
        let lost = claim_lease(&service(&opened, dead), plan).await;
        assert_eq!(opened.presence.owner_status(dead), OwnerStatus::Dead);
        let lease = claim_lease(&mine, plan).await;
        assert_eq!(
            (lease.lease().owner, lease.lease().epoch),
            (opened.owner, 2)
        );
        let found = events(&opened.store, StreamId::Plan(plan)).await;
        assert_eq!(payload_of::<RunClaimed>(&found[1]).dead, [dead]);
        let refused = lost.release().await;
        assert!(
            matches!(refused, Err(StoreError::LeaseLost { epoch: 1, .. })),
            "{refused:?}"
        );
        assert_eq!(events(&opened.store, StreamId::Plan(plan)).await.len(), 2);
    });
}

fn dead_owners_use_no_slots(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (one, two) = (dead_owner(&test_db), dead_owner(&test_db));
    let mine = service(&opened, opened.owner);
    block_on(async {
        claim_lease(&service(&opened, one), plan_id()).await;
        claim_lease(&service(&opened, two), plan_id()).await;
        let claimed = mine.claim(plan_id(), Phase::Execute, Slots::Limit(1)).await;
        assert!(matches!(claimed, Ok(ClaimOutcome::Won(_))), "{claimed:?}");
        // A live owner occupies a slot.
        let claimed = mine.claim(plan_id(), Phase::Execute, Slots::Limit(1)).await;
        assert!(
            matches!(claimed, Ok(ClaimOutcome::NoSlot { .. })),
            "{claimed:?}"
        );
    });
}

fn one_of_sixteen_claimants_replaces_a_dead_owner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (dead, plan) = (dead_owner(&test_db), plan_id());
    block_on(async {
        claim_lease(&service(&opened, dead), plan).await;
        let answers = run_concurrently(16, |_| {
            let service = service(&opened, owner());
            async move { claim(&service, plan).await }
        })
        .await;
        let mut winners = Vec::new();
        let mut holders = Vec::new();
        for answer in answers {
            match answer {
                ClaimOutcome::Won(lease) => {
                    winners.push((lease.lease().owner, lease.lease().epoch))
                }
                ClaimOutcome::Held(holder) => holders.push((holder.owner, holder.epoch)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((winners.len(), holders.len()), (1, 15));
        assert_eq!(winners[0].1, 2);
        assert!(
            holders.iter().all(|holder| *holder == winners[0]),
            "{holders:?}"
        );
        let found = events(&opened.store, StreamId::Plan(plan)).await;
        assert_eq!(
            kinds(&found),
            [&EventKind::RunClaimed, &EventKind::RunClaimed]
        );
    });
}

/// Takes `plan` over from `from` as if that owner were dead.
async fn take_over(store: &StoreHandle, plan: PlanId, from: (OwnerId, i64), lease: Duration) {
    let claim = Claim {
        plan,
        phase: Phase::Execute,
        owner: owner(),
        node: "elsewhere".to_owned(),
        lease,
        slots: Slots::Shared,
        dead_owners: vec![from],
    };
    let claimed = write(store, move |tx| tx.claim_run(&claim)).await;
    assert!(matches!(claimed, RunClaimOutcome::Won(_)), "{claimed:?}");
}

fn a_write_with_a_lost_lease_is_refused(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let plan = plan_id();
    let stream = StreamId::Plan(plan);
    block_on(async {
        let lease = claim_lease(&service(&opened, opened.owner), plan).await;
        let append = || {
            lease.write(new_operation("test.fenced"), move |tx| {
                tx.append(stream, &[event(1)])
            })
        };
        assert_eq!(append().await.unwrap().stream_seq, 2);
        take_over(&opened.store, plan, (opened.owner, 1), LEASE).await;
        let refused = append().await;
        assert!(
            matches!(refused, Err(StoreError::LeaseLost { plan: lost, epoch: 1 }) if lost == plan),
            "{refused:?}"
        );
        assert_eq!(events(&opened.store, stream).await.len(), 2);
    });
}

fn a_heartbeat_keeps_a_lease(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let plan = plan_id();
    block_on(async {
        let lease = claim_lease(&service(&opened, opened.owner), plan).await;
        let before = lease.lease().expires_at;
        let beat = lease.heartbeat().await.unwrap();
        assert!(beat.expires_at >= before);
        assert_eq!(
            claim_held(&service(&opened, owner()), plan)
                .await
                .expires_at,
            beat.expires_at
        );
        take_over(&opened.store, plan, (opened.owner, 1), LEASE).await;
        let refused = lease.heartbeat().await;
        assert!(
            matches!(refused, Err(StoreError::LeaseLost { epoch: 1, .. })),
            "{refused:?}"
        );
        // The keeper of the lease notifies its owner.
        let keeper = lease.keep_alive();
        cleveragents_integration_tests::store_access::with_timeout(keeper.lost()).await;
    });
}

fn a_heartbeat_leaves_no_operation(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let plan = plan_id();
    let operations = || raw_sql::query_number(&test_db, "SELECT count(*) FROM operations");
    block_on(async {
        let lease = claim_lease(&service(&opened, opened.owner), plan).await;
        let before = operations();
        assert!(before > 0, "the claim is one");
        let mut end = lease.lease().expires_at;
        for _ in 0..5 {
            let beat = lease.heartbeat().await.unwrap();
            assert!(beat.expires_at >= end, "it is written all the same");
            end = beat.expires_at;
        }
        assert_eq!(operations(), before);
        let holder = claim_held(&service(&opened, owner()), plan).await;
        assert_eq!(holder.expires_at, end);
    });
}

fn stale_runs_are_listed(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let mine = service(&opened, opened.owner);
    let (live, dead_run, expired) = (plan_id(), plan_id(), plan_id());
    let dead = dead_owner(&test_db);
    block_on(async {
        claim_lease(&mine, live).await;
        claim_lease(&service(&opened, dead), dead_run).await;
        claim_lease(&mine, expired).await;
        take_over(&opened.store, expired, (opened.owner, 1), Duration::ZERO).await;
        release_run(claim_lease(&mine, plan_id()).await).await;
        let stale = mine.stale().await.unwrap();
        let mut found: Vec<PlanId> = stale.iter().map(|holder| holder.plan).collect();
        let mut wanted = [dead_run, expired];
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
        claim_lease(&mine, dead_run).await;
        claim_lease(&mine, expired).await;
        assert!(mine.stale().await.unwrap().is_empty());
    });
}
