//! Custom automation profiles: added once, replaced by whoever asks, each change on the record.

use std::sync::Arc;

use cleveragents_domain::{AutomationProfile, BuiltIn, EventKind, ProfileName, StreamId};
use cleveragents_engine::ports::{StoreError, StoreHandle};
use cleveragents_engine::profiles::ProfileRegistry;
use cleveragents_engine::system::SystemIds;
use cleveragents_proof::answers::{assert_missing, one_winner};
use cleveragents_proof::lifecycle_samples::profile;
use cleveragents_proof::verbs::{events, together};
use cleveragents_proof::{Backend, Place, block_on, contract};

contract! {
    a_profile_is_added_replaced_and_found,
    sixteen_who_add_a_profile_have_one_winner,
    sixteen_who_update_a_profile_all_do,
    a_built_in_profile_is_there_and_cannot_be_had,
}

fn registry(store: &StoreHandle) -> ProfileRegistry {
    ProfileRegistry::new(store.clone(), Arc::new(SystemIds))
}

async fn kinds(store: &StoreHandle) -> Vec<EventKind> {
    let story = events(store, StreamId::System).await;
    story.into_iter().map(|event| event.kind).collect()
}

fn a_profile_is_added_replaced_and_found(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let profiles = registry(&opened.store);
    let before = profile("team/own");
    block_on(async {
        let missing = profiles.profile(before.name.clone()).await;
        assert_missing(missing, ("automation profile", "team/own"));
        let added = profiles.add(before.clone(), "eva").await.unwrap();
        assert_eq!((&added.profile, added.version), (&before, 1));
        let after = AutomationProfile {
            description: "changed".to_owned(),
            ..before.clone()
        };
        let updated = profiles.update(after.clone(), "eva").await.unwrap();
        assert_eq!(updated.version, 2);
        let found = profiles.profile(before.name.clone()).await.unwrap();
        assert_eq!(found, after);
        // An update of what is not there adds it.
        let other = profiles.update(profile("team/new"), "eva").await.unwrap();
        assert_eq!(other.version, 1);
        let names: Vec<String> = profiles
            .custom()
            .await
            .unwrap()
            .into_iter()
            .map(|row| row.profile.name.to_string())
            .collect();
        assert_eq!(names, ["team/new", "team/own"]);
        let wanted = [
            EventKind::ProfileAdded,
            EventKind::ProfileUpdated,
            EventKind::ProfileAdded,
        ];
        assert_eq!(kinds(&opened.store).await, wanted);
    });
}

fn sixteen_who_add_a_profile_have_one_winner(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let answers = together(16, |_| {
            let profiles = registry(&opened.store);
            async move { profiles.add(profile("team/own"), "eva").await }
        })
        .await;
        let (_, refused) = one_winner(answers);
        for error in refused {
            assert!(matches!(error, StoreError::Taken { .. }), "{error}");
        }
        assert_eq!(kinds(&opened.store).await, [EventKind::ProfileAdded]);
    });
}

fn sixteen_who_update_a_profile_all_do(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let answers = together(16, |_| {
            let profiles = registry(&opened.store);
            async move { profiles.update(profile("team/own"), "eva").await.unwrap() }
        })
        .await;
        let mut versions: Vec<i64> = answers.iter().map(|row| row.version).collect();
        versions.sort();
        assert_eq!(versions, (1..=16).collect::<Vec<i64>>());
        let told = kinds(&opened.store).await;
        let added = told.iter().filter(|kind| **kind == EventKind::ProfileAdded);
        assert_eq!((told.len(), added.count()), (16, 1));
    });
}

fn a_built_in_profile_is_there_and_cannot_be_had(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let profiles = registry(&opened.store);
    block_on(async {
        for built_in in BuiltIn::ALL {
            let name = ProfileName::BuiltIn(*built_in);
            let found = profiles.profile(name).await.unwrap();
            assert_eq!(found, built_in.profile());
            for answer in [
                profiles.add(found.clone(), "eva").await,
                profiles.update(found.clone(), "eva").await,
            ] {
                assert!(
                    matches!(answer, Err(StoreError::Taken { .. })),
                    "{answer:?}"
                );
            }
        }
        assert!(kinds(&opened.store).await.is_empty());
    });
}
