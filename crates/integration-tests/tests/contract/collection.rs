//! Garbage collection: removes only unneeded data, and nothing that is reused meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cleveragents_domain::id::OwnerId;
use cleveragents_domain::{Phase, Timestamp};
use cleveragents_engine::locks::LockService;
use cleveragents_engine::runs::{ClaimOutcome, RunService};
use cleveragents_integration_tests::samples::plan_id;
use cleveragents_integration_tests::store_access::{
    release_run, run_concurrently, try_write, write,
};
use cleveragents_integration_tests::test_database::new_operation;
use cleveragents_integration_tests::{
    Backend, OpenTestDatabase, TestDatabase, block_on, contract, raw_sql,
};
use cleveragents_ports::system::{SystemClock, SystemIds};
use cleveragents_ports::{BlobHash, Clock, Liveness, Slots, StoreHandle, StoreOperation};
use cleveragents_store::{CollectionReport, Retention};

use super::blobs::{KIB, bytes, content, put, stage};
use super::run_service::{announce_presence, dead_owner};

contract! {
    old_operations_are_collected_and_young_ones_kept,
    old_unreferenced_blobs_are_collected,
    a_dry_run_counts_the_same_and_removes_nothing,
    a_large_collection_spans_several_transactions,
    a_concurrent_collection_keeps_referenced_blobs;
    durable:
    a_collected_blob_leaves_nothing_behind,
    presence_files_of_dead_owners_are_collected,
}

const HOUR: Duration = Duration::from_secs(3600);
const RETENTION: Retention = Retention {
    operations: HOUR,
    blobs: HOUR,
};

/// A clock that advances only on request.
#[derive(Debug)]
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

/// A database whose contents can be aged.
struct AgingDatabase {
    clock: Arc<ManualClock>,
    opened: OpenTestDatabase,
    test_db: TestDatabase,
}

impl AgingDatabase {
    fn new(backend: Backend) -> Self {
        let test_db = TestDatabase::new(backend);
        let clock = Arc::new(ManualClock(AtomicI64::new(SystemClock.now().as_micros())));
        let opened = test_db.open_with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        Self {
            clock,
            opened,
            test_db,
        }
    }

    /// Ages everything by `span`. PostgreSQL has its own clock, so there the rows are aged instead.
    fn age(&self, span: Duration) {
        let micros = i64::try_from(span.as_micros()).unwrap();
        self.clock.0.fetch_add(micros, Ordering::SeqCst);
        if self.test_db.backend == Backend::Postgres {
            for (table, column) in [
                ("operations", "at"),
                ("blobs", "touched_at"),
                ("blob_chunks", "touched_at"),
            ] {
                let sql = format!("UPDATE {table} SET {column} = {column} - {micros}");
                raw_sql::run_sql(&self.test_db, &sql);
            }
        }
    }

    fn store(&self) -> &StoreHandle {
        &self.opened.store
    }

    async fn collect(&self) -> CollectionReport {
        self.opened.database.collect(RETENTION).await.unwrap()
    }

    async fn dry_run(&self) -> CollectionReport {
        self.opened
            .database
            .preview_collection(RETENTION)
            .await
            .unwrap()
    }
}

/// Repeats the same write; returns the number it was first done with.
async fn write_number(store: &StoreHandle, operation: StoreOperation, number: i64) -> i64 {
    let done = store.write(operation, move |_| {
        Ok::<_, cleveragents_ports::StoreError>(number)
    });
    done.await.unwrap()
}

async fn release_holder(store: &StoreHandle, holder: &'static str) {
    write(store, move |tx| tx.release_blobs(holder)).await;
}

fn old_operations_are_collected_and_young_ones_kept(backend: Backend) {
    let aging = AgingDatabase::new(backend);
    let (old, young) = (new_operation("test.old"), new_operation("test.young"));
    block_on(async {
        assert_eq!(write_number(aging.store(), old, 1).await, 1);
        aging.age(HOUR / 2);
        assert_eq!(write_number(aging.store(), young, 1).await, 1);
        assert_eq!(aging.collect().await.operations, 0);
        aging.age(HOUR / 2 + Duration::from_secs(60));
        assert_eq!(aging.collect().await.operations, 1);
        assert_eq!(write_number(aging.store(), young, 2).await, 1);
        assert_eq!(write_number(aging.store(), old, 2).await, 2, "forgotten");
    });
}

fn a_large_collection_spans_several_transactions(backend: Backend) {
    const BLOBS: usize = 600;
    let aging = AgingDatabase::new(backend);
    block_on(async {
        let store = aging.store();
        run_concurrently(BLOBS, |number| {
            let store = store.clone();
            async move { put(&store, format!("{number:04}").as_bytes(), "left").await }
        })
        .await;
        let stays = put(store, b"stays", "held").await;
        release_holder(store, "left").await;
        aging.age(HOUR + Duration::from_secs(60));
        let expected = aging.dry_run().await;
        assert_eq!(expected.blobs, BLOBS as u64);
        assert_eq!(expected.blob_bytes, 4 * BLOBS as u64);
        assert_eq!(aging.collect().await, expected);
        assert_eq!(content(store, &stays).await.as_deref(), Some(&b"stays"[..]));
        assert!(aging.dry_run().await.is_empty());
    });
}

fn old_unreferenced_blobs_are_collected(backend: Backend) {
    for size in [10, 200 * KIB] {
        let aging = AgingDatabase::new(backend);
        let store = aging.store();
        let named = |seed| bytes(size, seed);
        block_on(async {
            let taken = put(store, &named(1), "left").await;
            let referenced = put(store, &named(2), "kept").await;
            let shared = put(store, &named(3), "left").await;
            put(store, &named(3), "kept").await;
            let touched = put(store, &named(4), "left").await;
            release_holder(store, "left").await;
            aging.age(HOUR * 2);
            // Referenced again and released: the grace period restarts.
            put(store, &named(4), "left").await;
            let young = put(store, &named(5), "left").await;
            release_holder(store, "left").await;

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
            assert_eq!(aging.collect().await, CollectionReport::default());
            // A collected blob can be stored again.
            put(store, &named(1), "again").await;
            assert!(content(store, &taken).await == Some(named(1)));
            aging.age(HOUR * 2);
            assert_eq!(aging.collect().await.blobs, 2);
        });
    }
}

/// Stores old and new data of every kind, including large blobs that were only staged.
async fn store_garbage(aging: &AgingDatabase) {
    let store = aging.store();
    put(store, b"small", "left").await;
    put(store, &bytes(200 * KIB, 1), "left").await;
    put(store, &bytes(100 * KIB, 2), "kept").await;
    stage(store, &bytes(300 * KIB, 3)).await;
    release_holder(store, "left").await;
    aging.age(HOUR * 2);
    put(store, &bytes(200 * KIB, 4), "left").await;
    stage(store, &bytes(300 * KIB, 5)).await;
    release_holder(store, "left").await;
    dead_owner(&aging.test_db);
}

fn a_dry_run_counts_the_same_and_removes_nothing(backend: Backend) {
    let aging = AgingDatabase::new(backend);
    block_on(async {
        store_garbage(&aging).await;
        let before = aging.opened.database.statistics().await.unwrap();
        let counted = aging.dry_run().await;
        assert!(counted.operations > 0);
        assert_eq!(
            (counted.blobs, counted.blob_bytes),
            (2, 5 + 200 * KIB as u64)
        );
        // The staged one, and the file of the deleted blob.
        let files = if backend == Backend::Sqlite { 2 } else { 0 };
        let dead = u64::from(backend != Backend::Memory);
        assert_eq!((counted.stray_files, counted.dead_processes), (files, dead));
        assert_eq!(aging.dry_run().await, counted);
        let after = aging.opened.database.statistics().await.unwrap();
        assert_eq!(
            (after.operations, after.blobs),
            (before.operations, before.blobs)
        );
        assert_eq!(aging.collect().await, counted);
        assert!(aging.collect().await.is_empty());
        assert!(aging.dry_run().await.is_empty());
    });
}

fn a_concurrent_collection_keeps_referenced_blobs(backend: Backend) {
    const HOLDERS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let aging = AgingDatabase::new(backend);
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
                release_holder(aging.store(), holder).await;
            }
            // All of them may be collected, until one is referenced.
            aging.age(HOUR * 2);
            run_concurrently(9, |number| {
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

fn a_collected_blob_leaves_nothing_behind(backend: Backend) {
    let aging = AgingDatabase::new(backend);
    let (gone, kept, staged) = (
        bytes(200 * KIB, 1),
        bytes(200 * KIB, 2),
        bytes(200 * KIB, 3),
    );
    let file = |content: &[u8]| {
        let hash = BlobHash::of(content).to_string();
        let folder = aging.test_db.folder().join("blobs").join(&hash[..2]);
        folder.join(hash)
    };
    let rows = |table: &str, content: &[u8]| {
        let hash = BlobHash::of(content);
        let sql = format!("SELECT count(*) FROM {table} WHERE hash = '{hash}'");
        raw_sql::query_number(&aging.test_db, &sql)
    };
    block_on(async {
        put(aging.store(), &gone, "left").await;
        put(aging.store(), &kept, "kept").await;
        stage(aging.store(), &staged).await;
        release_holder(aging.store(), "left").await;
    });
    // The remains of a killed staging, and a foreign file.
    let blobs = aging.test_db.folder().join("blobs");
    let strays = [blobs.join("ab").join("abc.1-2.tmp"), blobs.join("notes")];
    if backend == Backend::Sqlite {
        assert!(file(&gone).exists() && file(&staged).exists());
        std::fs::create_dir_all(blobs.join("ab")).unwrap();
        for stray in &strays {
            raw_sql::write_file(stray, "rubbish");
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

fn presence_files_of_dead_owners_are_collected(backend: Backend) {
    let aging = AgingDatabase::new(backend);
    let opened = &aging.opened;
    let place = &aging.test_db;
    let lock_file = |owner: OwnerId| place.folder().join("run").join(format!("{owner}.lock"));
    let liveness = || Arc::clone(&opened.presence) as Arc<dyn Liveness>;
    let (idle, runner, locker) = (dead_owner(place), dead_owner(place), dead_owner(place));
    let living = announce_presence(place, opened.presence.node());
    block_on(async {
        let ids = Arc::new(SystemIds);
        let runs = RunService::new(opened.store.clone(), ids.clone(), liveness(), runner);
        let claimed = runs.claim(plan_id(), Phase::Execute, Slots::Shared).await;
        let Ok(ClaimOutcome::Won(lease)) = claimed else {
            panic!("{claimed:?} instead of a lease");
        };
        let locks = LockService::new(opened.store.clone(), ids, liveness(), locker);
        let grant = locks.acquire("a", HOUR).await.unwrap();
        assert_eq!(aging.dry_run().await.dead_processes, 1);
        assert!(lock_file(idle).exists());
        assert_eq!(aging.collect().await.dead_processes, 1);
        assert!(!lock_file(idle).exists());
        let kept = [runner, locker, living.owner(), opened.owner];
        for owner in kept {
            assert!(lock_file(owner).exists());
        }
        release_run(lease).await;
        try_write(&opened.store, move |tx| tx.release_lock(&grant))
            .await
            .unwrap();
        assert_eq!(aging.collect().await.dead_processes, 2);
        assert!(!lock_file(runner).exists() && !lock_file(locker).exists());
        assert!(lock_file(living.owner()).exists());
    });
}
