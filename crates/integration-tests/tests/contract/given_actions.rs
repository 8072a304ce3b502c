//! Single-use actions that are given rather than registered: one plan per content of a name.

use cleveragents_domain::id::PlanId;
use cleveragents_integration_tests::assertions::{assert_one_winner, assert_taken};
use cleveragents_integration_tests::samples::{name, plan, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Result, StoreError, StoreHandle};

contract! {
    concurrent_uses_of_a_given_action_have_one_winner,
    another_content_or_name_is_another_action,
    a_rolled_back_claim_is_free_again,
    a_claim_outlives_its_plan,
}

const SINGLE_USE_ACTION: &str = "the single-use action";

/// One use, as in creating a plan: the claim and the plan in one transaction.
async fn use_given_action(store: &StoreHandle, text: &str, content: &str) -> Result<PlanId> {
    let (action, content) = (name(text), content.to_owned());
    let made = plan(plan_id(), 0);
    try_write(store, move |tx| {
        let id = made.identity.plan_id;
        tx.use_unregistered_action(&action, &content, id)?;
        tx.insert_plan(&made)?;
        Ok(id)
    })
    .await
}

async fn plan_name(store: &StoreHandle, id: PlanId) -> String {
    read(store, move |tx| tx.plan(id)).await.name.to_string()
}

fn concurrent_uses_of_a_given_action_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(64, |_| {
            let store = opened.store.clone();
            async move { use_given_action(&store, "once", "hash").await }
        })
        .await;
        let (winner, refused) = assert_one_winner(answers);
        let holder = plan_name(&opened.store, winner).await;
        for error in refused {
            assert_taken::<()>(Err(error), (SINGLE_USE_ACTION, "local/once", &holder));
        }
        let plans = read(&opened.store, |tx| tx.plans()).await;
        assert_eq!(plans.len(), 1);
    });
}

fn another_content_or_name_is_another_action(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for (text, content) in [("once", "a"), ("once", "b"), ("twice", "a")] {
            use_given_action(&opened.store, text, content)
                .await
                .unwrap();
        }
        let refused = use_given_action(&opened.store, "once", "b").await;
        assert!(
            matches!(refused, Err(StoreError::Taken { .. })),
            "{refused:?}"
        );
    });
}

fn a_rolled_back_claim_is_free_again(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let refused: Result<()> = try_write(&opened.store, move |tx| {
            tx.use_unregistered_action(&name("once"), "a", plan_id())?;
            Err(StoreError::internal("the caller thinks better of it"))
        })
        .await;
        refused.unwrap_err();
        use_given_action(&opened.store, "once", "a").await.unwrap();
    });
}

fn a_claim_outlives_its_plan(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let id = use_given_action(&opened.store, "once", "a").await.unwrap();
        let holder = plan_name(&opened.store, id).await;
        let refused = use_given_action(&opened.store, "once", "a").await;
        assert_taken(refused, (SINGLE_USE_ACTION, "local/once", &holder));
        let made = read(&opened.store, move |tx| tx.plan(id)).await;
        write(&opened.store, move |tx| tx.delete_plan(&made)).await;
        assert_taken(
            use_given_action(&opened.store, "once", "a").await,
            (SINGLE_USE_ACTION, "local/once", "a deleted plan"),
        );
    });
}
