//! Validations: added, attached, selected for a plan, detached; each change is recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::validation::PlanResource;
use cleveragents_domain::{AttachmentScope, EventKind, StreamId, Validation};
use cleveragents_engine::actors::{DuplicatePolicy, RegistryChange};
use cleveragents_engine::validations::{
    AttachmentRequest, ValidationRegistry, ValidationRegistryError,
};
use cleveragents_integration_tests::definition_samples::{store_resource, validation};
use cleveragents_integration_tests::lifecycle_samples::store_sample_plan;
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{events, run_concurrently};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Entity, StoreError, StoreHandle, UniqueKey};
use serde_json::json;

contract! {
    a_validation_is_added_replaced_and_removed,
    concurrent_validation_adds_have_one_winner,
    a_validation_is_attached_found_for_a_plan_and_detached,
    an_invalid_attachment_is_refused,
}

fn registry(store: &StoreHandle) -> ValidationRegistry {
    ValidationRegistry::new(store.clone(), Arc::new(SystemIds))
}

async fn kinds(store: &StoreHandle, stream: StreamId) -> Vec<EventKind> {
    let story = events(store, stream).await;
    story.into_iter().map(|event| event.kind).collect()
}

fn request(text: &str, scope: AttachmentScope) -> AttachmentRequest {
    AttachmentRequest {
        validation: name(text),
        resource: name("shop"),
        scope,
        args: BTreeMap::new(),
    }
}

fn a_validation_is_added_replaced_and_removed(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let validations = registry(&opened.store);
    let before = validation("team/v");
    block_on(async {
        let (added, _) = validations
            .add(before.clone(), DuplicatePolicy::Refuse, "eva")
            .await
            .unwrap();
        let after = Validation {
            timeout: 9,
            ..before.clone()
        };
        let (updated, change) = validations
            .add(after.clone(), DuplicatePolicy::Replace, "eva")
            .await
            .unwrap();
        assert_eq!((change, updated.version), (RegistryChange::Updated, 2));
        assert_ne!(updated.hash, added.hash);
        let (found, attached) = validations.validation(before.name.clone()).await.unwrap();
        assert_eq!((found, attached.len()), (updated, 0));
        let (all, _) = validations.validations().await.unwrap();
        assert_eq!(all.len(), 1);
        validations
            .remove(before.name.clone(), "eva")
            .await
            .unwrap();
        let gone = validations.remove(before.name, "eva").await.unwrap_err();
        assert!(gone.to_string().contains("there is no validation"));
        let reserved = validation("builtin/v");
        let refused = validations
            .add(reserved, DuplicatePolicy::Replace, "eva")
            .await;
        assert!(matches!(refused, Err(ValidationRegistryError::Invalid(_))));
        assert_eq!(
            kinds(&opened.store, StreamId::System).await,
            [
                EventKind::ValidationAdded,
                EventKind::ValidationUpdated,
                EventKind::ValidationRemoved,
            ]
        );
    });
}

fn concurrent_validation_adds_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |_| {
            let validations = registry(&opened.store);
            async move {
                validations
                    .add(validation("v"), DuplicatePolicy::Refuse, "eva")
                    .await
            }
        })
        .await;
        let (won, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), refused.len()), (1, 15));
        for answer in refused {
            let error = answer.unwrap_err();
            let taken = StoreError::Taken {
                key: UniqueKey::Name(Entity::Validation),
                name: "local/v".to_owned(),
                holder: String::new(),
            };
            assert!(error.to_string().starts_with(&taken.to_string()), "{error}");
        }
    });
}

fn a_validation_is_attached_found_for_a_plan_and_detached(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let validations = registry(&opened.store);
    block_on(async {
        let store = &opened.store;
        let plan = store_sample_plan(store).await;
        let resource = store_resource(store, "shop").await;
        for text in ["b", "a"] {
            let sample = validation(text);
            validations
                .add(sample, DuplicatePolicy::Refuse, "eva")
                .await
                .unwrap();
        }
        let of_plan = request("b", AttachmentScope::Plan(plan));
        let of_plan = validations.attach(of_plan, "eva").await.unwrap();
        let direct = request("a", AttachmentScope::Direct);
        let direct = validations.attach(direct, "eva").await.unwrap();
        let again = request("b", AttachmentScope::Direct);
        validations.attach(again, "eva").await.unwrap();
        let resources = vec![PlanResource {
            id: resource,
            name: name("shop"),
        }];
        let found = validations
            .applicable_to(plan, resources.clone())
            .await
            .unwrap();
        let ids: Vec<_> = found.iter().map(|each| each.attachment.id).collect();
        assert_eq!(ids, [direct.attachment.id, of_plan.attachment.id]);
        let (_, all) = validations.validations().await.unwrap();
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|view| view.resource == name("shop")));
        let held = validations.remove(name("a"), "eva").await.unwrap_err();
        let id = direct.attachment.id.to_string();
        assert_eq!(
            held.to_string(),
            format!("the validation `local/a` is attached as {id}")
        );
        let fragment = of_plan.attachment.id.to_string().parse().unwrap();
        let detached = validations.detach(fragment, "eva").await.unwrap();
        assert_eq!(detached, of_plan);
        assert_eq!(
            kinds(store, StreamId::Plan(plan)).await,
            [EventKind::ValidationAttached, EventKind::ValidationDetached]
        );
        let (row, left) = validations.validation(name("b")).await.unwrap();
        assert_eq!((row.version, left.len()), (1, 1));
    });
}

fn an_invalid_attachment_is_refused(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let validations = registry(&opened.store);
    block_on(async {
        store_resource(&opened.store, "shop").await;
        let sample = validation("v");
        validations
            .add(sample, DuplicatePolicy::Refuse, "eva")
            .await
            .unwrap();
        let direct = || request("v", AttachmentScope::Direct);
        let elsewhere = AttachmentRequest {
            resource: name("nowhere"),
            ..direct()
        };
        let too_much = AttachmentRequest {
            args: BTreeMap::from([("patern".to_owned(), json!("x"))]),
            ..direct()
        };
        for (wanted, said) in [
            (elsewhere, "there is no resource `local/nowhere`"),
            (
                request("w", AttachmentScope::Direct),
                "there is no validation `local/w`",
            ),
            (
                too_much,
                "the validation `local/v` has no argument `patern`; it takes pattern",
            ),
        ] {
            let error = validations.attach(wanted, "eva").await.unwrap_err();
            assert_eq!(error.to_string(), said);
        }
        let (_, all) = validations.validations().await.unwrap();
        assert!(all.is_empty(), "what was refused left nothing behind");
        validations.attach(direct(), "eva").await.unwrap();
        let twice = validations.attach(direct(), "eva").await.unwrap_err();
        assert!(matches!(
            twice,
            ValidationRegistryError::AttachedAlready { .. }
        ));
    });
}
