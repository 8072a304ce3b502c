//! Projects: versioned rows with names that one holder has.

use cleveragents_domain::{Project, Scope};
use cleveragents_engine::ports::{Result, StoreError, StoreHandle};
use cleveragents_proof::answers::{assert_conflict, assert_missing, assert_taken, one_winner};
use cleveragents_proof::lifecycle_samples::{invariant, project, resource};
use cleveragents_proof::samples::{at, name};
use cleveragents_proof::verbs::{attempt, read, together, write};
use cleveragents_proof::{Backend, Place, block_on, contract};

contract! {
    a_project_reads_back_in_every_field,
    sixteen_who_want_one_project_name_have_one_winner,
    a_project_changes_only_from_its_newest_version,
    a_deleted_project_takes_its_links_and_rules_along,
    a_project_that_is_held_is_not_deleted,
}

async fn insert(store: &StoreHandle, project: &Project) -> Result<()> {
    let project = project.clone();
    attempt(store, move |unit| unit.insert_project(&project)).await
}

async fn delete(store: &StoreHandle, project: &Project) -> Result<()> {
    let project = project.clone();
    attempt(store, move |unit| unit.delete_project(&project)).await
}

fn a_project_reads_back_in_every_field(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let (old, new) = (project("team/shop", 0), project("local/shop", 5));
    block_on(async {
        insert(&opened.store, &old).await.unwrap();
        insert(&opened.store, &new).await.unwrap();
        let found = read(&opened.store, |unit| unit.project(&name("team/shop"))).await;
        assert_eq!(found, old);
        let held = write(&opened.store, |unit| unit.hold_project(&name("shop"))).await;
        assert_eq!(held, new);
        assert_eq!(
            read(&opened.store, |unit| unit.projects()).await,
            [new, old]
        );
        let none = opened.store.read(|unit| unit.project(&name("none"))).await;
        assert_missing(none, ("project", "local/none"));
        let none = attempt(&opened.store, |unit| unit.hold_project(&name("none"))).await;
        assert_missing(none, ("project", "local/none"));
    });
}

fn sixteen_who_want_one_project_name_have_one_winner(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let answers = together(16, |number| {
            let (store, project) = (opened.store.clone(), project("wanted", number as i64));
            async move { insert(&store, &project).await.map(|()| project.id) }
        })
        .await;
        let (winner, refused) = one_winner(answers);
        for error in refused {
            let wanted = ("the project name", "local/wanted", winner.to_string());
            assert_taken::<()>(Err(error), (wanted.0, wanted.1, &wanted.2));
        }
        let found = read(&opened.store, |unit| unit.projects()).await;
        assert_eq!((found.len(), found[0].id), (1, winner));
    });
}

fn a_project_changes_only_from_its_newest_version(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let sample = project("local/shop", 0);
    block_on(async {
        insert(&opened.store, &sample).await.unwrap();
        let answers = together(16, |number| {
            let store = opened.store.clone();
            let changed = Project {
                description: None,
                updated_at: at(100 + number as i64),
                ..sample.clone()
            };
            async move { attempt(&store, move |unit| unit.update_project(&changed)).await }
        })
        .await;
        let (version, refused) = one_winner(answers);
        assert_eq!(version, 2);
        for error in refused {
            assert_conflict::<()>(Err(error), ("project", 1, 2));
        }
        assert_conflict(delete(&opened.store, &sample).await, ("project", 1, 2));
        let newest = read(&opened.store, |unit| unit.project(&name("shop"))).await;
        assert_eq!((newest.version, newest.description.as_deref()), (2, None));
        delete(&opened.store, &newest).await.unwrap();
        assert_missing(
            delete(&opened.store, &newest).await,
            ("project", &newest.id.to_string()),
        );
    });
}

fn a_deleted_project_takes_its_links_and_rules_along(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let (shop, kept) = (project("local/shop", 0), resource("tree", b"/srv/tree", 0));
    let rule = invariant("no new dependencies", Scope::Project(name("shop")), 0);
    block_on(async {
        insert(&opened.store, &shop).await.unwrap();
        let (linked, added) = (kept.clone(), rule.clone());
        write(&opened.store, move |unit| {
            unit.insert_resource(&linked)?;
            unit.insert_invariant(&added)?;
            unit.link_resource(&name("shop"), &name("tree"))
        })
        .await;
        delete(&opened.store, &shop).await.unwrap();
        assert!(
            read(&opened.store, |unit| unit.invariants())
                .await
                .is_empty()
        );
        let resources = read(&opened.store, |unit| unit.resources()).await;
        assert_eq!(resources, std::slice::from_ref(&kept));
        // A new project of that name begins with nothing, and the resource is free to go.
        insert(&opened.store, &project("local/shop", 9))
            .await
            .unwrap();
        let links = read(&opened.store, |unit| unit.resources_of(&name("shop"))).await;
        assert!(links.is_empty());
        write(&opened.store, move |unit| unit.delete_resource(&kept)).await;
    });
}

fn a_project_that_is_held_is_not_deleted(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let shop = project("local/shop", 0);
    block_on(async {
        insert(&opened.store, &shop).await.unwrap();
        let answers = together(16, |number| {
            let (store, shop) = (opened.store.clone(), shop.clone());
            async move {
                if number == 8 {
                    return delete(&store, &shop).await;
                }
                let text = format!("rule {number}");
                let rule = invariant(&text, Scope::Project(name("shop")), 0);
                attempt(&store, move |unit| unit.insert_invariant(&rule)).await
            }
        })
        .await;
        for (number, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(()) => {}
                Err(StoreError::NotFound {
                    what: "project", ..
                }) if number != 8 => {}
                other => panic!("{number}: {other:?}"),
            }
        }
        assert!(
            read(&opened.store, |unit| unit.invariants())
                .await
                .is_empty()
        );
    });
}
