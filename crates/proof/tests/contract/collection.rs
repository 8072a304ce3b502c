//! Collecting what nobody needs: only that, and nothing that somebody takes up meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cleveragents_domain::id::OwnerId;
use cleveragents_domain::{Phase, Timestamp};
use cleveragents_engine::locks::LockService;
use cleveragents_engine::ports::{BlobHash, Clock, Liveness, Operation, Slots, StoreHandle};
use cleveragents_engine::runs::{Outcome, RunService};
use cleveragents_engine::system::{SystemClock, SystemIds};
use cleveragents_proof::place::operation;
use cleveragents_proof::samples::plan_id;
use cleveragents_proof::verbs::{attempt, give_back, together, write};
use cleveragents_proof::{Backend, Opened, Place, block_on, contract, outside};
use cleveragents_store::{Collected, Retention};

use super::blobs::{KIB, bytes, content, put, stage};
use super::run_service::{alive, dead};

contract! {
    old_operations_are_taken_and_young_ones_kept,
    blobs_are_taken_that_are_old_and_that_nobody_names,
    a_dry_run_counts_the_same_and_takes_nothing,
    more_than_one_transaction_takes_is_taken_whole,
    a_collection_beside_eight_who_name_blobs_loses_none;
    durable:
    all_of_a_taken_blob_is_gone,
    remains_of_the_dead_are_taken_unless_they_own_something,
}

const HOUR: Duration = Duration::from_secs(3600);
const RETENTION: Retention = Retention {
    operations: HOUR,
    blobs: HOUR,
};

/// A clock that goes on only when it is told to.
#[derive(Debug)]
struct Steered(AtomicI64);

impl Clock for Steered {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

/// A database in which time can pass.
struct Aging {
    clock: Arc<Steered>,
    opened: Opened,
    place: Place,
}

impl Aging {
    fn new(backend: Backend) -> Self {
        let place = Place::new(backend);
        let clock = Arc::new(Steered(AtomicI64::new(SystemClock.now().as_micros())));
        let opened = place.open_with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        Self {
            clock,
            opened,
            place,
        }
    }

    /// Makes everything there is `span` older. PostgreSQL has its own clock, so there the rows
    /// are made older instead.
    fn age(&self, span: Duration) {
        let micros = i64::try_from(span.as_micros()).unwrap();
        self.clock.0.fetch_add(micros, Ordering::SeqCst);
        if self.place.backend == Backend::Postgres {
            for (table, column) in [
                ("operations", "at"),
                ("blobs", "touched_at"),
                ("blob_chunks", "touched_at"),
            ] {
                let sql = format!("UPDATE {table} SET {column} = {column} - {micros}");
                outside::run(&self.place, &sql);
            }
        }
    }

    fn store(&self) -> &StoreHandle {
        &self.opened.store
    }

    async fn collect(&self) -> Collected {
        self.opened.database.collect(RETENTION).await.unwrap()
    }

    async fn collectable(&self) -> Collected {
        self.opened.database.collectable(RETENTION).await.unwrap()
    }
}

/// Does the same write again; says with which number it was done first.
async fn numbered(store: &StoreHandle, operation: Operation, number: i64) -> i64 {
    let done = store.write(operation, move |_| {
        Ok::<_, cleveragents_engine::ports::StoreError>(number)
    });
    done.await.unwrap()
}

async fn release(store: &StoreHandle, holder: &'static str) {
    write(store, move |unit| unit.release_blobs(holder)).await;
}

fn old_operations_are_taken_and_young_ones_kept(backend: Backend) {
    let aging = Aging::new(backend);
    let (old, young) = (operation("test.old"), operation("test.young"));
    block_on(async {
        assert_eq!(numbered(aging.store(), old, 1).await, 1);
        aging.age(HOUR / 2);
        assert_eq!(numbered(aging.store(), young, 1).await, 1);
        assert_eq!(aging.collect().await.operations, 0);
        aging.age(HOUR / 2 + Duration::from_secs(60));
        assert_eq!(aging.collect().await.operations, 1);
        assert_eq!(numbered(aging.store(), young, 2).await, 1);
        assert_eq!(numbered(aging.store(), old, 2).await, 2, "forgotten");
    });
}

fn more_than_one_transaction_takes_is_taken_whole(backend: Backend) {
    const BLOBS: usize = 600;
    let aging = Aging::new(backend);
    block_on(async {
        let store = aging.store();
        together(BLOBS, |number| {
            let store = store.clone();
            async move { put(&store, format!("{number:04}").as_bytes(), "left").await }
        })
        .await;
        let stays = put(store, b"stays", "held").await;
        release(store, "left").await;
        aging.age(HOUR + Duration::from_secs(60));
        let expected = aging.collectable().await;
        assert_eq!(expected.blobs, BLOBS as u64);
        assert_eq!(expected.blob_bytes, 4 * BLOBS as u64);
        assert_eq!(aging.collect().await, expected);
        assert_eq!(content(store, &stays).await.as_deref(), Some(&b"stays"[..]));
        assert!(aging.collectable().await.is_nothing());
    });
}

fn blobs_are_taken_that_are_old_and_that_nobody_names(backend: Backend) {
    for size in [10, 200 * KIB] {
        let aging = Aging::new(backend);
        let store = aging.store();
        let named = |seed| bytes(size, seed);
        block_on(async {
            let taken = put(store, &named(1), "left").await;
            let referenced = put(store, &named(2), "kept").await;
            let shared = put(store, &named(3), "left").await;
            put(store, &named(3), "kept").await;
            let touched = put(store, &named(4), "left").await;
            release(store, "left").await;
            aging.age(HOUR * 2);
            // Named once more and let go: the grace period begins again.
            put(store, &named(4), "left").await;
            let young = put(store, &named(5), "left").await;
            release(store, "left").await;

            let collected = aging.collect().await;
            assert_eq!((collected.blobs, collected.blob_bytes), (1, size as u64));
            assert!(content(store, &taken).await.is_none());
            let kept = [(referenced, 2), (shared, 3), (touched, 4), (young, 5)];
            for (hash, seed) in kept {
                assert!(
                    content(store, &hash).await == Some(named(seed)),
                    "{size} bytes, number {seed}"
                );
            }
            assert_eq!(aging.collect().await, Collected::default());
            // What was taken can come back.
            put(store, &named(1), "again").await;
            assert!(content(store, &taken).await == Some(named(1)));
            aging.age(HOUR * 2);
            assert_eq!(aging.collect().await.blobs, 2);
        });
    }
}

/// Old and young of everything; large blobs that were only staged among them.
async fn leave_things(aging: &Aging) {
    let store = aging.store();
    put(store, b"small", "left").await;
    put(store, &bytes(200 * KIB, 1), "left").await;
    put(store, &bytes(100 * KIB, 2), "kept").await;
    stage(store, &bytes(300 * KIB, 3)).await;
    release(store, "left").await;
    aging.age(HOUR * 2);
    put(store, &bytes(200 * KIB, 4), "left").await;
    stage(store, &bytes(300 * KIB, 5)).await;
    release(store, "left").await;
    dead(&aging.place);
}

fn a_dry_run_counts_the_same_and_takes_nothing(backend: Backend) {
    let aging = Aging::new(backend);
    block_on(async {
        leave_things(&aging).await;
        let before = aging.opened.database.statistics().await.unwrap();
        let counted = aging.collectable().await;
        assert!(counted.operations > 0);
        assert_eq!(
            (counted.blobs, counted.blob_bytes),
            (2, 5 + 200 * KIB as u64)
        );
        // The staged one, and the file of the blob that goes.
        let files = if backend == Backend::Sqlite { 2 } else { 0 };
        let dead = u64::from(backend != Backend::Memory);
        assert_eq!((counted.stray_files, counted.dead_processes), (files, dead));
        assert_eq!(aging.collectable().await, counted);
        let after = aging.opened.database.statistics().await.unwrap();
        assert_eq!(
            (after.operations, after.blobs),
            (before.operations, before.blobs)
        );
        assert_eq!(aging.collect().await, counted);
        assert!(aging.collect().await.is_nothing());
        assert!(aging.collectable().await.is_nothing());
    });
}

fn a_collection_beside_eight_who_name_blobs_loses_none(backend: Backend) {
    const HOLDERS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let aging = Aging::new(backend);
    let all: Arc<Vec<Vec<u8>>> = Arc::new(vec![
        bytes(10, 1),
        bytes(70 * KIB, 2),
        bytes(600 * KIB, 3),
        bytes(100, 4),
    ]);
    block_on(async {
        for content in all.iter() {
            put(aging.store(), content, "0").await;
        }
        for _ in 0..10 {
            for holder in HOLDERS {
                release(aging.store(), holder).await;
            }
            // All of them are for the taking, until somebody names them.
            aging.age(HOUR * 2);
            together(9, |number| {
                let (all, store) = (Arc::clone(&all), aging.store().clone());
                let database = Arc::clone(&aging.opened.database);
                async move {
                    if number == 8 {
                        for _ in 0..4 {
                            database.collect(RETENTION).await.unwrap();
                        }
                        return;
                    }
                    for turn in 0..all.len() {
                        let bytes = &all[(turn + number) % all.len()];
                        let hash = put(&store, bytes, HOLDERS[number]).await;
                        assert!(content(&store, &hash).await.as_ref() == Some(bytes));
                    }
                }
            })
            .await;
            for content_of in all.iter() {
                let found = content(aging.store(), &BlobHash::of(content_of)).await;
                assert!(found.as_ref() == Some(content_of), "{}", content_of.len());
            }
        }
    });
}

fn all_of_a_taken_blob_is_gone(backend: Backend) {
    let aging = Aging::new(backend);
    let (gone, kept, staged) = (
        bytes(200 * KIB, 1),
        bytes(200 * KIB, 2),
        bytes(200 * KIB, 3),
    );
    let file = |content: &[u8]| {
        let hash = BlobHash::of(content).to_string();
        let folder = aging.place.folder().join("blobs").join(&hash[..2]);
        folder.join(hash)
    };
    let rows = |table: &str, content: &[u8]| {
        let hash = BlobHash::of(content);
        let sql = format!("SELECT count(*) FROM {table} WHERE hash = '{hash}'");
        outside::number(&aging.place, &sql)
    };
    block_on(async {
        put(aging.store(), &gone, "left").await;
        put(aging.store(), &kept, "kept").await;
        stage(aging.store(), &staged).await;
        release(aging.store(), "left").await;
    });
    // What a stager that was killed leaves, and a file that is none of ours.
    let blobs = aging.place.folder().join("blobs");
    let strays = [blobs.join("ab").join("abc.1-2.tmp"), blobs.join("notes")];
    if backend == Backend::Sqlite {
        assert!(file(&gone).exists() && file(&staged).exists());
        std::fs::create_dir_all(blobs.join("ab")).unwrap();
        for stray in &strays {
            outside::put_file(stray, "rubbish");
        }
    }
    aging.age(HOUR * 2);
    let collected = block_on(aging.collect());
    assert_eq!(collected.blobs, 1);
    for content in [&gone, &staged] {
        assert_eq!(
            (rows("blobs", content), rows("blob_chunks", content)),
            (0, 0)
        );
    }
    assert_eq!(rows("blobs", &kept), 1);
    match backend {
        Backend::Sqlite => {
            assert_eq!(collected.stray_files, 3);
            assert!(!file(&gone).exists() && !file(&staged).exists() && !strays[0].exists());
            assert!(file(&kept).exists() && strays[1].exists());
        }
        Backend::Memory | Backend::Postgres => assert_eq!(rows("blob_chunks", &kept), 1),
    }
}

fn remains_of_the_dead_are_taken_unless_they_own_something(backend: Backend) {
    let aging = Aging::new(backend);
    let opened = &aging.opened;
    let place = &aging.place;
    let lock_file = |owner: OwnerId| place.folder().join("run").join(format!("{owner}.lock"));
    let liveness = || Arc::clone(&opened.presence) as Arc<dyn Liveness>;
    let (idle, runner, locker) = (dead(place), dead(place), dead(place));
    let living = alive(place, opened.presence.node());
    block_on(async {
        let ids = Arc::new(SystemIds);
        let runs = RunService::new(opened.store.clone(), ids.clone(), liveness(), runner);
        let claimed = runs.claim(plan_id(), Phase::Execute, Slots::Shared).await;
        let Ok(Outcome::Won(lease)) = claimed else {
            panic!("{claimed:?} instead of a lease");
        };
        let locks = LockService::new(opened.store.clone(), ids, liveness(), locker);
        let grant = locks.acquire("a", HOUR).await.unwrap();
        assert_eq!(aging.collectable().await.dead_processes, 1);
        assert!(lock_file(idle).exists());
        assert_eq!(aging.collect().await.dead_processes, 1);
        assert!(!lock_file(idle).exists());
        let kept = [runner, locker, living.owner(), opened.owner];
        for owner in kept {
            assert!(lock_file(owner).exists());
        }
        give_back(lease).await;
        attempt(&opened.store, move |unit| unit.release_lock(&grant))
            .await
            .unwrap();
        assert_eq!(aging.collect().await.dead_processes, 2);
        assert!(!lock_file(runner).exists() && !lock_file(locker).exists());
        assert!(lock_file(living.owner()).exists());
    });
}
