//! Named locks: one holder, an expiry, a new epoch for every new holder.

use std::time::Duration;

use cleveragents_domain::id::OwnerId;
use cleveragents_integration_tests::samples::{event, owner, stream};
use cleveragents_integration_tests::store_access::{
    events, read, run_concurrently, try_write, write,
};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::locks::NAME_MAXIMUM;
use cleveragents_ports::{LockGrant, LockRequest, LockRow, Result, StoreError, StoreHandle};

contract! {
    a_free_lock_is_taken_and_a_held_one_names_its_holder,
    an_owner_takes_its_own_lock_again,
    a_freed_lock_is_taken_with_a_higher_epoch,
    a_renewed_lock_ends_later,
    an_expired_lock_can_be_neither_renewed_nor_reentered,
    an_expired_lock_is_taken_over_by_exactly_one,
    epochs_only_grow,
    requests_with_an_old_grant_are_refused,
    all_locks_of_one_owner_are_freed_at_once,
    a_write_under_a_lost_lock_is_refused_whole,
    odd_lock_names_work,
    a_huge_name_is_refused_and_the_longest_works,
    reentry_never_shortens_a_lock,
    only_the_named_dead_holder_is_replaced,
}

pub(super) const LONG: Duration = Duration::from_secs(3600);
pub(super) const NODE: &str = "here";

pub(super) async fn acquire(
    store: &StoreHandle,
    name: &str,
    owner: OwnerId,
    ttl: Duration,
) -> Result<LockGrant> {
    let request = LockRequest {
        name: name.to_owned(),
        owner,
        node: NODE.to_owned(),
        ttl,
        dead_holder: None,
    };
    try_write(store, move |tx| tx.acquire_lock(&request)).await
}

pub(super) async fn release(store: &StoreHandle, grant: &LockGrant) -> Result<()> {
    let grant = grant.clone();
    try_write(store, move |tx| tx.release_lock(&grant)).await
}

async fn renew(store: &StoreHandle, grant: &LockGrant, ttl: Duration) -> Result<LockGrant> {
    let grant = grant.clone();
    try_write(store, move |tx| tx.renew_lock(&grant, ttl)).await
}

pub(super) async fn rows(store: &StoreHandle) -> Vec<LockRow> {
    read(store, |tx| tx.locks()).await
}

#[track_caller]
pub(super) fn assert_held<T: std::fmt::Debug>(answer: Result<T>, by: &LockGrant) {
    match answer {
        Err(StoreError::LockHeld {
            name,
            owner,
            node: _,
            epoch,
            expires_at,
        }) => assert_eq!(
            (name, owner, epoch, expires_at),
            (by.name.clone(), by.owner, by.epoch, by.expires_at)
        ),
        other => panic!("{other:?} instead of LockHeld by {by:?}"),
    }
}

#[track_caller]
pub(super) fn assert_lost<T: std::fmt::Debug>(answer: Result<T>, grant: &LockGrant) {
    match answer {
        Err(StoreError::LockLost { name, owner, epoch }) => {
            assert_eq!(
                (name, owner, epoch),
                (grant.name.clone(), grant.owner, grant.epoch)
            );
        }
        other => panic!("{other:?} instead of LockLost by {grant:?}"),
    }
}

fn a_free_lock_is_taken_and_a_held_one_names_its_holder(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (one, two) = (owner(), owner());
    block_on(async {
        let grant = acquire(&opened.store, "a", one, LONG).await.unwrap();
        assert_eq!((grant.name.as_str(), grant.owner), ("a", one));
        assert_eq!((grant.epoch, grant.holds), (1, 1));
        assert_held(acquire(&opened.store, "a", two, LONG).await, &grant);
        let found = rows(&opened.store).await;
        let row = LockRow {
            name: "a".to_owned(),
            owner: one,
            node: NODE.to_owned(),
            epoch: 1,
            acquired_at: grant.expires_at.before(LONG),
            expires_at: grant.expires_at,
        };
        assert_eq!(found, [row]);
        let other = acquire(&opened.store, "b", two, LONG).await.unwrap();
        assert_eq!(other.epoch, 1);
    });
}

fn an_owner_takes_its_own_lock_again(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (one, two) = (owner(), owner());
    block_on(async {
        let outer = acquire(&opened.store, "a", one, LONG).await.unwrap();
        let inner = acquire(&opened.store, "a", one, LONG * 2).await.unwrap();
        assert_eq!((inner.epoch, inner.holds), (outer.epoch, 2));
        assert!(inner.expires_at > outer.expires_at);
        let acquired_at = rows(&opened.store).await[0].acquired_at;
        assert_eq!(acquired_at, outer.expires_at.before(LONG), "acquired once");
        release(&opened.store, &inner).await.unwrap();
        assert_held(acquire(&opened.store, "a", two, LONG).await, &inner);
        release(&opened.store, &outer).await.unwrap();
        assert!(rows(&opened.store).await.is_empty());
        assert_lost(release(&opened.store, &outer).await, &outer);
        assert_eq!(
            acquire(&opened.store, "a", two, LONG).await.unwrap().epoch,
            2
        );
    });
}

fn a_freed_lock_is_taken_with_a_higher_epoch(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let one = owner();
    block_on(async {
        for epoch in 1..=3 {
            let grant = acquire(&opened.store, "a", one, LONG).await.unwrap();
            assert_eq!((grant.epoch, grant.holds), (epoch, 1));
            release(&opened.store, &grant).await.unwrap();
        }
    });
}

fn a_renewed_lock_ends_later(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (one, two) = (owner(), owner());
    block_on(async {
        acquire(&opened.store, "a", one, LONG).await.unwrap();
        let grant = acquire(&opened.store, "a", one, LONG).await.unwrap();
        let renewed = renew(&opened.store, &grant, LONG * 2).await.unwrap();
        assert!(renewed.expires_at > grant.expires_at.after(LONG / 2));
        assert_eq!((renewed.epoch, renewed.holds), (1, 2));
        assert_held(acquire(&opened.store, "a", two, LONG).await, &renewed);
        // A shorter lifetime is allowed, too.
        let ended = renew(&opened.store, &grant, Duration::ZERO).await.unwrap();
        assert_eq!(rows(&opened.store).await[0].expires_at, ended.expires_at);
        assert_eq!(
            acquire(&opened.store, "a", two, LONG).await.unwrap().epoch,
            2
        );
        let unknown = LockGrant {
            name: "unknown".to_owned(),
            ..grant
        };
        assert_lost(renew(&opened.store, &unknown, LONG).await, &unknown);
    });
}

fn an_expired_lock_can_be_neither_renewed_nor_reentered(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let one = owner();
    block_on(async {
        let expired = acquire(&opened.store, "a", one, Duration::ZERO)
            .await
            .unwrap();
        assert_lost(renew(&opened.store, &expired, LONG).await, &expired);
        assert_eq!(rows(&opened.store).await.len(), 1, "still listed");
        // The previous owner is a new holder, too: others may have held the lock meanwhile.
        let again = acquire(&opened.store, "a", one, LONG).await.unwrap();
        assert_eq!((again.epoch, again.holds), (2, 1));
        assert_lost(release(&opened.store, &expired).await, &expired);
    });
}

fn an_expired_lock_is_taken_over_by_exactly_one(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for round in 0..5 {
            let name = format!("lock {round}");
            let expired = acquire(&opened.store, &name, owner(), Duration::ZERO).await;
            let expired = expired.unwrap();
            let answers = run_concurrently(16, |_| {
                let (store, name) = (opened.store.clone(), name.clone());
                async move { acquire(&store, &name, owner(), LONG).await }
            })
            .await;
            let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
            assert_eq!((won.len(), lost.len()), (1, 15));
            let winner = won.into_iter().next().unwrap().unwrap();
            assert_eq!((winner.epoch, winner.holds), (expired.epoch + 1, 1));
            for loser in lost {
                assert_held(loser, &winner);
            }
        }
    });
}

fn epochs_only_grow(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let owners = [owner(), owner(), owner()];
    block_on(async {
        let mut last = 0;
        for round in 0..50 {
            let ttl = if round % 2 == 0 { LONG } else { Duration::ZERO };
            let grant = acquire(&opened.store, "a", owners[round % 3], ttl)
                .await
                .unwrap();
            assert_eq!(grant.epoch, last + 1);
            last = grant.epoch;
            if ttl == LONG {
                release(&opened.store, &grant).await.unwrap();
            }
        }
    });
}

fn requests_with_an_old_grant_are_refused(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (one, two) = (owner(), owner());
    block_on(async {
        let old = acquire(&opened.store, "a", one, Duration::ZERO)
            .await
            .unwrap();
        let new = acquire(&opened.store, "a", two, LONG).await.unwrap();
        assert_lost(release(&opened.store, &old).await, &old);
        assert_lost(renew(&opened.store, &old, LONG).await, &old);
        // The old holder may not use the new epoch either.
        let forged = LockGrant {
            epoch: new.epoch,
            ..old
        };
        assert_lost(release(&opened.store, &forged).await, &forged);
        assert_held(acquire(&opened.store, "a", one, LONG).await, &new);
    });
}

fn all_locks_of_one_owner_are_freed_at_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (one, two) = (owner(), owner());
    block_on(async {
        for name in ["a", "b", "c", "c"] {
            acquire(&opened.store, name, one, LONG).await.unwrap();
        }
        let kept = acquire(&opened.store, "d", two, LONG).await.unwrap();
        let free_all = || write(&opened.store, move |tx| tx.release_all_for_owner(one));
        assert_eq!(free_all().await, 3);
        assert_eq!(free_all().await, 0);
        let left = rows(&opened.store).await;
        assert_eq!(
            (left.len(), left[0].name.as_str(), left[0].owner),
            (1, "d", two)
        );
        assert_held(acquire(&opened.store, "d", one, LONG).await, &kept);
        let again = acquire(&opened.store, "c", two, LONG).await.unwrap();
        assert_eq!((again.epoch, again.holds), (2, 1));
    });
}

fn a_write_under_a_lost_lock_is_refused_whole(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (one, two, stream) = (owner(), owner(), stream());
    block_on(async {
        let grant = acquire(&opened.store, "a", one, Duration::ZERO)
            .await
            .unwrap();
        let fenced = |grant: &LockGrant| {
            let grant = grant.clone();
            try_write(&opened.store, move |tx| {
                tx.append(stream, &[event(1)])?;
                tx.fence_lock(&grant)
            })
        };
        // Expired but not taken by another owner: its epoch is still the newest.
        fenced(&grant).await.unwrap();
        let new = acquire(&opened.store, "a", two, LONG).await.unwrap();
        assert_lost(fenced(&grant).await, &grant);
        fenced(&new).await.unwrap();
        release(&opened.store, &new).await.unwrap();
        assert_lost(fenced(&new).await, &new);
        assert_eq!(events(&opened.store, stream).await.len(), 2);
    });
}

fn odd_lock_names_work(backend: Backend) {
    let names = [
        "",
        " ",
        "a",
        "A",
        "é",
        "e\u{301}",
        "a\0b",
        "\0",
        "\u{fdd0}",
        "%",
        "'; --",
        "🦀\n\t/../",
    ];
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let one = owner();
    block_on(async {
        for name in names {
            let grant = acquire(&opened.store, name, one, LONG).await.unwrap();
            assert_eq!(
                (grant.name.as_str(), grant.holds),
                (name, 1),
                "each is another lock"
            );
            assert_held(acquire(&opened.store, name, owner(), LONG).await, &grant);
        }
        let mut found: Vec<String> = rows(&opened.store)
            .await
            .into_iter()
            .map(|r| r.name)
            .collect();
        let mut wanted = names.map(str::to_owned);
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
    });
}

/// A name too long for a PostgreSQL index is refused there; elsewhere it works. Either way the
/// store stays usable.
fn a_huge_name_is_refused_and_the_longest_works(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let huge: String = (0..1 << 20)
        .map(|n: u64| char::from(b'a' + (n * n / 7 % 26) as u8))
        .collect();
    block_on(async {
        let refused = acquire(&opened.store, &huge, owner(), LONG).await;
        assert!(
            matches!(refused, Err(StoreError::LockNameTooLong { length, .. }) if length == 1 << 20),
            "{:?}",
            refused.map(|grant| grant.epoch)
        );
        let longest = &huge[..NAME_MAXIMUM];
        let grant = acquire(&opened.store, longest, owner(), LONG).await;
        assert_eq!(grant.unwrap().name, longest);
    });
}

fn reentry_never_shortens_a_lock(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (one, two) = (owner(), owner());
    block_on(async {
        let outer = acquire(&opened.store, "a", one, LONG).await.unwrap();
        for ttl in [Duration::from_secs(1), Duration::ZERO] {
            let inner = acquire(&opened.store, "a", one, ttl).await.unwrap();
            assert_eq!(inner.expires_at, outer.expires_at, "{ttl:?}");
            assert_eq!(
                rows(&opened.store).await[0].expires_at,
                outer.expires_at,
                "{ttl:?}"
            );
        }
        assert_held(acquire(&opened.store, "a", two, LONG).await, &outer);
    });
}

/// Acquires `name` for a caller that has proof of the death of `dead`.
async fn acquire_from(
    store: &StoreHandle,
    name: &str,
    owner: OwnerId,
    dead: (OwnerId, i64),
) -> Result<LockGrant> {
    let request = LockRequest {
        name: name.to_owned(),
        owner,
        node: NODE.to_owned(),
        ttl: LONG,
        dead_holder: Some(dead),
    };
    try_write(store, move |tx| tx.acquire_lock(&request)).await
}

fn only_the_named_dead_holder_is_replaced(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (dead, heir) = (owner(), owner());
    block_on(async {
        acquire(&opened.store, "a", owner(), Duration::ZERO)
            .await
            .unwrap();
        let grant = acquire(&opened.store, "a", dead, LONG).await.unwrap();
        assert_eq!(grant.epoch, 2);
        for wrong in [(dead, 1), (dead, 3), (owner(), 2)] {
            let asked = acquire_from(&opened.store, "a", heir, wrong).await;
            assert_held(asked, &grant);
        }
        let won = acquire_from(&opened.store, "a", heir, (dead, 2))
            .await
            .unwrap();
        assert_eq!((won.epoch, won.holds), (3, 1));
        // A second caller with proof of the same death is too late.
        let late = acquire_from(&opened.store, "a", owner(), (dead, 2)).await;
        assert_held(late, &won);
        assert_lost(release(&opened.store, &grant).await, &grant);
    });
}
