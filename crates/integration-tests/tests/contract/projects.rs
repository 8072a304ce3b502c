//! Projects: versioned rows with unique names.

use cleveragents_domain::{InvariantScope, Project};
use cleveragents_integration_tests::assertions::{
    assert_conflict, assert_missing, assert_one_winner, assert_taken,
};
use cleveragents_integration_tests::lifecycle_samples::{invariant, project, resource};
use cleveragents_integration_tests::samples::{at, name};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Entity, Result, StoreError, StoreHandle};

contract! {
    a_project_reads_back_in_every_field,
    concurrent_project_inserts_have_one_winner,
    a_project_changes_only_from_its_newest_version,
    a_deleted_project_takes_its_links_and_rules_along,
    a_project_that_is_held_is_not_deleted,
}

async fn insert(store: &StoreHandle, project: &Project) -> Result<()> {
    let project = project.clone();
    try_write(store, move |tx| tx.insert_project(&project)).await
}

async fn delete(store: &StoreHandle, project: &Project) -> Result<()> {
    let project = project.clone();
    try_write(store, move |tx| tx.delete_project(&project)).await
}

fn a_project_reads_back_in_every_field(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (old, new) = (project("team/shop", 0), project("local/shop", 5));
    block_on(async {
        insert(&opened.store, &old).await.unwrap();
        insert(&opened.store, &new).await.unwrap();
        let found = read(&opened.store, |tx| tx.project(&name("team/shop"))).await;
        assert_eq!(found, old);
        let held = write(&opened.store, |tx| tx.lock_project(&name("shop"))).await;
        assert_eq!(held, new);
        assert_eq!(read(&opened.store, |tx| tx.projects()).await, [new, old]);
        let none = opened.store.read(|tx| tx.project(&name("none"))).await;
        assert_missing(none, ("project", "local/none"));
        let none = try_write(&opened.store, |tx| tx.lock_project(&name("none"))).await;
        assert_missing(none, ("project", "local/none"));
    });
}

fn concurrent_project_inserts_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |number| {
            let (store, project) = (opened.store.clone(), project("wanted", number as i64));
            async move { insert(&store, &project).await.map(|()| project.id) }
        })
        .await;
        let (winner, refused) = assert_one_winner(answers);
        for error in refused {
            let wanted = ("the project name", "local/wanted", winner.to_string());
            assert_taken::<()>(Err(error), (wanted.0, wanted.1, &wanted.2));
        }
        let found = read(&opened.store, |tx| tx.projects()).await;
        assert_eq!((found.len(), found[0].id), (1, winner));
    });
}

fn a_project_changes_only_from_its_newest_version(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let sample = project("local/shop", 0);
    block_on(async {
        insert(&opened.store, &sample).await.unwrap();
        let answers = run_concurrently(16, |number| {
            let store = opened.store.clone();
            let changed = Project {
                description: None,
                updated_at: at(100 + number as i64),
                ..sample.clone()
            };
            async move { try_write(&store, move |tx| tx.update_project(&changed)).await }
        })
        .await;
        let (version, refused) = assert_one_winner(answers);
        assert_eq!(version, 2);
        for error in refused {
            assert_conflict::<()>(Err(error), ("project", 1, 2));
        }
        assert_conflict(delete(&opened.store, &sample).await, ("project", 1, 2));
        let newest = read(&opened.store, |tx| tx.project(&name("shop"))).await;
        assert_eq!((newest.version, newest.description.as_deref()), (2, None));
        delete(&opened.store, &newest).await.unwrap();
        assert_missing(
            delete(&opened.store, &newest).await,
            ("project", &newest.id.to_string()),
        );
    });
}

fn a_deleted_project_takes_its_links_and_rules_along(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (shop, kept) = (project("local/shop", 0), resource("tree", b"/srv/tree", 0));
    let rule = invariant(
        "no new dependencies",
        InvariantScope::Project(name("shop")),
        0,
    );
    block_on(async {
        insert(&opened.store, &shop).await.unwrap();
        let (linked, added) = (kept.clone(), rule.clone());
        write(&opened.store, move |tx| {
            tx.insert_resource(&linked)?;
            tx.insert_invariant(&added)?;
            tx.link_resource(&name("shop"), &name("tree"))
        })
        .await;
        delete(&opened.store, &shop).await.unwrap();
        assert!(read(&opened.store, |tx| tx.invariants()).await.is_empty());
        let resources = read(&opened.store, |tx| tx.resources()).await;
        assert_eq!(resources, std::slice::from_ref(&kept));
        // A new project of that name starts empty, and the resource can be removed.
        insert(&opened.store, &project("local/shop", 9))
            .await
            .unwrap();
        let links = read(&opened.store, |tx| tx.resources_of(&name("shop"))).await;
        assert!(links.is_empty());
        write(&opened.store, move |tx| tx.delete_resource(&kept)).await;
    });
}

fn a_project_that_is_held_is_not_deleted(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let shop = project("local/shop", 0);
    block_on(async {
        insert(&opened.store, &shop).await.unwrap();
        let answers = run_concurrently(16, |number| {
            let (store, shop) = (opened.store.clone(), shop.clone());
            async move {
                if number == 8 {
                    return delete(&store, &shop).await;
                }
                let text = format!("rule {number}");
                let rule = invariant(&text, InvariantScope::Project(name("shop")), 0);
                try_write(&store, move |tx| tx.insert_invariant(&rule)).await
            }
        })
        .await;
        for (number, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(()) => {}
                Err(StoreError::NotFound {
                    entity: Entity::Project,
                    ..
                }) if number != 8 => {}
                other => panic!("{number}: {other:?}"),
            }
        }
        assert!(read(&opened.store, |tx| tx.invariants()).await.is_empty());
    });
}
