//! Backup and restore: one format for every engine, all or nothing.

use std::path::{Path, PathBuf};

use cleveragents_domain::id::OwnerId;
use cleveragents_domain::{Action, ChainFault, Event, EventKind, Plan, StreamId};
use cleveragents_engine::journal::purge::PurgeRequest;
use cleveragents_engine::journal::{purge, verify};
use cleveragents_integration_tests::samples::{action, event, owner, plan, plan_id, stream};
use cleveragents_integration_tests::store_access::{append, events, read, write};
use cleveragents_integration_tests::test_database::{new_operation, no_progress};
use cleveragents_integration_tests::{
    Backend, OpenTestDatabase, TestDatabase, block_on, contract, raw_sql,
};
use cleveragents_ports::{
    BlobHash, LockRequest, StoreError, StoreHandle, StoreOperation, StreamHead,
};
use cleveragents_store::{AlteredBackupPolicy, BackupReport, ExistingDataPolicy};

use super::blobs::{KIB, bytes, content, put};
use super::runs::{LONG, claim, claim_lease};

contract! {
    a_backup_restores_everything_on_either_engine,
    a_restored_database_can_be_backed_up_again,
    a_backup_never_overwrites_a_file;
    durable:
    restore_replaces_contents_only_when_requested,
    an_altered_journal_is_refused_unless_accepted,
}

/// The engines that can be restored to; a memory database cannot be reopened.
const TARGETS: [Backend; 2] = [Backend::Sqlite, Backend::Postgres];
const HOLDER: &str = "maintenance";
const LOCK: &str = "a lock \0 é";

pub(super) fn save(opened: &OpenTestDatabase, path: &Path) -> BackupReport {
    block_on(opened.database.backup(path, no_progress())).unwrap()
}

pub(super) fn file(test_db: &TestDatabase, name: &str) -> PathBuf {
    test_db.folder().join(name)
}

/// Data of every kind, as it was before the backup.
pub(super) struct BackupSample {
    action: Action,
    plan: Plan,
    stream: StreamId,
    events: Vec<Event>,
    operation: StoreOperation,
    first: StreamHead,
    sizes: &'static [usize],
    pub(super) blobs: Vec<BlobHash>,
    run: cleveragents_ports::Lease,
}

fn lock_request(owner: OwnerId) -> LockRequest {
    LockRequest {
        name: LOCK.to_owned(),
        owner,
        node: "here".to_owned(),
        ttl: LONG,
        dead_holder: None,
    }
}

async fn lock(store: &StoreHandle) -> i64 {
    let request = lock_request(owner());
    write(store, move |tx| tx.acquire_lock(&request))
        .await
        .epoch
}

/// Sizes of blobs stored in a row, in one piece elsewhere, and in many pieces.
const SIZES: [usize; 4] = [0, 10, 200 * KIB, 5 * KIB * KIB];

impl BackupSample {
    async fn create(store: &StoreHandle) -> Self {
        Self::with_blobs(store, &SIZES).await
    }

    pub(super) async fn with_blobs(store: &StoreHandle, sizes: &'static [usize]) -> Self {
        let (action, plan, stream) = (action("team/audit", 1), plan(plan_id(), 2), stream());
        let (new_action, new_plan) = (action.clone(), plan.clone());
        write(store, move |tx| {
            tx.insert_action(&new_action)?;
            tx.insert_plan(&new_plan)
        })
        .await;
        let operation = new_operation("test.first");
        let first: StreamHead = store
            .write(operation, move |tx| tx.append(stream, &[event(1)]))
            .await
            .unwrap_or_else(|error: StoreError| panic!("{error}"));
        for n in 2..=4 {
            append(store, stream, n).await;
        }
        let request = PurgeRequest {
            stream,
            places: vec![2],
            reason: "asked to".to_owned(),
            actor: "keeper".to_owned(),
        };
        purge(
            store,
            cleveragents_integration_tests::test_database::new_operation("test.purge"),
            request,
        )
        .await
        .unwrap();
        let mut blobs = Vec::new();
        for &size in sizes {
            blobs.push(put(store, &bytes(size, 7), HOLDER).await);
        }
        let id = plan_id();
        claim_lease(store, claim(id, owner(), std::time::Duration::ZERO)).await;
        let run = claim_lease(store, claim(id, owner(), LONG)).await;
        assert_eq!((run.epoch, lock(store).await), (2, 1));
        Self {
            action,
            plan,
            stream,
            events: events(store, stream).await,
            operation,
            first,
            sizes,
            blobs,
            run,
        }
    }

    /// Asserts that everything is as before, and that writing continues from there.
    pub(super) async fn assert_found(&self, store: &StoreHandle) {
        let (name, id, stream) = (
            self.action.name.clone(),
            self.plan.identity.plan_id,
            self.stream,
        );
        let found = read(store, move |tx| Ok((tx.action(&name)?, tx.plan(id)?))).await;
        assert_eq!(found, (self.action.clone(), self.plan.clone()));
        assert_eq!(
            event_texts(&events(store, stream).await),
            event_texts(&self.events)
        );
        let proof = verify(store, stream, None).await.unwrap().unwrap();
        assert_eq!((proof.events, proof.purged), (5, 1));
        // Repeating the first operation returns its result and does nothing.
        let again = store.write(self.operation, move |tx| tx.append(stream, &[event(9)]));
        let again: StreamHead = again
            .await
            .unwrap_or_else(|error: StoreError| panic!("{error}"));
        assert_eq!(again, self.first);
        for (hash, size) in self.blobs.iter().zip(self.sizes) {
            assert!(
                content(store, hash).await == Some(bytes(*size, 7)),
                "{size} bytes"
            );
        }
        self.assert_no_owners(store).await;
        let last = self.events[4].seq;
        let head = append(store, stream, 5).await;
        assert_eq!(head.stream_seq, 6);
        assert!(events(store, stream).await[5].seq > last, "it goes on");
        assert!(verify(store, stream, None).await.unwrap().is_ok());
        let held = write(store, |tx| tx.release_blobs(HOLDER)).await;
        assert_eq!(held, self.sizes.len() as u64);
    }

    /// Asserts that owners are cleared and epochs are kept.
    async fn assert_no_owners(&self, store: &StoreHandle) {
        let owned = read(store, |tx| Ok((tx.runs()?.len(), tx.locks()?.len()))).await;
        assert_eq!(owned, (0, 0));
        let old = self.run.clone();
        let fenced = cleveragents_integration_tests::store_access::try_write(store, move |tx| {
            tx.fence(&old)
        })
        .await;
        assert!(
            matches!(fenced, Err(StoreError::LeaseLost { .. })),
            "{fenced:?}"
        );
        let new = claim_lease(store, claim(self.run.plan, owner(), LONG)).await;
        assert_eq!((new.epoch, lock(store).await), (3, 2));
    }
}

fn event_texts(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| serde_json::to_string(event).unwrap();
    events.iter().map(line).collect()
}

async fn system_kinds(store: &StoreHandle) -> Vec<EventKind> {
    let found = events(store, StreamId::System).await;
    found.into_iter().map(|event| event.kind).collect()
}

fn a_backup_restores_everything_on_either_engine(backend: Backend) {
    let source = TestDatabase::new(backend);
    let opened = source.open();
    let world = block_on(BackupSample::create(&opened.store));
    let path = file(&source, "backup.tar");
    let backup = save(&opened, &path);
    assert_eq!(backup.bytes, std::fs::metadata(&path).unwrap().len());
    assert!(backup.unreadable_blobs.is_empty());
    let counted = ["events", "plans", "actions", "blobs", "blob_references"];
    assert_eq!(counted.map(|name| backup.contents[name]), [5, 1, 1, 4, 4]);
    let said = cleveragents_store::inspect_backup(&path).unwrap();
    assert_eq!(said.contents, backup.contents);
    for target in TARGETS {
        let test_db = TestDatabase::new(target);
        let restored = test_db
            .restore(
                &path,
                AlteredBackupPolicy::Refuse,
                &ExistingDataPolicy::Refuse,
            )
            .unwrap();
        assert_eq!((restored.saved_to, restored.set_aside), (None, None));
        let opened = test_db.open();
        block_on(async {
            assert_eq!(
                system_kinds(&opened.store).await,
                [EventKind::BackupRestored]
            );
            world.assert_found(&opened.store).await;
        });
    }
    // The backup did not change the source.
    block_on(async {
        let runs = read(&opened.store, |tx| tx.runs()).await;
        assert_eq!((runs.len(), runs[0].owner), (1, world.run.owner));
        assert!(system_kinds(&opened.store).await.is_empty());
    });
}

fn a_restored_database_can_be_backed_up_again(backend: Backend) {
    let source = TestDatabase::new(backend);
    let world = block_on(BackupSample::create(&source.open().store));
    let opened = source.open();
    let world = match backend {
        // A memory database is not shared between two openings.
        Backend::Memory => block_on(BackupSample::create(&opened.store)),
        Backend::Sqlite | Backend::Postgres => world,
    };
    let mut path = file(&source, "0.tar");
    save(&opened, &path);
    let places = [Backend::Postgres, Backend::Sqlite, Backend::Postgres].map(TestDatabase::new);
    for (number, place) in places.iter().enumerate() {
        place
            .restore(
                &path,
                AlteredBackupPolicy::Refuse,
                &ExistingDataPolicy::Refuse,
            )
            .unwrap();
        path = file(&source, &format!("{}.tar", number + 1));
        save(&place.open(), &path);
    }
    let last = places[2].open();
    block_on(async {
        assert_eq!(system_kinds(&last.store).await.len(), 3);
        world.assert_found(&last.store).await;
    });
}

/// Never overwrites or writes through an existing file, a link to one, or a dangling link.
fn a_backup_never_overwrites_a_file(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (victim, nowhere) = (file(&test_db, "victim"), file(&test_db, "nowhere"));
    raw_sql::write_file(&victim, "precious");
    let (link, dangling) = (file(&test_db, "link.tar"), file(&test_db, "dangling.tar"));
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    std::os::unix::fs::symlink(&nowhere, &dangling).unwrap();
    let before = std::fs::read_dir(test_db.folder()).unwrap().count();
    for path in [&victim, &link, &dangling] {
        let refused = block_on(opened.database.backup(path, no_progress()));
        assert!(
            matches!(&refused, Err(StoreError::Taken { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert!(!nowhere.exists());
    assert!(dangling.is_symlink() && link.is_symlink());
    let after = std::fs::read_dir(test_db.folder()).unwrap().count();
    // The first backup on SQLite creates the blob folder.
    assert!(after - before <= 1, "remains of a refused backup");
}

fn restore_replaces_contents_only_when_requested(backend: Backend) {
    let (source, target) = (
        TestDatabase::new(Backend::Memory),
        TestDatabase::new(backend),
    );
    let opened = source.open();
    let world = block_on(BackupSample::create(&opened.store));
    let path = file(&source, "backup.tar");
    save(&opened, &path);
    let old = stream();
    let large = bytes(300 * KIB, 8);
    block_on(async {
        let opened = target.open();
        append(&opened.store, old, 1).await;
        put(&opened.store, &large, "old").await;
    });

    let refused = target.restore(
        &path,
        AlteredBackupPolicy::Refuse,
        &ExistingDataPolicy::Refuse,
    );
    let Err(StoreError::NotEmpty { contents }) = refused else {
        panic!("{refused:?} instead of NotEmpty");
    };
    assert_eq!(contents, ["1 events", "1 blobs"]);
    // Nor if the old contents cannot be saved.
    let replace = |saved_to: &Path| ExistingDataPolicy::Replace {
        saved_to: saved_to.to_owned(),
    };
    let refused = target.restore(&path, AlteredBackupPolicy::Refuse, &replace(&path));
    assert!(
        matches!(refused, Err(StoreError::Taken { .. })),
        "{refused:?}"
    );
    block_on(assert_original(&target.open().store, old, &large));

    let saved = file(&source, "saved.tar");
    let restored = target
        .restore(&path, AlteredBackupPolicy::Refuse, &replace(&saved))
        .unwrap();
    assert_eq!(restored.saved_to.as_ref(), Some(&saved));
    block_on(async {
        let opened = target.open();
        assert!(events(&opened.store, old).await.is_empty());
        world.assert_found(&opened.store).await;
    });
    for other in TARGETS {
        let third = TestDatabase::new(other);
        third
            .restore(
                &saved,
                AlteredBackupPolicy::Refuse,
                &ExistingDataPolicy::Refuse,
            )
            .unwrap();
        block_on(assert_original(&third.open().store, old, &large));
    }
}

async fn assert_original(store: &StoreHandle, stream: StreamId, large: &[u8]) {
    assert_eq!(events(store, stream).await.len(), 1);
    let found = content(store, &BlobHash::of(large)).await;
    assert!(found.as_deref() == Some(large));
}

fn an_altered_journal_is_refused_unless_accepted(backend: Backend) {
    let source = TestDatabase::new(backend);
    let opened = source.open();
    let (altered, kept) = (stream(), stream());
    block_on(async {
        append(&opened.store, altered, 1).await;
        append(&opened.store, altered, 2).await;
    });
    let forged = format!(
        "UPDATE events SET payload = '{{\"n\":9}}' WHERE stream = '{altered}' AND stream_seq = 1"
    );
    raw_sql::run_sql(&source, &forged);
    let path = file(&source, "backup.tar");
    save(&opened, &path);

    let target = TestDatabase::new(backend);
    block_on(append(&target.open().store, kept, 1));
    let saved = file(&source, "saved.tar");
    let replace = ExistingDataPolicy::Replace {
        saved_to: saved.clone(),
    };
    let refused = target.restore(&path, AlteredBackupPolicy::Refuse, &replace);
    assert!(
        matches!(&refused, Err(StoreError::Altered { .. })),
        "{refused:?}"
    );
    block_on(async {
        let opened = target.open();
        assert_eq!(events(&opened.store, kept).await.len(), 1);
        assert!(events(&opened.store, altered).await.is_empty());
        assert!(system_kinds(&opened.store).await.is_empty());
    });
    let replace = ExistingDataPolicy::Replace {
        saved_to: file(&source, "saved-again.tar"),
    };
    target
        .restore(&path, AlteredBackupPolicy::Accept, &replace)
        .unwrap();
    block_on(async {
        let opened = target.open();
        let found = verify(&opened.store, altered, None).await.unwrap();
        let fault = ChainFault::PayloadAltered {
            stream: altered,
            stream_seq: 1,
        };
        assert_eq!(found, Err(fault), "taken as it is, not mended");
    });
}
