//! Validations and their attachments: none dangles, and deleting a target deletes them.

use std::collections::BTreeMap;

use cleveragents_domain::{Attachment, AttachmentScope};
use cleveragents_integration_tests::assertions::{
    assert_conflict, assert_missing, assert_one_winner, assert_referenced, assert_taken,
};
use cleveragents_integration_tests::definition_samples::{
    actor_row, attachment, store_resource, store_validation, validation_row,
};
use cleveragents_integration_tests::lifecycle_samples::{project, store_sample_plan};
use cleveragents_integration_tests::samples::{at, name, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Result, StoreError, StoreHandle, ValidationRow};
use cleveragents_store::{AlteredBackupPolicy, ExistingDataPolicy};

use super::maintenance::{file, save};

contract! {
    a_validation_reads_back_in_every_field,
    concurrent_validation_inserts_have_one_winner,
    a_validation_is_replaced_only_from_its_newest_version,
    an_attachment_reads_back_in_every_scope,
    an_attachment_is_unique,
    concurrent_attachments_have_one_winner,
    concurrent_detachments_have_one_winner,
    attachments_need_existing_targets,
    attachments_are_deleted_with_their_target,
    an_attached_validation_cannot_be_removed,
    attaching_and_removing_exclude_each_other,
    definitions_and_attachments_are_in_a_backup,
}

async fn insert(store: &StoreHandle, row: &ValidationRow) -> Result<()> {
    let row = row.clone();
    try_write(store, move |tx| tx.insert_validation(&row)).await
}

async fn attach(store: &StoreHandle, attachment: &Attachment) -> Result<()> {
    let attachment = attachment.clone();
    try_write(store, move |tx| tx.insert_attachment(&attachment)).await
}

async fn attachments(store: &StoreHandle) -> Vec<Attachment> {
    read(store, |tx| tx.attachments()).await
}

fn a_validation_reads_back_in_every_field(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let rows = ["team/b", "team/B", "local/a"].map(|text| validation_row(text, 3));
    block_on(async {
        for row in &rows {
            insert(&opened.store, row).await.unwrap();
        }
        let found = read(&opened.store, |tx| tx.validation(&name("team/b"))).await;
        assert_eq!(found, rows[0]);
        let all = read(&opened.store, |tx| tx.validations()).await;
        assert_eq!(all, [2, 1, 0].map(|number: usize| rows[number].clone()));
        let none = opened.store.read(|tx| tx.validation(&name("none"))).await;
        assert_missing(none, ("validation", "local/none"));
        let holder = format!("one of {}", at(3));
        assert_taken(
            insert(&opened.store, &validation_row("a", 4)).await,
            ("the validation name", "local/a", &holder),
        );
    });
}

fn concurrent_validation_inserts_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |_| {
            let store = opened.store.clone();
            async move { insert(&store, &validation_row("wanted", 1)).await }
        })
        .await;
        assert_one_winner(answers);
        let all = read(&opened.store, |tx| tx.validations()).await;
        assert_eq!(all.len(), 1);
    });
}

fn a_validation_is_replaced_only_from_its_newest_version(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        insert(&opened.store, &validation_row("v", 1))
            .await
            .unwrap();
        let replace = |version| {
            let row = ValidationRow {
                version,
                ..validation_row("v", 5)
            };
            try_write(&opened.store, move |tx| tx.replace_validation(&row))
        };
        assert_eq!(replace(1).await.unwrap(), 2);
        assert_conflict(replace(1).await, ("validation", 1, 2));
        let newest = read(&opened.store, |tx| tx.validation(&name("v"))).await;
        assert_eq!((newest.created_at, newest.updated_at), (at(1), at(5)));
    });
}

fn an_attachment_reads_back_in_every_scope(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let store = &opened.store;
        let plan = store_sample_plan(store).await;
        let sample = project("shop", 0);
        write(store, move |tx| tx.insert_project(&sample)).await;
        store_validation(store, "v").await;
        let [one, other] = [
            store_resource(store, "one").await,
            store_resource(store, "two").await,
        ];
        let all = [
            attachment("v", one, AttachmentScope::Plan(plan), 3),
            attachment("v", other, AttachmentScope::Project(name("shop")), 2),
            attachment("v", one, AttachmentScope::Direct, 1),
        ];
        for each in all.iter().rev() {
            attach(store, each).await.unwrap();
        }
        assert_eq!(attachments(store).await, all);
        let of_one = read(store, move |tx| tx.attachments_to(&[one, one])).await;
        assert_eq!(of_one, [all[0].clone(), all[2].clone()]);
        let none = read(store, |tx| tx.attachments_to(&[])).await;
        assert_eq!(none, []);
        let fragment = all[1].id.to_string()[18..].parse().unwrap();
        let found = read(store, move |tx| tx.find_attachment(&fragment)).await;
        assert_eq!(found, all[1]);
    });
}

fn an_attachment_is_unique(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let store = &opened.store;
        store_validation(store, "v").await;
        let resource = store_resource(store, "one").await;
        let first = attachment("v", resource, AttachmentScope::Direct, 1);
        attach(store, &first).await.unwrap();
        let again = attachment("v", resource, AttachmentScope::Direct, 2);
        let holder = first.id.to_string();
        assert_taken(
            attach(store, &again).await,
            ("the place of the validation", "local/v", &holder),
        );
        // Different arguments make it a different check.
        let other = Attachment {
            args: BTreeMap::new(),
            ..again
        };
        attach(store, &other).await.unwrap();
        assert_eq!(attachments(store).await, [other, first]);
    });
}

fn concurrent_attachments_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        store_validation(&opened.store, "v").await;
        let resource = store_resource(&opened.store, "one").await;
        let answers = run_concurrently(16, |_| {
            let store = opened.store.clone();
            let wanted = attachment("v", resource, AttachmentScope::Direct, 1);
            async move { attach(&store, &wanted).await.map(|()| wanted) }
        })
        .await;
        let (winner, _) = assert_one_winner(answers);
        assert_eq!(attachments(&opened.store).await, [winner]);
    });
}

fn concurrent_detachments_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        store_validation(&opened.store, "v").await;
        let resource = store_resource(&opened.store, "one").await;
        let wanted = attachment("v", resource, AttachmentScope::Direct, 1);
        attach(&opened.store, &wanted).await.unwrap();
        let answers = run_concurrently(16, |_| {
            let (store, id) = (opened.store.clone(), wanted.id);
            async move { try_write(&store, move |tx| tx.remove_attachment(id)).await }
        })
        .await;
        let (removed, refused) = assert_one_winner(answers);
        assert_eq!(removed, wanted);
        for error in refused {
            assert_missing::<()>(Err(error), ("attachment", &wanted.id.to_string()));
        }
    });
}

fn attachments_need_existing_targets(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let store = &opened.store;
        store_validation(store, "v").await;
        let resource = store_resource(store, "one").await;
        let unowned = plan_id();
        for (wanted, missing) in [
            (
                attachment("w", resource, AttachmentScope::Direct, 1),
                ("validation", "local/w".to_owned()),
            ),
            (
                attachment("v", resource, AttachmentScope::Project(name("no")), 1),
                ("project", "local/no".to_owned()),
            ),
            (
                attachment("v", resource, AttachmentScope::Plan(unowned), 1),
                ("plan", unowned.to_string()),
            ),
        ] {
            let answer = attach(store, &wanted).await;
            assert_missing(answer, (missing.0, &missing.1));
        }
        write(store, |tx| {
            let gone = tx.resource(&name("one"))?;
            tx.delete_resource(&gone)
        })
        .await;
        let late = attachment("v", resource, AttachmentScope::Direct, 1);
        assert_missing(
            attach(store, &late).await,
            ("resource", &resource.to_string()),
        );
    });
}

fn attachments_are_deleted_with_their_target(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let store = &opened.store;
        let plan = store_sample_plan(store).await;
        let sample = project("shop", 0);
        write(store, move |tx| tx.insert_project(&sample)).await;
        store_validation(store, "v").await;
        let resource = store_resource(store, "one").await;
        let stays = attachment("v", resource, AttachmentScope::Direct, 1);
        for each in [
            stays.clone(),
            attachment("v", resource, AttachmentScope::Project(name("shop")), 2),
            attachment("v", resource, AttachmentScope::Plan(plan), 3),
        ] {
            attach(store, &each).await.unwrap();
        }
        write(store, move |tx| {
            let plan = tx.plan(plan)?;
            tx.delete_plan(&plan)
        })
        .await;
        assert_eq!(attachments(store).await.len(), 2);
        write(store, |tx| {
            let project = tx.project(&name("shop"))?;
            tx.delete_project(&project)
        })
        .await;
        assert_eq!(attachments(store).await, [stays]);
        write(store, |tx| {
            let resource = tx.resource(&name("one"))?;
            tx.delete_resource(&resource)
        })
        .await;
        assert!(attachments(store).await.is_empty());
    });
}

async fn remove_validation(store: &StoreHandle) -> Result<()> {
    try_write(store, |tx| {
        let row = tx.validation(&name("v"))?;
        tx.delete_validation(&row)
    })
    .await
}

fn an_attached_validation_cannot_be_removed(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let store = &opened.store;
        store_validation(store, "v").await;
        let resource = store_resource(store, "one").await;
        let held = attachment("v", resource, AttachmentScope::Direct, 1);
        attach(store, &held).await.unwrap();
        let holder = held.id.to_string();
        let refused = remove_validation(store).await;
        assert_referenced(refused, ("validation", "local/v"), &[&holder]);
        let id = held.id;
        write(store, move |tx| tx.remove_attachment(id)).await;
        remove_validation(store).await.unwrap();
        let gone = remove_validation(store).await;
        assert_missing(gone, ("validation", "local/v"));
    });
}

/// The second transaction sees what the first did: no attachment is left without its validation.
fn attaching_and_removing_exclude_each_other(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let resource = store_resource(&opened.store, "one").await;
        for _ in 0..10 {
            store_validation(&opened.store, "v").await;
            let answers = run_concurrently(8, |number| {
                let store = opened.store.clone();
                let mut wanted = attachment("v", resource, AttachmentScope::Direct, 1);
                wanted.args.insert(number.to_string(), number.into());
                async move {
                    match number % 2 {
                        0 => attach(&store, &wanted).await,
                        _ => remove_validation(&store).await,
                    }
                }
            })
            .await;
            for answer in answers {
                match answer {
                    Ok(()) | Err(StoreError::NotFound { .. } | StoreError::Referenced { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            let left = attachments(&opened.store).await;
            let there = read(&opened.store, |tx| tx.validations()).await;
            assert!(left.is_empty() || there.len() == 1, "{left:?} {there:?}");
            for each in left {
                write(&opened.store, move |tx| tx.remove_attachment(each.id)).await;
            }
            if !there.is_empty() {
                remove_validation(&opened.store).await.unwrap();
            }
        }
    });
}

fn definitions_and_attachments_are_in_a_backup(backend: Backend) {
    let source = TestDatabase::new(backend);
    let opened = source.open();
    let actor = actor_row("greeter", 1);
    let held = block_on(async {
        let store = &opened.store;
        let row = actor.clone();
        write(store, move |tx| tx.insert_actor(&row)).await;
        store_validation(store, "v").await;
        let resource = store_resource(store, "one").await;
        let held = attachment("v", resource, AttachmentScope::Direct, 1);
        attach(store, &held).await.unwrap();
        held
    });
    let path = file(&source, "definitions.tar");
    save(&opened, &path);
    for target in [Backend::Sqlite, Backend::Postgres] {
        let test_db = TestDatabase::new(target);
        test_db
            .restore(
                &path,
                AlteredBackupPolicy::Refuse,
                &ExistingDataPolicy::Refuse,
            )
            .unwrap();
        let saved_to = file(&source, &format!("{target:?}.tar"));
        // Once more, replacing the existing contents.
        test_db
            .restore(
                &path,
                AlteredBackupPolicy::Refuse,
                &ExistingDataPolicy::Replace { saved_to },
            )
            .unwrap();
        let opened = test_db.open();
        block_on(async {
            let store = &opened.store;
            assert_eq!(attachments(store).await, std::slice::from_ref(&held));
            let actors = read(store, |tx| tx.actors()).await;
            assert_eq!(actors, std::slice::from_ref(&actor));
            let validations = read(store, |tx| tx.validations()).await;
            assert_eq!(validations, [validation_row("v", 0)]);
        });
    }
}
