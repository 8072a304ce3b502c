//! Custom automation profiles: versioned rows with names that one holder has.

use cleveragents_domain::{AutomationProfile, BuiltIn};
use cleveragents_engine::ports::{ProfileRow, Result, StoreHandle};
use cleveragents_proof::answers::{assert_conflict, assert_missing, assert_taken, one_winner};
use cleveragents_proof::lifecycle_samples::profile;
use cleveragents_proof::samples::name;
use cleveragents_proof::verbs::{attempt, read, together};
use cleveragents_proof::{Backend, Place, block_on, contract};

contract! {
    a_profile_reads_back_in_every_field,
    a_taken_profile_name_is_refused_and_built_in_ones_always_are,
    sixteen_who_add_one_profile_have_one_winner,
    a_profile_is_replaced_only_from_its_newest_version,
}

async fn insert(store: &StoreHandle, profile: &AutomationProfile) -> Result<()> {
    let profile = profile.clone();
    attempt(store, move |unit| unit.insert_profile(&profile)).await
}

async fn replace(store: &StoreHandle, row: ProfileRow) -> Result<i64> {
    attempt(store, move |unit| unit.replace_profile(&row)).await
}

fn a_profile_reads_back_in_every_field(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let samples = ["team/b", "team/B", "local/a"].map(profile);
    block_on(async {
        for sample in &samples {
            insert(&opened.store, sample).await.unwrap();
        }
        let found = read(&opened.store, |unit| unit.profile(&name("team/b"))).await;
        assert_eq!((&found.profile, found.version), (&samples[0], 1));
        let all = read(&opened.store, |unit| unit.profiles()).await;
        let all: Vec<_> = all.into_iter().map(|row| row.profile).collect();
        assert_eq!(all, [2, 1, 0].map(|number: usize| samples[number].clone()));
        let none = opened.store.read(|unit| unit.profile(&name("none"))).await;
        assert_missing(none, ("automation profile", "local/none"));
    });
}

fn a_taken_profile_name_is_refused_and_built_in_ones_always_are(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        insert(&opened.store, &profile("mine")).await.unwrap();
        assert_taken(
            insert(&opened.store, &profile("mine")).await,
            ("the profile name", "local/mine", "another profile"),
        );
        let built_in = BuiltIn::Manual.profile();
        let wanted = ("the profile name", "manual", "a built-in profile");
        assert_taken(insert(&opened.store, &built_in).await, wanted);
        let row = ProfileRow {
            profile: built_in,
            version: 1,
        };
        assert_taken(replace(&opened.store, row).await, wanted);
    });
}

fn sixteen_who_add_one_profile_have_one_winner(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let answers = together(16, |_| {
            let store = opened.store.clone();
            async move { insert(&store, &profile("wanted")).await }
        })
        .await;
        one_winner(answers);
        assert_eq!(read(&opened.store, |unit| unit.profiles()).await.len(), 1);
    });
}

fn a_profile_is_replaced_only_from_its_newest_version(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let sample = profile("mine");
    block_on(async {
        let row = |description: String, version| ProfileRow {
            profile: AutomationProfile {
                description,
                ..sample.clone()
            },
            version,
        };
        assert_missing(
            replace(&opened.store, row("x".to_owned(), 1)).await,
            ("automation profile", "local/mine"),
        );
        insert(&opened.store, &sample).await.unwrap();
        let answers = together(16, |number| {
            let (store, row) = (opened.store.clone(), row(format!("from {number}"), 1));
            async move { replace(&store, row).await }
        })
        .await;
        let (version, refused) = one_winner(answers);
        assert_eq!(version, 2);
        for error in refused {
            assert_conflict::<()>(Err(error), ("automation profile", 1, 2));
        }
        let newest = read(&opened.store, |unit| unit.profile(&name("mine"))).await;
        assert_eq!(newest.version, 2);
        assert!(newest.profile.description.starts_with("from "));
    });
}
