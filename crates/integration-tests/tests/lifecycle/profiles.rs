//! Custom automation profiles: added once, replaced on request; each change is recorded.

use std::sync::Arc;

use cleveragents_domain::{AutomationProfile, BuiltInProfile, EventKind, ProfileName, StreamId};
use cleveragents_engine::profiles::ProfileRegistry;
use cleveragents_integration_tests::assertions::{assert_missing, assert_one_winner};
use cleveragents_integration_tests::lifecycle_samples::profile;
use cleveragents_integration_tests::store_access::{events, run_concurrently};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{StoreError, StoreHandle};

contract! {
    a_profile_is_added_replaced_and_found,
    concurrent_profile_adds_have_one_winner,
    concurrent_profile_updates_all_succeed,
    a_built_in_profile_name_is_reserved,
}

fn registry(store: &StoreHandle) -> ProfileRegistry {
    ProfileRegistry::new(store.clone(), Arc::new(SystemIds))
}

async fn kinds(store: &StoreHandle) -> Vec<EventKind> {
    let story = events(store, StreamId::System).await;
    story.into_iter().map(|event| event.kind).collect()
}

fn a_profile_is_added_replaced_and_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
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
        // An update of a missing profile adds it.
        let other = profiles.update(profile("team/new"), "eva").await.unwrap();
        assert_eq!(other.version, 1);
        let names: Vec<String> = profiles
            .custom_profiles()
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

fn concurrent_profile_adds_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |_| {
            let profiles = registry(&opened.store);
            async move { profiles.add(profile("team/own"), "eva").await }
        })
        .await;
        let (_, refused) = assert_one_winner(answers);
        for error in refused {
            assert!(matches!(error, StoreError::Taken { .. }), "{error}");
        }
        assert_eq!(kinds(&opened.store).await, [EventKind::ProfileAdded]);
    });
}

fn concurrent_profile_updates_all_succeed(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |_| {
            let profiles = registry(&opened.store);
            async move { profiles.update(profile("team/own"), "eva").await.unwrap() }
        })
        .await;
        let mut versions: Vec<i64> = answers.iter().map(|row| row.version).collect();
        versions.sort();
        assert_eq!(versions, (1..=16).collect::<Vec<i64>>());
        let message = kinds(&opened.store).await;
        let added = message
            .iter()
            .filter(|kind| **kind == EventKind::ProfileAdded);
        assert_eq!((message.len(), added.count()), (16, 1));
    });
}

fn a_built_in_profile_name_is_reserved(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let profiles = registry(&opened.store);
    block_on(async {
        for built_in in BuiltInProfile::ALL {
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
