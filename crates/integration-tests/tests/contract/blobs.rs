//! Blobs: named by their content, stored once, and visible only if the referencing transaction
//! committed.

use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::blobs::{INLINE_MAXIMUM, Staging};
use cleveragents_ports::{BlobHash, StagedBlob, StoreError, StoreHandle};

contract! {
    blobs_of_every_size_read_back,
    an_unknown_blob_is_none,
    a_staged_blob_is_absent_until_referenced,
    a_blob_put_twice_is_there_once,
    a_holder_releases_only_its_own_blobs,
    a_blob_of_a_failed_write_is_absent,
    eight_tasks_can_stage_the_same_large_blob,
    odd_holder_names_work;
    durable:
    a_blob_is_visible_to_another_process,
}

pub(super) const KIB: usize = 1024;

/// Bytes that neither repeat nor compress.
pub(super) fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed ^ 0x9E37_79B9_7F4A_7C15;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

pub(super) async fn stage(store: &StoreHandle, bytes: &[u8]) -> StagedBlob {
    store.stage_blob(bytes.to_vec()).await.unwrap()
}

pub(super) async fn put(store: &StoreHandle, bytes: &[u8], holder: &'static str) -> BlobHash {
    let blob = stage(store, bytes).await;
    let hash = blob.hash.clone();
    write(store, move |tx| tx.put_blob(&blob, holder)).await;
    hash
}

pub(super) async fn content(store: &StoreHandle, hash: &BlobHash) -> Option<Vec<u8>> {
    let hash = hash.clone();
    read(store, move |tx| tx.blob(&hash)).await
}

fn expected_staging(backend: Backend) -> Staging {
    match backend {
        Backend::Sqlite => Staging::File,
        Backend::Memory | Backend::Postgres => Staging::Chunks,
    }
}

fn blobs_of_every_size_read_back(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let sizes = [
            0,
            1,
            INLINE_MAXIMUM,
            INLINE_MAXIMUM + 1,
            200 * KIB,
            256 * KIB,
            5 * KIB * KIB,
        ];
        for size in sizes {
            let bytes = bytes(size, 1);
            let staged = stage(&opened.store, &bytes).await;
            assert_eq!(
                (&staged.hash, staged.size),
                (&BlobHash::of(&bytes), size as u64)
            );
            let staging = match size {
                0..=INLINE_MAXIMUM => Staging::Inline(bytes.clone().into()),
                _ => expected_staging(backend),
            };
            assert!(
                staged.staging == staging,
                "{size} bytes are staged elsewhere"
            );
            let hash = put(&opened.store, &bytes, "test").await;
            assert!(
                content(&opened.store, &hash).await == Some(bytes),
                "{size} bytes differ"
            );
        }
    });
}

fn an_unknown_blob_is_none(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        assert_eq!(
            content(&opened.store, &BlobHash::of(b"never stored")).await,
            None
        );
    });
}

fn a_staged_blob_is_absent_until_referenced(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for size in [10, 200 * KIB] {
            let bytes = bytes(size, 2);
            let staged = stage(&opened.store, &bytes).await;
            assert_eq!(content(&opened.store, &staged.hash).await, None);
            put(&opened.store, &bytes, "test").await;
            assert!(content(&opened.store, &staged.hash).await == Some(bytes));
        }
    });
}

fn a_blob_put_twice_is_there_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for size in [10, 200 * KIB] {
            let bytes = bytes(size, 3);
            let hash = put(&opened.store, &bytes, "one").await;
            assert_eq!(put(&opened.store, &bytes, "one").await, hash);
            assert_eq!(put(&opened.store, &bytes, "two").await, hash);
            assert!(content(&opened.store, &hash).await == Some(bytes));
        }
        for (holder, references) in [("one", 2), ("two", 2), ("one", 0)] {
            let released = write(&opened.store, move |tx| tx.release_blobs(holder)).await;
            assert_eq!(released, references, "{holder}");
        }
    });
}

fn a_holder_releases_only_its_own_blobs(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let shared = put(&opened.store, b"shared", "one").await;
        put(&opened.store, b"shared", "two").await;
        put(&opened.store, b"single", "one").await;
        let release = |holder| write(&opened.store, move |tx| tx.release_blobs(holder));
        assert_eq!(release("one").await, 2);
        assert_eq!(release("nobody").await, 0);
        assert_eq!(
            content(&opened.store, &shared).await,
            Some(b"shared".to_vec())
        );
        assert_eq!(release("two").await, 1);
        // It is collected later, not now: its hash can still be read and referenced again.
        assert_eq!(
            content(&opened.store, &shared).await,
            Some(b"shared".to_vec())
        );
        put(&opened.store, b"shared", "three").await;
        assert_eq!(release("three").await, 1);
    });
}

fn a_blob_of_a_failed_write_is_absent(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for size in [10, 200 * KIB] {
            let bytes = bytes(size, 4);
            let blob = stage(&opened.store, &bytes).await;
            let hash = blob.hash.clone();
            let failed = try_write(&opened.store, move |tx| -> Result<(), StoreError> {
                tx.put_blob(&blob, "failing")?;
                let seen = tx.blob(&blob.hash)?;
                let reason = format!("{:?} bytes seen", seen.map(|bytes| bytes.len()));
                Err(StoreError::Internal { reason })
            })
            .await;
            let said = format!("internal error of the store: Some({size}) bytes seen");
            assert_eq!(failed.unwrap_err().to_string(), said);
            assert_eq!(content(&opened.store, &hash).await, None);
            let held = write(&opened.store, |tx| tx.release_blobs("failing")).await;
            assert_eq!(held, 0);
        }
    });
}

fn eight_tasks_can_stage_the_same_large_blob(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let bytes = bytes(700 * KIB, 5);
    block_on(async {
        let hashes = run_concurrently(8, |number| {
            let (store, bytes) = (opened.store.clone(), bytes.clone());
            let holder = ["a", "b", "c", "d"][number % 4];
            async move { put(&store, &bytes, holder).await }
        })
        .await;
        assert!(hashes.iter().all(|hash| *hash == BlobHash::of(&bytes)));
        assert!(content(&opened.store, &hashes[0]).await == Some(bytes));
        for holder in ["a", "b", "c", "d"] {
            let held = write(&opened.store, move |tx| tx.release_blobs(holder)).await;
            assert_eq!(held, 1);
        }
    });
}

fn odd_holder_names_work(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for holder in ["", "a\0b", "é🦀", "%", "\u{fdd0}"] {
            put(&opened.store, holder.as_bytes(), holder).await;
            let held = write(&opened.store, move |tx| tx.release_blobs(holder)).await;
            assert_eq!(held, 1, "{holder:?}");
        }
    });
}

fn a_blob_is_visible_to_another_process(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let (one, other) = (test_db.open(), test_db.open());
    block_on(async {
        for size in [0, 10, 200 * KIB] {
            let bytes = bytes(size, 6);
            let hash = put(&one.store, &bytes, "test").await;
            assert!(content(&other.store, &hash).await == Some(bytes), "{size}");
        }
    });
}
