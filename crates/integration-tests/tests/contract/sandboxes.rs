//! Sandbox records: one per resource of a plan, updated only from the newest version.

use cleveragents_domain::id::{IdFragment, PlanId, SandboxId};
use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_integration_tests::assertions::{
    assert_ambiguous, assert_conflict, assert_missing, assert_one_winner, assert_refused,
    assert_taken,
};
use cleveragents_integration_tests::execution_samples::{sandbox, store_sandbox, tree};
use cleveragents_integration_tests::lifecycle_samples::store_sample_plan;
use cleveragents_integration_tests::samples::{at, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Result, StoreHandle};

contract! {
    a_sandbox_reads_back_as_it_was_stored,
    a_resource_has_one_sandbox_of_a_plan_until_it_is_discarded,
    concurrent_sandbox_inserts_have_one_winner,
    a_stale_change_is_a_conflict_and_changes_nothing,
    every_state_change_follows_the_table,
    sandboxes_are_listed_by_plan_and_by_state,
    a_sandbox_is_found_by_either_end_of_its_id,
}

async fn insert(store: &StoreHandle, sandbox: &SandboxRecord) -> Result<()> {
    let sandbox = sandbox.clone();
    try_write(store, move |tx| tx.insert_sandbox(&sandbox)).await
}

async fn update(store: &StoreHandle, sandbox: &SandboxRecord) -> Result<i64> {
    let sandbox = sandbox.clone();
    try_write(store, move |tx| tx.update_sandbox(&sandbox)).await
}

async fn get(store: &StoreHandle, id: SandboxId) -> SandboxRecord {
    read(store, move |tx| tx.sandbox(id)).await
}

async fn of_plan(store: &StoreHandle, plan: PlanId) -> Vec<SandboxId> {
    let found = read(store, move |tx| tx.sandboxes_of(plan)).await;
    found.iter().map(|sandbox| sandbox.id).collect()
}

fn a_sandbox_reads_back_as_it_was_stored(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let full = sandbox(plan, 1);
        let bare = SandboxRecord {
            base_tree: None,
            base_commit: None,
            tree: None,
            ..sandbox(plan, 2)
        };
        for sample in [&full, &bare] {
            insert(&opened.store, sample).await.unwrap();
            assert_eq!(&get(&opened.store, sample.id).await, sample);
        }
        let again = SandboxRecord {
            resource_id: sandbox(plan, 0).resource_id,
            ..full.clone()
        };
        assert_taken(
            insert(&opened.store, &again).await,
            ("the sandbox id", &full.id.to_string(), "another sandbox"),
        );
        let nowhere = sandbox(plan_id(), 0);
        assert_missing(
            insert(&opened.store, &nowhere).await,
            ("plan", &nowhere.plan_id.to_string()),
        );
        let id = nowhere.id;
        let missing = opened.store.read(move |tx| tx.sandbox(id)).await;
        assert_missing(missing, ("sandbox", &id.to_string()));
        assert_missing(
            update(&opened.store, &nowhere).await,
            ("sandbox", &id.to_string()),
        );
    });
}

fn a_resource_has_one_sandbox_of_a_plan_until_it_is_discarded(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let first = sandbox(plan, 1);
        insert(&opened.store, &first).await.unwrap();
        let second = SandboxRecord {
            resource_id: first.resource_id,
            ..sandbox(plan, 2)
        };
        let holder = format!("sandbox {}", first.id);
        assert_taken(
            insert(&opened.store, &second).await,
            ("the plan's sandbox of resource", "local/shop", &holder),
        );
        // Another plan, or another resource, has its own sandbox.
        let other = SandboxRecord {
            resource_id: first.resource_id,
            ..sandbox(store_sample_plan(&opened.store).await, 3)
        };
        insert(&opened.store, &other).await.unwrap();
        insert(&opened.store, &sandbox(plan, 4)).await.unwrap();
        let discarded = SandboxRecord {
            state: SandboxState::Discarded,
            ..first.clone()
        };
        assert_eq!(update(&opened.store, &discarded).await.unwrap(), 2);
        insert(&opened.store, &second).await.unwrap();
        // The discarded sandbox can still lose its folder.
        let gone = SandboxRecord {
            folder: FolderState::Gone,
            version: 2,
            ..discarded
        };
        assert_eq!(update(&opened.store, &gone).await.unwrap(), 3);
        assert_eq!(get(&opened.store, first.id).await.folder, FolderState::Gone);
    });
}

fn concurrent_sandbox_inserts_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let resource_id = sandbox(plan, 0).resource_id;
        let answers = run_concurrently(16, |number| {
            let store = opened.store.clone();
            let wanted = SandboxRecord {
                resource_id,
                ..sandbox(plan, number as i64)
            };
            async move { insert(&store, &wanted).await.map(|()| wanted.id) }
        })
        .await;
        let (winner, refused) = assert_one_winner(answers);
        assert_eq!(refused.len(), 15);
        let holder = format!("sandbox {winner}");
        for error in refused {
            assert_taken::<()>(
                Err(error),
                ("the plan's sandbox of resource", "local/shop", &holder),
            );
        }
        assert_eq!(of_plan(&opened.store, plan).await, [winner]);
    });
}

fn a_stale_change_is_a_conflict_and_changes_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let first = sandbox(plan, 1);
        insert(&opened.store, &first).await.unwrap();
        let answers = run_concurrently(16, |number| {
            let store = opened.store.clone();
            let changed = SandboxRecord {
                state: SandboxState::Active,
                tree: Some(tree(char::from_digit(number as u32, 16).unwrap())),
                updated_at: at(number as i64),
                ..first.clone()
            };
            async move { update(&store, &changed).await.map(|_| changed) }
        })
        .await;
        let (winner, refused) = assert_one_winner(answers);
        for error in refused {
            assert_conflict::<()>(Err(error), ("sandbox", 1, 2));
        }
        let newest = SandboxRecord {
            version: 2,
            ..winner
        };
        assert_eq!(get(&opened.store, first.id).await, newest);
    });
}

/// Every pair of states: the store permits the domain's transitions, and no change.
fn every_state_change_follows_the_table(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        for from in SandboxState::ALL {
            for next in SandboxState::ALL {
                let sample = SandboxRecord {
                    state: *from,
                    ..sandbox(plan, 1)
                };
                insert(&opened.store, &sample).await.unwrap();
                let moved = SandboxRecord {
                    state: *next,
                    ..sample.clone()
                };
                let answer = update(&opened.store, &moved).await;
                if from == next || from.can_become(*next) {
                    assert_eq!(answer.unwrap(), 2, "{from} to {next}");
                } else {
                    let reason = format!("is {from} and cannot become {next}");
                    assert_refused(answer, ("sandbox", &sample.id.to_string(), &reason));
                    assert_eq!(get(&opened.store, sample.id).await, sample);
                }
            }
        }
    });
}

fn sandboxes_are_listed_by_plan_and_by_state(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, other) = (
            store_sample_plan(&opened.store).await,
            store_sample_plan(&opened.store).await,
        );
        assert!(of_plan(&opened.store, plan).await.is_empty());
        // The creation order differs from the order of their times and ids.
        let mut samples: Vec<SandboxRecord> = [3, 1, 2]
            .map(|seconds| sandbox(plan, seconds))
            .into_iter()
            .collect();
        samples[1].state = SandboxState::Discarded;
        samples.push(SandboxRecord {
            state: SandboxState::Active,
            ..sandbox(other, 4)
        });
        samples[0].id = "7ZZZZZZZZZ0000000000ABCDEF".parse().unwrap();
        for sample in &samples {
            insert(&opened.store, sample).await.unwrap();
        }
        let ids: Vec<SandboxId> = samples.iter().map(|sample| sample.id).collect();
        assert_eq!(of_plan(&opened.store, plan).await, [ids[0], ids[2]]);
        assert_eq!(of_plan(&opened.store, other).await, [ids[3]]);
        let list = |states: &'static [SandboxState]| {
            let store = opened.store.clone();
            async move {
                let found = read(&store, move |tx| tx.list_sandboxes(states)).await;
                found.iter().map(|it| it.id).collect::<Vec<_>>()
            }
        };
        assert_eq!(list(&[]).await, [ids[3], ids[0], ids[2], ids[1]]);
        assert_eq!(list(&[SandboxState::Creating]).await, [ids[0], ids[2]]);
        let some = list(&[SandboxState::Active, SandboxState::Discarded]).await;
        assert_eq!(some, [ids[3], ids[1]]);
        assert!(list(&[SandboxState::Applied]).await.is_empty());
    });
}

fn a_sandbox_is_found_by_either_end_of_its_id(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (_, first) = store_sandbox(&opened.store).await;
        let (plan, _) = store_sandbox(&opened.store).await;
        let text = first.to_string();
        let find = |text: &str| {
            let fragment: IdFragment = text.parse().unwrap();
            let store = opened.store.clone();
            async move { store.read(move |tx| tx.find_sandbox(&fragment)).await }
        };
        for fragment in [&text[18..], &text[..], &text[18..].to_lowercase()] {
            let found: SandboxRecord = find(fragment).await.unwrap();
            assert_eq!(found.id, first);
        }
        assert_missing(find("ZZZZZZ").await, ("sandbox", "ZZZZZZ"));
        let twin = SandboxRecord {
            id: format!("7{}", &text[1..]).parse().unwrap(),
            ..sandbox(plan, 0)
        };
        insert(&opened.store, &twin).await.unwrap();
        assert_ambiguous(
            find(&text[18..]).await,
            &[text.clone(), twin.id.to_string()],
        );
    });
}
