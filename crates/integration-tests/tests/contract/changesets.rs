//! Changesets: numbered without gaps, closed once, each change in the one it names.

use cleveragents_domain::changeset::{ChangesetRecord, ChangesetState, NewChange, RecordedChange};
use cleveragents_domain::id::{ChangesetId, CheckpointId, PlanId};
use cleveragents_domain::{ChangeEntry, FileOperation, ResourcePath};
use cleveragents_integration_tests::assertions::{assert_missing, assert_refused, assert_taken};
use cleveragents_integration_tests::execution_samples::{
    changeset, creation, file, sandbox, store_sandbox,
};
use cleveragents_integration_tests::samples::{at, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Ids, Result, StoreError, StoreHandle};

contract! {
    an_empty_changeset_can_be_read,
    a_changeset_needs_its_plan_and_sandbox,
    entries_read_back_with_odd_paths_and_in_pages,
    three_hundred_changes_are_one_record,
    concurrent_records_are_numbered_without_gaps,
    a_record_in_a_failed_write_leaves_no_gap,
    a_closed_changeset_accepts_no_changes,
    concurrent_close_and_record_agree,
    changes_after_a_call_are_undone_once,
    changesets_are_listed_in_the_order_they_were_started,
}

async fn start(store: &StoreHandle, changeset: &ChangesetRecord) -> Result<()> {
    let changeset = changeset.clone();
    try_write(store, move |tx| tx.insert_changeset(&changeset)).await
}

/// An open changeset of a new plan.
async fn start_changeset(store: &StoreHandle) -> ChangesetRecord {
    let (plan, sandbox) = store_sandbox(store).await;
    let changeset = changeset(plan, sandbox);
    start(store, &changeset).await.unwrap();
    changeset
}

async fn record(
    store: &StoreHandle,
    id: ChangesetId,
    changes: Vec<NewChange>,
) -> Result<Vec<ChangeEntry>> {
    try_write(store, move |tx| tx.record_changes(id, &changes)).await
}

async fn changes(store: &StoreHandle, id: ChangesetId) -> Vec<RecordedChange> {
    read(store, move |tx| tx.changes_after(id, 0, u32::MAX)).await
}

async fn header(store: &StoreHandle, id: ChangesetId) -> ChangesetRecord {
    read(store, move |tx| tx.changeset(id)).await
}

async fn close(store: &StoreHandle, id: ChangesetId, seconds: i64) -> Result<u64> {
    try_write(store, move |tx| tx.close_changeset(id, at(seconds))).await
}

fn an_empty_changeset_can_be_read(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let full = changeset(plan, sandbox);
        let bare = ChangesetRecord {
            attempt: 0,
            step: None,
            ..changeset(plan, sandbox)
        };
        for sample in [&full, &bare] {
            // It starts empty and open, whatever the value says.
            let said = ChangesetRecord {
                state: ChangesetState::Closed,
                entries: 5,
                closed_at: Some(at(9)),
                ..sample.clone()
            };
            start(&opened.store, &said).await.unwrap();
            assert_eq!(&header(&opened.store, sample.id).await, sample);
            assert!(changes(&opened.store, sample.id).await.is_empty());
        }
        assert_taken(
            start(&opened.store, &full).await,
            ("the changeset id", &full.id.to_string(), &plan.to_string()),
        );
    });
}

fn a_changeset_needs_its_plan_and_sandbox(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, _) = store_sandbox(&opened.store).await;
        let (_, foreign) = store_sandbox(&opened.store).await;
        for sandbox in [foreign, sandbox(plan, 0).id] {
            assert_missing(
                start(&opened.store, &changeset(plan, sandbox)).await,
                ("sandbox of this plan", &sandbox.to_string()),
            );
        }
        let unowned = plan_id();
        assert_missing(
            start(&opened.store, &changeset(unowned, foreign)).await,
            ("plan", &unowned.to_string()),
        );
        let unknown = ChangesetId::new(SystemIds.next());
        let missing = ("changeset", &*unknown.to_string());
        assert_missing(record(&opened.store, unknown, Vec::new()).await, missing);
        assert_missing(close(&opened.store, unknown, 1).await, missing);
        let found = opened.store.read(move |tx| tx.changeset(unknown)).await;
        assert_missing(found, missing);
        assert!(changes(&opened.store, unknown).await.is_empty());
    });
}

fn entries_read_back_with_odd_paths_and_in_pages(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let id = start_changeset(&opened.store).await.id;
        let odd: [&[u8]; 7] = [
            b"src/main.rs",
            b"a\0b\n\x1b[31m",
            b"\xff\xfe/caf\xe9",
            b"100%/%2e%2e",
            "Grüße/漢字 .txt".as_bytes(),
            "\u{fdd0}0".as_bytes(),
            b"it's \"so\" ?1 $1 {BY KEY}",
        ];
        let mut wanted: Vec<NewChange> = odd.into_iter().map(creation).collect();
        let moved = |operation| NewChange {
            operation,
            before: Some(file('0')),
            ..creation(b"src/new")
        };
        wanted.push(moved(FileOperation::Rename {
            from: ResourcePath::from_bytes(&b"\xff\0old"[..]).unwrap(),
        }));
        wanted.push(moved(FileOperation::Modify));
        wanted.push(moved(FileOperation::Mode));
        wanted.push(NewChange {
            step: None,
            after: None,
            ..moved(FileOperation::Delete)
        });
        let first = record(&opened.store, id, wanted[..4].to_vec())
            .await
            .unwrap();
        let second = record(&opened.store, id, wanted[4..].to_vec())
            .await
            .unwrap();
        let entries: Vec<ChangeEntry> = (1..)
            .zip(&wanted)
            .map(|(n, it)| it.clone().into_entry(n))
            .collect();
        assert_eq!([first, second].concat(), entries);
        let stored: Vec<RecordedChange> = entries
            .iter()
            .map(|entry| RecordedChange {
                changeset_id: id,
                entry: entry.clone(),
                undone_by: None,
            })
            .collect();
        assert_eq!(changes(&opened.store, id).await, stored);
        let page = read(&opened.store, move |tx| tx.changes_after(id, 3, 5)).await;
        assert_eq!(page, stored[3..8]);
        let end = read(&opened.store, move |tx| tx.changes_after(id, 11, 5)).await;
        assert!(end.is_empty());
        assert_eq!(header(&opened.store, id).await.entries, 11);
    });
}

fn three_hundred_changes_are_one_record(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let id = start_changeset(&opened.store).await.id;
        let many: Vec<NewChange> = (0..311)
            .map(|number| creation(format!("src/{number}").as_bytes()))
            .collect();
        let entries = record(&opened.store, id, many.clone()).await.unwrap();
        let wanted: Vec<ChangeEntry> = (1..).zip(many).map(|(n, it)| it.into_entry(n)).collect();
        assert_eq!(entries, wanted);
        let found = changes(&opened.store, id).await;
        let found: Vec<ChangeEntry> = found.into_iter().map(|it| it.entry).collect();
        assert_eq!(found, wanted);
        assert!(
            record(&opened.store, id, Vec::new())
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(header(&opened.store, id).await.entries, 311);
    });
}

fn concurrent_records_are_numbered_without_gaps(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let id = start_changeset(&opened.store).await.id;
        let answers = run_concurrently(16, |task| {
            let store = opened.store.clone();
            async move {
                let mut message = Vec::new();
                for round in 0..10 {
                    let batch = (0..=round % 3)
                        .map(|n| creation(format!("{task}/{round}/{n}").as_bytes()))
                        .collect();
                    message.push(record(&store, id, batch).await.unwrap());
                }
                message
            }
        })
        .await;
        let found = changes(&opened.store, id).await;
        let places: Vec<i64> = found.iter().map(|it| it.entry.sequence).collect();
        assert_eq!(places, (1..=16 * 19).collect::<Vec<i64>>());
        // The returned entries match the stored ones, and the entries of one call are adjacent.
        for message in answers.into_iter().flatten() {
            let first = message[0].sequence as usize - 1;
            let there = &found[first..first + message.len()];
            assert!(there.iter().map(|it| &it.entry).eq(&message));
        }
        assert_eq!(header(&opened.store, id).await.entries, 16 * 19);
    });
}

fn a_record_in_a_failed_write_leaves_no_gap(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let id = start_changeset(&opened.store).await.id;
        record(&opened.store, id, vec![creation(b"a")])
            .await
            .unwrap();
        let refused: Result<()> = try_write(&opened.store, move |tx| {
            let entries = tx.record_changes(id, &[creation(b"b")])?;
            assert_eq!(entries[0].sequence, 2);
            Err(StoreError::internal("the owner cannot go on"))
        })
        .await;
        refused.unwrap_err();
        let entries = record(&opened.store, id, vec![creation(b"c")])
            .await
            .unwrap();
        assert_eq!(entries[0].sequence, 2);
        assert_eq!(changes(&opened.store, id).await.len(), 2);
    });
}

fn a_closed_changeset_accepts_no_changes(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let sample = start_changeset(&opened.store).await;
        let id = sample.id;
        record(&opened.store, id, vec![creation(b"a")])
            .await
            .unwrap();
        assert_eq!(close(&opened.store, id, 5).await.unwrap(), 1);
        let closed = ChangesetRecord {
            state: ChangesetState::Closed,
            entries: 1,
            closed_at: Some(at(5)),
            ..sample
        };
        assert_eq!(header(&opened.store, id).await, closed);
        for batch in [vec![creation(b"b")], Vec::new()] {
            assert_refused(
                record(&opened.store, id, batch).await,
                (
                    "changeset",
                    &id.to_string(),
                    "is closed and takes no more changes",
                ),
            );
        }
        // Closing again has no effect, and the first closing time stays.
        assert_eq!(close(&opened.store, id, 6).await.unwrap(), 0);
        assert_eq!(header(&opened.store, id).await, closed);
        assert_eq!(changes(&opened.store, id).await.len(), 1);
    });
}

fn concurrent_close_and_record_agree(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let id = start_changeset(&opened.store).await.id;
        let answers = run_concurrently(16, |task| {
            let store = opened.store.clone();
            async move {
                if task % 4 == 3 {
                    return Err(close(&store, id, 5).await.unwrap());
                }
                let path = format!("{task}");
                match record(&store, id, vec![creation(path.as_bytes())]).await {
                    Ok(entries) => Ok(Some(entries[0].clone())),
                    Err(StoreError::Refused { .. }) => Ok(None),
                    Err(other) => panic!("{other}"),
                }
            }
        })
        .await;
        let closed: u64 = answers.iter().filter_map(|it| it.as_ref().err()).sum();
        assert_eq!(closed, 1);
        let mut message: Vec<ChangeEntry> = answers.into_iter().flatten().flatten().collect();
        message.sort_by_key(|entry| entry.sequence);
        let found = changes(&opened.store, id).await;
        assert!(found.iter().map(|it| &it.entry).eq(&message));
        let header = header(&opened.store, id).await;
        assert_eq!(header.entries, message.len() as i64);
        assert_eq!(header.state, ChangesetState::Closed);
    });
}

async fn undo(store: &StoreHandle, plan: PlanId, call: i64, by: CheckpointId) -> u64 {
    write(store, move |tx| tx.undo_changes(plan, call, by)).await
}

fn changes_after_a_call_are_undone_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let sample = start_changeset(&opened.store).await;
        let second = changeset(sample.plan_id, sample.sandbox_id);
        start(&opened.store, &second).await.unwrap();
        let foreign = start_changeset(&opened.store).await;
        let by_call = |call_number| NewChange {
            call_number,
            ..creation(b"a")
        };
        for id in [sample.id, second.id, foreign.id] {
            let calls = (1..=4).map(by_call).collect();
            record(&opened.store, id, calls).await.unwrap();
        }
        let [one, two] = [(); 2].map(|()| CheckpointId::new(SystemIds.next()));
        assert_eq!(undo(&opened.store, sample.plan_id, 3, one).await, 2);
        assert_eq!(undo(&opened.store, sample.plan_id, 1, two).await, 4);
        assert_eq!(undo(&opened.store, sample.plan_id, 1, one).await, 0);
        let marks = |changes: Vec<RecordedChange>| -> Vec<Option<CheckpointId>> {
            changes.into_iter().map(|it| it.undone_by).collect()
        };
        for id in [sample.id, second.id] {
            assert_eq!(
                marks(changes(&opened.store, id).await),
                [None, Some(two), Some(two), Some(one)]
            );
        }
        assert_eq!(marks(changes(&opened.store, foreign.id).await), [None; 4]);
    });
}

fn changesets_are_listed_in_the_order_they_were_started(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        start_changeset(&opened.store).await;
        let mut wanted = Vec::new();
        for seconds in [3, 1, 2] {
            let sample = ChangesetRecord {
                started_at: at(seconds),
                ..changeset(plan, sandbox)
            };
            start(&opened.store, &sample).await.unwrap();
            wanted.push(sample);
        }
        let list = move |store: &StoreHandle| {
            let store = store.clone();
            async move { read(&store, move |tx| tx.changesets_of(plan)).await }
        };
        assert_eq!(list(&opened.store).await, wanted);
        let ids = run_concurrently(16, |_| {
            let store = opened.store.clone();
            async move {
                let sample = changeset(plan, sandbox);
                start(&store, &sample).await.unwrap();
                sample.id
            }
        })
        .await;
        let found: Vec<ChangesetId> = list(&opened.store).await.iter().map(|it| it.id).collect();
        assert_eq!(found.len(), 19);
        assert!(ids.iter().all(|id| found[3..].contains(id)));
    });
}
