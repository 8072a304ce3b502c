//! Runs: one owner per running plan, a higher epoch for each new owner.

use std::time::Duration;

use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{Phase, StreamId};
use cleveragents_integration_tests::samples::{event, owner, plan_id};
use cleveragents_integration_tests::store_access::{
    events, read, run_concurrently, try_write, write,
};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{
    Claim, Holder, Lease, Result, RunClaimOutcome, Slots, StoreError, StoreHandle,
};

contract! {
    a_free_run_is_claimed,
    an_owners_own_live_run_is_held,
    an_owners_own_expired_run_gets_a_new_epoch,
    a_held_run_names_its_holder,
    a_released_run_is_claimed_with_a_higher_epoch,
    a_heartbeat_moves_the_end,
    requests_with_an_old_lease_are_refused,
    a_fenced_transaction_of_an_old_lease_writes_nothing,
    an_expired_run_is_taken_over_by_exactly_one,
    epochs_only_grow,
    only_the_named_dead_owner_is_replaced,
}

pub(super) const LONG: Duration = Duration::from_secs(3600);

/// A claim of `plan` on node `here` that needs no slot.
pub(super) fn claim(plan: PlanId, owner: OwnerId, lease: Duration) -> Claim {
    Claim {
        plan,
        phase: Phase::Execute,
        owner,
        node: "here".to_owned(),
        lease,
        slots: Slots::Shared,
        dead_owners: Vec::new(),
    }
}

pub(super) async fn try_claim(store: &StoreHandle, claim: Claim) -> RunClaimOutcome {
    write(store, move |tx| tx.claim_run(&claim)).await
}

pub(super) async fn claim_lease(store: &StoreHandle, claim: Claim) -> Lease {
    match try_claim(store, claim).await {
        RunClaimOutcome::Won(lease) => lease,
        other => panic!("{other:?} instead of a lease"),
    }
}

pub(super) async fn release(store: &StoreHandle, lease: &Lease) -> Result<()> {
    let lease = lease.clone();
    try_write(store, move |tx| tx.release_run(&lease)).await
}

async fn heartbeat(store: &StoreHandle, lease: &Lease, extend: Duration) -> Result<Lease> {
    let lease = lease.clone();
    try_write(store, move |tx| tx.heartbeat(&lease, extend)).await
}

pub(super) async fn runs(store: &StoreHandle) -> Vec<Holder> {
    read(store, |tx| tx.runs()).await
}

#[track_caller]
fn assert_lost<T: std::fmt::Debug>(answer: Result<T>, lease: &Lease) {
    match answer {
        Err(StoreError::LeaseLost { plan, epoch }) => {
            assert_eq!((plan, epoch), (lease.plan, lease.epoch));
        }
        other => panic!("{other:?} instead of LeaseLost"),
    }
}

fn a_free_run_is_claimed(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (plan, one) = (plan_id(), owner());
    block_on(async {
        let lease = claim_lease(&opened.store, claim(plan, one, LONG)).await;
        assert_eq!((lease.plan, lease.owner, lease.epoch), (plan, one, 1));
        let found = runs(&opened.store).await;
        assert_eq!(
            (found.len(), found[0].phase, found[0].epoch),
            (1, Phase::Execute, 1)
        );
        assert_eq!(found[0].expires_at, lease.expires_at);
        let other = claim_lease(&opened.store, claim(plan_id(), one, LONG)).await;
        assert_eq!(other.epoch, 1, "plans are independent");
    });
}

/// Two tasks of one process are separate claimants: only one of them may move the plan.
fn an_owners_own_live_run_is_held(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (plan, one) = (plan_id(), owner());
    block_on(async {
        let lease = claim_lease(&opened.store, claim(plan, one, LONG)).await;
        let again = Claim {
            phase: Phase::Apply,
            ..claim(plan, one, LONG * 2)
        };
        let RunClaimOutcome::Held(holder) = try_claim(&opened.store, again).await else {
            panic!("claimed twice");
        };
        assert_eq!((holder.owner, holder.epoch), (one, 1));
        assert_eq!(
            (holder.phase, holder.expires_at),
            (Phase::Execute, lease.expires_at)
        );
        // The first claim is unaffected.
        heartbeat(&opened.store, &lease, LONG).await.unwrap();
        release(&opened.store, &lease).await.unwrap();
        assert_eq!(
            claim_lease(&opened.store, claim(plan, one, LONG))
                .await
                .epoch,
            2,
            "each claim that wins is another one"
        );
    });
}

fn an_owners_own_expired_run_gets_a_new_epoch(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (plan, one) = (plan_id(), owner());
    block_on(async {
        let old = claim_lease(&opened.store, claim(plan, one, Duration::ZERO)).await;
        let new = claim_lease(&opened.store, claim(plan, one, LONG)).await;
        assert_eq!((old.epoch, new.epoch), (1, 2));
        assert_lost(heartbeat(&opened.store, &old, LONG).await, &old);
        assert_lost(release(&opened.store, &old).await, &old);
        heartbeat(&opened.store, &new, LONG).await.unwrap();
    });
}

fn a_held_run_names_its_holder(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (plan, one) = (plan_id(), owner());
    block_on(async {
        let theirs = Claim {
            node: "there \0 é".to_owned(),
            ..claim(plan, one, LONG)
        };
        let lease = claim_lease(&opened.store, theirs).await;
        let holder = Holder {
            plan,
            phase: Phase::Execute,
            owner: one,
            node: "there \0 é".to_owned(),
            epoch: 1,
            claimed_at: lease.expires_at.before(LONG),
            expires_at: lease.expires_at,
        };
        let asked = try_claim(&opened.store, claim(plan, owner(), LONG)).await;
        assert_eq!(asked, RunClaimOutcome::Held(holder.clone()));
        assert_eq!(runs(&opened.store).await, [holder]);
    });
}

fn a_released_run_is_claimed_with_a_higher_epoch(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (plan, one, two) = (plan_id(), owner(), owner());
    block_on(async {
        for (epoch, owner) in [(1, one), (2, two), (3, two), (4, one)] {
            let lease = claim_lease(&opened.store, claim(plan, owner, LONG)).await;
            assert_eq!(lease.epoch, epoch);
            release(&opened.store, &lease).await.unwrap();
            assert!(runs(&opened.store).await.is_empty());
            assert_lost(release(&opened.store, &lease).await, &lease);
        }
    });
}

fn a_heartbeat_moves_the_end(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (plan, one) = (plan_id(), owner());
    block_on(async {
        // The lease expired, but no other owner claimed the run: it can be renewed.
        let lease = claim_lease(&opened.store, claim(plan, one, Duration::ZERO)).await;
        let beat = heartbeat(&opened.store, &lease, LONG).await.unwrap();
        assert!(beat.expires_at >= lease.expires_at.after(LONG));
        let expires_at = beat.expires_at;
        assert_eq!(
            beat,
            Lease {
                expires_at,
                ..lease
            }
        );
        let RunClaimOutcome::Held(holder) =
            try_claim(&opened.store, claim(plan, owner(), LONG)).await
        else {
            panic!("not held");
        };
        assert_eq!((holder.owner, holder.expires_at), (one, expires_at));
    });
}

fn requests_with_an_old_lease_are_refused(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let plan = plan_id();
    block_on(async {
        let old = claim_lease(&opened.store, claim(plan, owner(), Duration::ZERO)).await;
        let new = claim_lease(&opened.store, claim(plan, owner(), LONG)).await;
        assert_eq!(new.epoch, 2);
        assert_lost(heartbeat(&opened.store, &old, LONG).await, &old);
        assert_lost(release(&opened.store, &old).await, &old);
        let forged = Lease { epoch: 2, ..old };
        assert_lost(heartbeat(&opened.store, &forged, LONG).await, &forged);
        assert_lost(release(&opened.store, &forged).await, &forged);
        let unknown = Lease {
            plan: plan_id(),
            ..new.clone()
        };
        assert_lost(heartbeat(&opened.store, &unknown, LONG).await, &unknown);
        let found = runs(&opened.store).await;
        assert_eq!(
            (found[0].owner, found[0].expires_at),
            (new.owner, new.expires_at)
        );
    });
}

fn a_fenced_transaction_of_an_old_lease_writes_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let plan = plan_id();
    let stream = StreamId::Plan(plan);
    block_on(async {
        let fenced = |lease: &Lease| {
            let lease = lease.clone();
            try_write(&opened.store, move |tx| {
                tx.append(stream, &[event(1)])?;
                tx.fence(&lease)
            })
        };
        let old = claim_lease(&opened.store, claim(plan, owner(), Duration::ZERO)).await;
        fenced(&old).await.unwrap();
        let new = claim_lease(&opened.store, claim(plan, owner(), LONG)).await;
        assert_lost(fenced(&old).await, &old);
        fenced(&new).await.unwrap();
        release(&opened.store, &new).await.unwrap();
        assert_lost(fenced(&new).await, &new);
        assert_eq!(events(&opened.store, stream).await.len(), 2);
    });
}

fn an_expired_run_is_taken_over_by_exactly_one(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for _ in 0..5 {
            let plan = plan_id();
            claim_lease(&opened.store, claim(plan, owner(), Duration::ZERO)).await;
            let answers = run_concurrently(16, |_| {
                let store = opened.store.clone();
                async move { try_claim(&store, claim(plan, owner(), LONG)).await }
            })
            .await;
            let mut winners = Vec::new();
            let mut holders = Vec::new();
            for answer in answers {
                match answer {
                    RunClaimOutcome::Won(lease) => {
                        winners.push((lease.owner, lease.epoch, lease.expires_at))
                    }
                    RunClaimOutcome::Held(holder) => {
                        holders.push((holder.owner, holder.epoch, holder.expires_at));
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!((winners.len(), holders.len()), (1, 15));
            assert_eq!(winners[0].1, 2);
            assert!(
                holders.iter().all(|holder| *holder == winners[0]),
                "{holders:?}"
            );
        }
    });
}

fn epochs_only_grow(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let plan = plan_id();
    block_on(async {
        for round in 1..=50 {
            let lease = if round % 2 == 0 { LONG } else { Duration::ZERO };
            let lease = claim_lease(&opened.store, claim(plan, owner(), lease)).await;
            assert_eq!(lease.epoch, round);
            if round % 2 == 0 {
                release(&opened.store, &lease).await.unwrap();
            }
        }
    });
}

fn only_the_named_dead_owner_is_replaced(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (plan, dead, heir) = (plan_id(), owner(), owner());
    block_on(async {
        claim_lease(&opened.store, claim(plan, owner(), Duration::ZERO)).await;
        let lease = claim_lease(&opened.store, claim(plan, dead, LONG)).await;
        assert_eq!(lease.epoch, 2);
        for wrong in [(dead, 1), (dead, 3), (owner(), 2)] {
            let asked = Claim {
                dead_owners: vec![wrong],
                ..claim(plan, heir, LONG)
            };
            let RunClaimOutcome::Held(holder) = try_claim(&opened.store, asked).await else {
                panic!("{wrong:?} was enough");
            };
            assert_eq!((holder.owner, holder.epoch), (dead, 2));
        }
        let right = Claim {
            dead_owners: vec![(dead, 2)],
            ..claim(plan, heir, LONG)
        };
        let won = claim_lease(&opened.store, right.clone()).await;
        assert_eq!((won.owner, won.epoch), (heir, 3));
        // A second caller with proof of the same death is too late.
        let late = Claim {
            owner: owner(),
            ..right
        };
        assert!(
            matches!(try_claim(&opened.store, late).await, RunClaimOutcome::Held(holder) if holder.owner == heir)
        );
        assert_lost(release(&opened.store, &lease).await, &lease);
    });
}

/// On PostgreSQL transactions overlap: a fence must hold until its own transaction ends.
mod postgres_only {
    use std::sync::mpsc;

    use cleveragents_integration_tests::store_access::TIMEOUT;
    use cleveragents_integration_tests::test_database::psql;

    use super::*;

    /// Waiters for a row lock queue with a tuple lock.
    const WAITERS: &str = "SELECT count(*) FROM pg_locks \
        WHERE locktype = 'tuple' AND relation = 'runs'::regclass";

    #[test]
    fn a_fence_keeps_a_takeover_out_until_its_transaction_ends() {
        let test_db = TestDatabase::new(Backend::Postgres);
        let opened = test_db.open();
        let plan = plan_id();
        let stream = StreamId::Plan(plan);
        let url = test_db.url.clone().unwrap();
        block_on(async {
            let lease = claim_lease(&opened.store, claim(plan, owner(), Duration::ZERO)).await;
            let (fenced, fences) = mpsc::channel();
            let store = opened.store.clone();
            let writing = tokio::spawn(async move {
                write(&store, move |tx| {
                    tx.fence(&lease)?;
                    fenced.send(()).unwrap();
                    while psql(&url, WAITERS) == "0" {}
                    tx.append(stream, &[event(1)])
                })
                .await
            });
            fences.recv_timeout(TIMEOUT).unwrap();
            let (new, head) = write(&opened.store, move |tx| {
                let claimed = tx.claim_run(&claim(plan, owner(), LONG))?;
                Ok((claimed, tx.head(stream)?))
            })
            .await;
            let before = writing.await.unwrap();
            assert_eq!(head, before, "the takeover came after the fenced write");
            assert!(matches!(new, RunClaimOutcome::Won(lease) if lease.epoch == 2));
        });
    }
}
