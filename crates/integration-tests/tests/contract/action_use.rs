//! Using actions: uses are counted, and a single-use action is used exactly once.

use cleveragents_domain::{Action, ActionState, Plan};
use cleveragents_integration_tests::assertions::{
    assert_conflict, assert_missing, assert_one_winner, assert_taken,
};
use cleveragents_integration_tests::lifecycle_samples::usable_action;
use cleveragents_integration_tests::samples::{plan, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Entity, Result, StoreError, StoreHandle};

contract! {
    every_use_of_a_reusable_action_is_counted,
    concurrent_single_uses_have_one_winner,
    an_archived_action_cannot_be_used,
    a_use_is_of_the_version_that_was_read,
    making_an_action_single_use_counts_earlier_uses,
    a_use_that_is_undone_is_not_counted,
}

/// One use, as in creating a plan: counts the action and stores the plan in one transaction.
async fn use_action(store: &StoreHandle, action: &Action) -> Result<Plan> {
    let action = action.clone();
    let mut made = plan(plan_id(), 0);
    made.brief.action_name = action.name.clone();
    try_write(store, move |tx| {
        tx.use_action(&action)?;
        tx.insert_plan(&made)?;
        Ok(made.clone())
    })
    .await
}

async fn insert(store: &StoreHandle, action: &Action) {
    let action = action.clone();
    write(store, move |tx| tx.insert_action(&action)).await;
}

async fn uses(store: &StoreHandle, action: &Action) -> u64 {
    let uses = read(store, |tx| tx.action_uses()).await;
    uses[&action.id]
}

fn every_use_of_a_reusable_action_is_counted(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let action = usable_action("local/often", true);
    block_on(async {
        insert(&opened.store, &action).await;
        insert(&opened.store, &usable_action("local/never", true)).await;
        let answers = run_concurrently(16, |_| {
            let (store, action) = (opened.store.clone(), action.clone());
            async move { use_action(&store, &action).await }
        })
        .await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(uses(&opened.store, &action).await, 16);
        let all = read(&opened.store, |tx| tx.action_uses()).await;
        assert_eq!((all.len(), all.values().sum::<u64>()), (2, 16));
        // A use does not change the version.
        let asked = action.name.clone();
        let found = read(&opened.store, move |tx| tx.action(&asked)).await;
        assert_eq!(found.version, 1);
    });
}

fn concurrent_single_uses_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let action = usable_action("local/once", false);
    block_on(async {
        insert(&opened.store, &action).await;
        let answers = run_concurrently(16, |_| {
            let (store, action) = (opened.store.clone(), action.clone());
            async move { use_action(&store, &action).await }
        })
        .await;
        let (winner, refused) = assert_one_winner(answers);
        for error in refused {
            assert_taken::<()>(
                Err(error),
                (
                    "the single-use action",
                    "local/once",
                    &winner.name.to_string(),
                ),
            );
        }
        assert_eq!(uses(&opened.store, &action).await, 1);
        let plans = read(&opened.store, |tx| tx.plans()).await;
        assert_eq!(plans, std::slice::from_ref(&winner));
        // It stays used after its plan is deleted.
        write(&opened.store, move |tx| tx.delete_plan(&winner)).await;
        assert_taken(
            use_action(&opened.store, &action).await,
            ("the single-use action", "local/once", "a deleted plan"),
        );
    });
}

fn an_archived_action_cannot_be_used(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let action = usable_action("local/old", true);
    block_on(async {
        assert_missing(
            use_action(&opened.store, &action).await,
            ("action", "local/old"),
        );
        insert(&opened.store, &action).await;
        let archived = Action {
            state: ActionState::Archived,
            ..action.clone()
        };
        write(&opened.store, move |tx| tx.update_action(&archived)).await;
        // A stale reader gets the archived error rather than a version conflict.
        for version in [1, 2] {
            let stale = Action {
                version,
                ..action.clone()
            };
            let refused = use_action(&opened.store, &stale).await;
            assert!(
                matches!(&refused, Err(StoreError::Archived { entity: Entity::Action, name })
                    if name == "local/old"),
                "{refused:?}"
            );
        }
        assert_eq!(uses(&opened.store, &action).await, 0);
        assert!(read(&opened.store, |tx| tx.plans()).await.is_empty());
    });
}

fn a_use_is_of_the_version_that_was_read(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let action = usable_action("local/one", true);
    block_on(async {
        insert(&opened.store, &action).await;
        let changed = action.clone();
        write(&opened.store, move |tx| tx.update_action(&changed)).await;
        assert_conflict(use_action(&opened.store, &action).await, ("action", 1, 2));
        let newest = Action {
            version: 2,
            ..action.clone()
        };
        use_action(&opened.store, &newest).await.unwrap();
        assert_eq!(uses(&opened.store, &action).await, 1);
    });
}

fn making_an_action_single_use_counts_earlier_uses(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let action = usable_action("local/one", true);
    block_on(async {
        insert(&opened.store, &action).await;
        let first = use_action(&opened.store, &action).await.unwrap();
        let mut once = Action {
            reusable: false,
            ..action.clone()
        };
        let changed = once.clone();
        once.version = write(&opened.store, move |tx| tx.update_action(&changed)).await;
        assert_taken(
            use_action(&opened.store, &once).await,
            (
                "the single-use action",
                "local/one",
                &first.name.to_string(),
            ),
        );
    });
}

fn a_use_that_is_undone_is_not_counted(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let action = usable_action("local/once", false);
    block_on(async {
        insert(&opened.store, &action).await;
        let asked = action.clone();
        let refused: Result<()> = try_write(&opened.store, move |tx| {
            tx.use_action(&asked)?;
            Err(StoreError::internal("the caller thinks better of it"))
        })
        .await;
        refused.unwrap_err();
        assert_eq!(uses(&opened.store, &action).await, 0);
        use_action(&opened.store, &action).await.unwrap();
    });
}
