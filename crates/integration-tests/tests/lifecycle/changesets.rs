//! The execution context of a plan: its guarantees for changesets, and who may record in them.

use cleveragents_domain::changeset::{ChangesetRecord, ChangesetState, NewChange};
use cleveragents_domain::event::payloads::{ChangeRecorded, ChangesetClosed, ChangesetStarted};
use cleveragents_domain::id::{ChangesetId, SandboxId};
use cleveragents_domain::{EventBody, EventKind, FileOperation, StreamId};
use cleveragents_engine::execution::ExecutionContext;
use cleveragents_integration_tests::assertions::{assert_missing, assert_refused};
use cleveragents_integration_tests::execution_samples::{
    claim_run, context, creation, file, store_context,
};
use cleveragents_integration_tests::store_access::{events, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Ids, Result, StoreError, StoreHandle};

contract! {
    a_changeset_is_journaled_from_start_to_close,
    all_pages_of_a_changeset_are_read,
    contradictory_changes_are_refused_whole,
    a_lost_lease_cannot_change_a_changeset,
    a_changeset_of_another_plan_is_not_found,
    a_record_is_rolled_back_with_its_write,
    a_concurrent_close_is_journaled_once;
    durable: a_started_changeset_is_visible_to_every_process,
}

/// The plan's journal events about changesets.
async fn changeset_events(
    store: &StoreHandle,
    context: &ExecutionContext,
) -> Vec<(String, EventBody)> {
    let message = events(store, StreamId::Plan(context.plan())).await;
    let kinds = [
        EventKind::ChangesetStarted,
        EventKind::ChangeRecorded,
        EventKind::ChangesetClosed,
    ];
    message
        .into_iter()
        .filter(|event| kinds.contains(&event.kind))
        .map(|event| (event.actor.clone(), event.known_body().unwrap()))
        .collect()
}

fn a_changeset_is_journaled_from_start_to_close(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (context, sandbox) = store_context(&opened.store).await;
        let started = context.start_changeset(sandbox, 3, Some(2)).await.unwrap();
        assert_eq!(started.sandbox(), sandbox);
        assert_eq!(started.plan(), context.plan());
        let header = ChangesetRecord {
            id: started.id(),
            plan_id: context.plan(),
            sandbox_id: sandbox,
            attempt: 3,
            step: Some(2),
            state: ChangesetState::Open,
            entries: 0,
            started_at: context.changesets().await.unwrap()[0].started_at,
            closed_at: None,
        };
        assert_eq!(context.changesets().await.unwrap(), vec![header.clone()]);
        let changes = vec![creation(b"a"), creation(b"\xff")];
        let entries = started.record(changes.clone()).await.unwrap();
        let wanted: Vec<_> = (1..).zip(changes).map(|(n, it)| it.into_entry(n)).collect();
        assert_eq!(entries, wanted);
        for _ in 0..2 {
            started.close().await.unwrap();
        }
        let closed = context.changesets().await.unwrap().remove(0);
        assert_eq!(closed.state, ChangesetState::Closed);
        assert!(closed.closed_at.unwrap() >= closed.started_at);
        assert_refused(
            started.record(vec![creation(b"late")]).await,
            (
                "changeset",
                &started.id().to_string(),
                "is closed and takes no more changes",
            ),
        );
        let owner = context.lease().owner.to_string();
        let recorded = |at: usize| {
            EventBody::ChangeRecorded(Box::new(ChangeRecorded {
                changeset_id: started.id(),
                entry: entries[at].clone(),
            }))
        };
        let closed = ChangesetClosed {
            changeset_id: started.id(),
            entries: 2,
        };
        let wanted = [
            EventBody::ChangesetStarted(Box::new(ChangesetStarted(header))),
            recorded(0),
            recorded(1),
            EventBody::ChangesetClosed(Box::new(closed)),
        ];
        let wanted = wanted.map(|body| (owner.clone(), body));
        assert_eq!(changeset_events(&opened.store, &context).await, wanted);
    });
}

fn all_pages_of_a_changeset_are_read(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (context, sandbox) = store_context(&opened.store).await;
        let changeset = context.start_changeset(sandbox, 1, None).await.unwrap();
        let many: Vec<NewChange> = (0..2005)
            .map(|number| creation(format!("{number}").as_bytes()))
            .collect();
        let entries = changeset.record(many).await.unwrap();
        let found = context.changes(changeset.id()).await.unwrap();
        assert_eq!(found.len(), 2005);
        assert!(found.iter().map(|it| &it.entry).eq(&entries));
        let empty = context.start_changeset(sandbox, 1, None).await.unwrap();
        assert!(context.changes(empty.id()).await.unwrap().is_empty());
    });
}

fn contradictory_changes_are_refused_whole(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (context, sandbox) = store_context(&opened.store).await;
        let changeset = context.start_changeset(sandbox, 1, None).await.unwrap();
        let to_itself = NewChange {
            operation: FileOperation::Rename {
                from: creation(b"a%").path,
            },
            before: Some(file('1')),
            ..creation(b"a%")
        };
        let deletion = NewChange {
            operation: FileOperation::Delete,
            ..creation(b"b")
        };
        let message = "have a state before it and none after it";
        for (wrong, path, reason) in [
            (to_itself, "a%25", "cannot go to the same path".to_owned()),
            (deletion, "b", format!("must {message}")),
        ] {
            let answer = changeset.record(vec![creation(b"right"), wrong]).await;
            assert_refused(answer, ("the change of", path, &reason));
        }
        assert!(context.changes(changeset.id()).await.unwrap().is_empty());
        assert_eq!(changeset_events(&opened.store, &context).await.len(), 1);
    });
}

fn a_lost_lease_cannot_change_a_changeset(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (old, sandbox) = store_context(&opened.store).await;
        let changeset = old.start_changeset(sandbox, 1, None).await.unwrap();
        let lease = old.lease().clone();
        write(&opened.store, move |tx| tx.release_run(&lease)).await;
        let new = context(&opened.store, claim_run(&opened.store, old.plan()).await);
        let before = changeset_events(&opened.store, &old).await;
        let handle = changeset.clone();
        let within = try_write(&opened.store, move |tx| {
            let (entries, _) = handle.record_in(tx, "late", &[creation(b"late")])?;
            Ok(entries)
        });
        let lost: [Result<()>; 4] = [
            old.start_changeset(sandbox, 1, None).await.map(drop),
            changeset.record(vec![creation(b"late")]).await.map(drop),
            within.await.map(drop),
            changeset.close().await,
        ];
        for answer in lost {
            assert!(
                matches!(answer, Err(StoreError::LeaseLost { .. })),
                "{answer:?}"
            );
        }
        assert_eq!(changeset_events(&opened.store, &old).await, before);
        let headers = new.changesets().await.unwrap();
        assert_eq!((headers.len(), headers[0].entries), (1, 0));
        // The new owner continues with the existing changeset.
        let handle = new.changeset(changeset.id()).await.unwrap();
        assert_eq!(handle.sandbox(), sandbox);
        handle.record(vec![creation(b"mine")]).await.unwrap();
        handle.close().await.unwrap();
    });
}

fn a_changeset_of_another_plan_is_not_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (mine, sandbox) = store_context(&opened.store).await;
        let (other, foreign) = store_context(&opened.store).await;
        let theirs = other.start_changeset(foreign, 1, None).await.unwrap();
        let missing = ("changeset of this plan", &*theirs.id().to_string());
        assert_missing(mine.changeset(theirs.id()).await, missing);
        assert_missing(mine.changes(theirs.id()).await, missing);
        assert!(mine.changesets().await.unwrap().is_empty());
        assert_missing(
            mine.start_changeset(foreign, 1, None).await,
            ("sandbox of this plan", &foreign.to_string()),
        );
        let unknown = ChangesetId::new(SystemIds.next());
        assert_missing(
            mine.changeset(unknown).await,
            ("changeset", &unknown.to_string()),
        );
        let nowhere = SandboxId::new(SystemIds.next());
        assert_missing(
            mine.start_changeset(nowhere, 1, None).await,
            ("sandbox of this plan", &nowhere.to_string()),
        );
        assert!(changeset_events(&opened.store, &mine).await.is_empty());
        mine.start_changeset(sandbox, 1, None).await.unwrap();
    });
}

fn a_record_is_rolled_back_with_its_write(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (context, sandbox) = store_context(&opened.store).await;
        let changeset = context.start_changeset(sandbox, 1, None).await.unwrap();
        for fails in [true, false] {
            let (handle, plan) = (changeset.clone(), context.plan());
            let answer = try_write(&opened.store, move |tx| {
                let (entries, message) = handle.record_in(tx, "tool", &[creation(b"a")])?;
                tx.append(StreamId::Plan(plan), &message)?;
                if fails {
                    Err(StoreError::internal("the call was not ended"))
                } else {
                    Ok(entries)
                }
            })
            .await;
            assert_eq!(answer.is_err(), fails);
        }
        let found = context.changes(changeset.id()).await.unwrap();
        assert_eq!((found.len(), found[0].entry.sequence), (1, 1));
        let message = changeset_events(&opened.store, &context).await;
        assert_eq!((message.len(), message[1].0.as_str()), (2, "tool"));
    });
}

fn a_concurrent_close_is_journaled_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (context, sandbox) = store_context(&opened.store).await;
        let changeset = context.start_changeset(sandbox, 1, None).await.unwrap();
        run_concurrently(16, |_| {
            let changeset = changeset.clone();
            async move { changeset.close().await.unwrap() }
        })
        .await;
        assert_eq!(changeset_events(&opened.store, &context).await.len(), 2);
    });
}

/// An empty changeset is stored, not only in memory: another process finds it, with its plan.
fn a_started_changeset_is_visible_to_every_process(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (here, sandbox) = store_context(&opened.store).await;
        let started = here.start_changeset(sandbox, 1, None).await.unwrap();
        let elsewhere = test_db.open();
        let there = context(&elsewhere.store, here.lease().clone());
        let headers = there.changesets().await.unwrap();
        assert_eq!(headers, here.changesets().await.unwrap());
        assert_eq!((headers.len(), headers[0].id), (1, started.id()));
        assert_eq!((headers[0].plan_id, headers[0].entries), (here.plan(), 0));
        let handle = there.changeset(started.id()).await.unwrap();
        handle.record(vec![creation(b"there")]).await.unwrap();
        started.record(vec![creation(b"here")]).await.unwrap();
        assert_eq!(there.changes(started.id()).await.unwrap().len(), 2);
    });
}
