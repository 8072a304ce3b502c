//! The lock service: limited lifetimes, immediate takeover from owners proven dead.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::id::OwnerId;
use cleveragents_engine::locks::{LockService, TTL_MAXIMUM, TTL_MINIMUM};
use cleveragents_integration_tests::samples::owner;
use cleveragents_integration_tests::store_access::read;
use cleveragents_integration_tests::{Backend, OpenTestDatabase, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Liveness, OwnerStatus};

use super::locks::{LONG, NODE, acquire, assert_held, assert_lost, release, rows};
use super::run_service::{announce_presence, dead_owner};

contract! {
    the_service_keeps_lifetimes_within_bounds,
    the_service_finds_stale_locks,
    a_dead_holders_lock_is_taken_over_at_once,
    a_dead_holder_of_another_node_keeps_its_lock,
}

fn service(opened: &OpenTestDatabase) -> LockService {
    service_of(opened, opened.owner)
}

fn service_of(opened: &OpenTestDatabase, owner: OwnerId) -> LockService {
    let liveness = Arc::clone(&opened.presence) as Arc<dyn Liveness>;
    LockService::new(opened.store.clone(), Arc::new(SystemIds), liveness, owner)
}

fn the_service_keeps_lifetimes_within_bounds(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let service = service(&opened);
    block_on(async {
        let cases = [
            (Duration::ZERO, TTL_MINIMUM),
            (Duration::from_secs(60), Duration::from_secs(60)),
            (Duration::MAX, TTL_MAXIMUM),
        ];
        for (number, (asked, given)) in cases.into_iter().enumerate() {
            let name = number.to_string();
            let grant = service.acquire(&name, asked).await.unwrap();
            assert_eq!(grant.owner, opened.owner);
            let row = &rows(&opened.store).await[number];
            assert_eq!(row.expires_at, row.acquired_at.after(given));
            let before = read(&opened.store, |tx| tx.now()).await;
            let renewed = service.renew(&grant, asked).await.unwrap();
            let after = read(&opened.store, |tx| tx.now()).await;
            assert!(before.after(given) <= renewed.expires_at);
            assert!(renewed.expires_at <= after.after(given));
        }
        let grant = service.acquire("0", LONG).await.unwrap();
        assert_eq!(grant.holds, 2);
        service.release(&grant).await.unwrap();
        assert_eq!(
            service.release_all_for_owner(opened.owner).await.unwrap(),
            3
        );
        assert_lost(service.release(&grant).await, &grant);
    });
}

fn the_service_finds_stale_locks(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let service = service(&opened);
    block_on(async {
        acquire(&opened.store, "live", owner(), LONG).await.unwrap();
        let dead = owner();
        acquire(&opened.store, "stale", dead, Duration::ZERO)
            .await
            .unwrap();
        let freed = acquire(&opened.store, "freed", owner(), Duration::ZERO)
            .await
            .unwrap();
        release(&opened.store, &freed).await.unwrap();
        let stale = service.stale().await.unwrap();
        assert_eq!(stale.len(), 1);
        assert_eq!((stale[0].name.as_str(), stale[0].owner), ("stale", dead));
        service.acquire("stale", LONG).await.unwrap();
        assert!(service.stale().await.unwrap().is_empty());
    });
}

fn a_dead_holders_lock_is_taken_over_at_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let mine = service(&opened);
    block_on(async {
        let neighbour = announce_presence(&test_db, opened.presence.node());
        let theirs = service_of(&opened, neighbour.owner());
        let live = theirs.acquire("live", LONG).await.unwrap();
        let dead = dead_owner(&test_db);
        let lost = service_of(&opened, dead)
            .acquire("dead", LONG)
            .await
            .unwrap();
        let stale = mine.stale().await.unwrap();
        assert_eq!(stale.len(), 1, "{stale:?}");
        assert_eq!((stale[0].name.as_str(), stale[0].owner), ("dead", dead));
        assert_held(mine.acquire("live", LONG).await, &live);
        let won = mine.acquire("dead", LONG).await.unwrap();
        assert_eq!((won.owner, won.epoch, won.holds), (opened.owner, 2, 1));
        assert_lost(theirs.release(&lost).await, &lost);
        assert!(mine.stale().await.unwrap().is_empty());
    });
}

fn a_dead_holder_of_another_node_keeps_its_lock(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let mine = service(&opened);
    let dead = dead_owner(&test_db);
    block_on(async {
        let grant = acquire(&opened.store, "a", dead, LONG).await.unwrap();
        assert_eq!(opened.presence.owner_status(dead), OwnerStatus::Dead);
        assert_ne!(opened.presence.node(), NODE);
        assert_held(mine.acquire("a", LONG).await, &grant);
        assert!(mine.stale().await.unwrap().is_empty());
    });
}
