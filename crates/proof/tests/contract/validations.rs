//! Validations and their attachments: none leads nowhere, and what they name takes them along.

use std::collections::BTreeMap;

use cleveragents_domain::{Attachment, AttachmentScope};
use cleveragents_engine::ports::{Result, StoreError, StoreHandle, ValidationRow};
use cleveragents_proof::answers::{assert_conflict, assert_missing, assert_taken, one_winner};
use cleveragents_proof::definition_samples::{
    actor_row, attachment, store_validation, stored_resource, validation_row,
};
use cleveragents_proof::lifecycle_samples::{project, stored_plan};
use cleveragents_proof::samples::{at, name, plan_id};
use cleveragents_proof::verbs::{attempt, read, together, write};
use cleveragents_proof::{Backend, Place, block_on, contract};
use cleveragents_store::{Altered, Existing};

use super::maintenance::{file, save};

contract! {
    a_validation_reads_back_in_every_field,
    sixteen_who_add_one_validation_have_one_winner,
    a_validation_is_replaced_only_from_its_newest_version,
    an_attachment_reads_back_in_every_scope,
    the_same_is_attached_once,
    sixteen_who_attach_the_same_have_one_winner,
    sixteen_who_detach_have_one_winner,
    whatever_is_attached_must_be_there,
    attachments_go_with_what_they_are_attached_to,
    a_validation_that_is_attached_stays,
    attaching_and_removing_exclude_each_other,
    definitions_and_attachments_are_in_a_backup,
}

async fn insert(store: &StoreHandle, row: &ValidationRow) -> Result<()> {
    let row = row.clone();
    attempt(store, move |unit| unit.insert_validation(&row)).await
}

async fn attach(store: &StoreHandle, attachment: &Attachment) -> Result<()> {
    let attachment = attachment.clone();
    attempt(store, move |unit| unit.insert_attachment(&attachment)).await
}

async fn attachments(store: &StoreHandle) -> Vec<Attachment> {
    read(store, |unit| unit.attachments()).await
}

fn a_validation_reads_back_in_every_field(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let rows = ["team/b", "team/B", "local/a"].map(|text| validation_row(text, 3));
    block_on(async {
        for row in &rows {
            insert(&opened.store, row).await.unwrap();
        }
        let found = read(&opened.store, |unit| unit.validation(&name("team/b"))).await;
        assert_eq!(found, rows[0]);
        let all = read(&opened.store, |unit| unit.validations()).await;
        assert_eq!(all, [2, 1, 0].map(|number: usize| rows[number].clone()));
        let none = opened
            .store
            .read(|unit| unit.validation(&name("none")))
            .await;
        assert_missing(none, ("validation", "local/none"));
        let holder = format!("one of {}", at(3));
        assert_taken(
            insert(&opened.store, &validation_row("a", 4)).await,
            ("the validation name", "local/a", &holder),
        );
    });
}

fn sixteen_who_add_one_validation_have_one_winner(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let answers = together(16, |_| {
            let store = opened.store.clone();
            async move { insert(&store, &validation_row("wanted", 1)).await }
        })
        .await;
        one_winner(answers);
        let all = read(&opened.store, |unit| unit.validations()).await;
        assert_eq!(all.len(), 1);
    });
}

fn a_validation_is_replaced_only_from_its_newest_version(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        insert(&opened.store, &validation_row("v", 1))
            .await
            .unwrap();
        let replace = |version| {
            let row = ValidationRow {
                version,
                ..validation_row("v", 5)
            };
            attempt(&opened.store, move |unit| unit.replace_validation(&row))
        };
        assert_eq!(replace(1).await.unwrap(), 2);
        assert_conflict(replace(1).await, ("validation", 1, 2));
        let newest = read(&opened.store, |unit| unit.validation(&name("v"))).await;
        assert_eq!((newest.created_at, newest.updated_at), (at(1), at(5)));
    });
}

fn an_attachment_reads_back_in_every_scope(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let store = &opened.store;
        let plan = stored_plan(store).await;
        let sample = project("shop", 0);
        write(store, move |unit| unit.insert_project(&sample)).await;
        store_validation(store, "v").await;
        let [one, other] = [
            stored_resource(store, "one").await,
            stored_resource(store, "two").await,
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
        let of_one = read(store, move |unit| unit.attachments_to(&[one, one])).await;
        assert_eq!(of_one, [all[0].clone(), all[2].clone()]);
        let none = read(store, |unit| unit.attachments_to(&[])).await;
        assert_eq!(none, []);
        let fragment = all[1].id.to_string()[18..].parse().unwrap();
        let found = read(store, move |unit| unit.find_attachment(&fragment)).await;
        assert_eq!(found, all[1]);
    });
}

fn the_same_is_attached_once(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let store = &opened.store;
        store_validation(store, "v").await;
        let resource = stored_resource(store, "one").await;
        let first = attachment("v", resource, AttachmentScope::Direct, 1);
        attach(store, &first).await.unwrap();
        let again = attachment("v", resource, AttachmentScope::Direct, 2);
        let holder = first.id.to_string();
        assert_taken(
            attach(store, &again).await,
            ("the place of the validation", "local/v", &holder),
        );
        // With other arguments it is another check.
        let other = Attachment {
            args: BTreeMap::new(),
            ..again
        };
        attach(store, &other).await.unwrap();
        assert_eq!(attachments(store).await, [other, first]);
    });
}

fn sixteen_who_attach_the_same_have_one_winner(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        store_validation(&opened.store, "v").await;
        let resource = stored_resource(&opened.store, "one").await;
        let answers = together(16, |_| {
            let store = opened.store.clone();
            let wanted = attachment("v", resource, AttachmentScope::Direct, 1);
            async move { attach(&store, &wanted).await.map(|()| wanted) }
        })
        .await;
        let (winner, _) = one_winner(answers);
        assert_eq!(attachments(&opened.store).await, [winner]);
    });
}

fn sixteen_who_detach_have_one_winner(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        store_validation(&opened.store, "v").await;
        let resource = stored_resource(&opened.store, "one").await;
        let wanted = attachment("v", resource, AttachmentScope::Direct, 1);
        attach(&opened.store, &wanted).await.unwrap();
        let answers = together(16, |_| {
            let (store, id) = (opened.store.clone(), wanted.id);
            async move { attempt(&store, move |unit| unit.remove_attachment(id)).await }
        })
        .await;
        let (removed, refused) = one_winner(answers);
        assert_eq!(removed, wanted);
        for error in refused {
            assert_missing::<()>(Err(error), ("attachment", &wanted.id.to_string()));
        }
    });
}

fn whatever_is_attached_must_be_there(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let store = &opened.store;
        store_validation(store, "v").await;
        let resource = stored_resource(store, "one").await;
        let nobody = plan_id();
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
                attachment("v", resource, AttachmentScope::Plan(nobody), 1),
                ("plan", nobody.to_string()),
            ),
        ] {
            let answer = attach(store, &wanted).await;
            assert_missing(answer, (missing.0, &missing.1));
        }
        write(store, |unit| {
            let gone = unit.resource(&name("one"))?;
            unit.delete_resource(&gone)
        })
        .await;
        let late = attachment("v", resource, AttachmentScope::Direct, 1);
        assert_missing(
            attach(store, &late).await,
            ("resource", &resource.to_string()),
        );
    });
}

fn attachments_go_with_what_they_are_attached_to(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let store = &opened.store;
        let plan = stored_plan(store).await;
        let sample = project("shop", 0);
        write(store, move |unit| unit.insert_project(&sample)).await;
        store_validation(store, "v").await;
        let resource = stored_resource(store, "one").await;
        let stays = attachment("v", resource, AttachmentScope::Direct, 1);
        for each in [
            stays.clone(),
            attachment("v", resource, AttachmentScope::Project(name("shop")), 2),
            attachment("v", resource, AttachmentScope::Plan(plan), 3),
        ] {
            attach(store, &each).await.unwrap();
        }
        write(store, move |unit| {
            let plan = unit.plan(plan)?;
            unit.delete_plan(&plan)
        })
        .await;
        assert_eq!(attachments(store).await.len(), 2);
        write(store, |unit| {
            let project = unit.project(&name("shop"))?;
            unit.delete_project(&project)
        })
        .await;
        assert_eq!(attachments(store).await, [stays]);
        write(store, |unit| {
            let resource = unit.resource(&name("one"))?;
            unit.delete_resource(&resource)
        })
        .await;
        assert!(attachments(store).await.is_empty());
    });
}

async fn remove_validation(store: &StoreHandle) -> Result<()> {
    attempt(store, |unit| {
        let row = unit.validation(&name("v"))?;
        unit.delete_validation(&row)
    })
    .await
}

fn a_validation_that_is_attached_stays(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let store = &opened.store;
        store_validation(store, "v").await;
        let resource = stored_resource(store, "one").await;
        let held = attachment("v", resource, AttachmentScope::Direct, 1);
        attach(store, &held).await.unwrap();
        let holder = held.id.to_string();
        let refused = remove_validation(store).await;
        assert_taken(refused, ("the validation", "local/v", &holder));
        let id = held.id;
        write(store, move |unit| unit.remove_attachment(id)).await;
        remove_validation(store).await.unwrap();
        let gone = remove_validation(store).await;
        assert_missing(gone, ("validation", "local/v"));
    });
}

/// Whoever comes second sees what the first has done: no attachment is left without its validation.
fn attaching_and_removing_exclude_each_other(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let resource = stored_resource(&opened.store, "one").await;
        for _ in 0..10 {
            store_validation(&opened.store, "v").await;
            let answers = together(8, |number| {
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
                    Ok(()) | Err(StoreError::NotFound { .. } | StoreError::Taken { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            let left = attachments(&opened.store).await;
            let there = read(&opened.store, |unit| unit.validations()).await;
            assert!(left.is_empty() || there.len() == 1, "{left:?} {there:?}");
            for each in left {
                write(&opened.store, move |unit| unit.remove_attachment(each.id)).await;
            }
            if !there.is_empty() {
                remove_validation(&opened.store).await.unwrap();
            }
        }
    });
}

fn definitions_and_attachments_are_in_a_backup(backend: Backend) {
    let source = Place::new(backend);
    let opened = source.open();
    let actor = actor_row("greeter", 1);
    let held = block_on(async {
        let store = &opened.store;
        let row = actor.clone();
        write(store, move |unit| unit.insert_actor(&row)).await;
        store_validation(store, "v").await;
        let resource = stored_resource(store, "one").await;
        let held = attachment("v", resource, AttachmentScope::Direct, 1);
        attach(store, &held).await.unwrap();
        held
    });
    let path = file(&source, "definitions.tar");
    save(&opened, &path);
    for target in [Backend::Sqlite, Backend::Postgres] {
        let place = Place::new(target);
        place
            .restore(&path, Altered::Refuse, &Existing::Refuse)
            .unwrap();
        let saved_to = file(&source, &format!("{target:?}.tar"));
        // Once more, over what is there by now.
        place
            .restore(&path, Altered::Refuse, &Existing::Replace { saved_to })
            .unwrap();
        let opened = place.open();
        block_on(async {
            let store = &opened.store;
            assert_eq!(attachments(store).await, std::slice::from_ref(&held));
            let actors = read(store, |unit| unit.actors()).await;
            assert_eq!(actors, std::slice::from_ref(&actor));
            let validations = read(store, |unit| unit.validations()).await;
            assert_eq!(validations, [validation_row("v", 0)]);
        });
    }
}
