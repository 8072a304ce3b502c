//! Actors: versioned rows with unique names.

use cleveragents_integration_tests::assertions::{
    assert_conflict, assert_missing, assert_one_winner, assert_taken,
};
use cleveragents_integration_tests::definition_samples::actor_row;
use cleveragents_integration_tests::samples::{at, name};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{ActorRow, Result, StoreHandle};

contract! {
    an_actor_reads_back_in_every_field,
    a_taken_actor_name_is_refused_with_its_age,
    concurrent_actor_inserts_have_one_winner,
    an_actor_is_replaced_only_from_its_newest_version,
    concurrent_actor_removals_have_one_winner,
}

async fn insert(store: &StoreHandle, row: &ActorRow) -> Result<()> {
    let row = row.clone();
    try_write(store, move |tx| tx.insert_actor(&row)).await
}

async fn replace(store: &StoreHandle, row: ActorRow) -> Result<i64> {
    try_write(store, move |tx| tx.replace_actor(&row)).await
}

async fn delete(store: &StoreHandle, row: ActorRow) -> Result<()> {
    try_write(store, move |tx| tx.delete_actor(&row)).await
}

fn an_actor_reads_back_in_every_field(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let rows = ["team/b", "team/B", "local/a"].map(|text| actor_row(text, 3));
    block_on(async {
        for row in &rows {
            insert(&opened.store, row).await.unwrap();
        }
        let found = read(&opened.store, |tx| tx.actor(&name("team/b"))).await;
        assert_eq!(found, rows[0]);
        let all = read(&opened.store, |tx| tx.actors()).await;
        assert_eq!(all, [2, 1, 0].map(|number: usize| rows[number].clone()));
        let none = opened.store.read(|tx| tx.actor(&name("none"))).await;
        assert_missing(none, ("actor", "local/none"));
    });
}

fn a_taken_actor_name_is_refused_with_its_age(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        insert(&opened.store, &actor_row("mine", 1)).await.unwrap();
        let holder = format!("one of {}", at(1));
        assert_taken(
            insert(&opened.store, &actor_row("mine", 2)).await,
            ("the actor name", "local/mine", &holder),
        );
    });
}

fn concurrent_actor_inserts_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |number| {
            let store = opened.store.clone();
            let row = actor_row("wanted", i64::try_from(number).unwrap());
            async move { insert(&store, &row).await.map(|()| row) }
        })
        .await;
        let (winner, _) = assert_one_winner(answers);
        let all = read(&opened.store, |tx| tx.actors()).await;
        assert_eq!(all, [winner]);
    });
}

fn an_actor_is_replaced_only_from_its_newest_version(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let missing = replace(&opened.store, actor_row("mine", 1)).await;
        assert_missing(missing, ("actor", "local/mine"));
        insert(&opened.store, &actor_row("mine", 1)).await.unwrap();
        let answers = run_concurrently(16, |number| {
            let mut row = actor_row("mine", 9);
            row.actor.description = format!("from {number}");
            let store = opened.store.clone();
            async move { replace(&store, row).await }
        })
        .await;
        let (version, refused) = assert_one_winner(answers);
        assert_eq!(version, 2);
        for error in refused {
            assert_conflict::<()>(Err(error), ("actor", 1, 2));
        }
        let newest = read(&opened.store, |tx| tx.actor(&name("mine"))).await;
        assert_eq!(newest.version, 2);
        assert_eq!((newest.created_at, newest.updated_at), (at(1), at(9)));
        assert!(newest.actor.description.starts_with("from "));
    });
}

fn concurrent_actor_removals_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let row = actor_row("mine", 1);
    block_on(async {
        insert(&opened.store, &row).await.unwrap();
        let stale = ActorRow {
            version: 7,
            ..row.clone()
        };
        assert_conflict(delete(&opened.store, stale).await, ("actor", 7, 1));
        let answers = run_concurrently(16, |_| {
            let (store, row) = (opened.store.clone(), row.clone());
            async move { delete(&store, row).await }
        })
        .await;
        let (_, refused) = assert_one_winner(answers);
        for error in refused {
            assert_missing::<()>(Err(error), ("actor", "local/mine"));
        }
        assert!(read(&opened.store, |tx| tx.actors()).await.is_empty());
    });
}
