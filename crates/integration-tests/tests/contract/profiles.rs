//! Custom automation profiles: versioned rows with unique names.

use cleveragents_domain::{AutomationProfile, BuiltInProfile};
use cleveragents_integration_tests::assertions::{
    assert_conflict, assert_missing, assert_one_winner, assert_taken,
};
use cleveragents_integration_tests::lifecycle_samples::profile;
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{ProfileRow, Result, StoreHandle};

contract! {
    a_profile_reads_back_in_every_field,
    a_taken_profile_name_is_refused_and_built_in_ones_always_are,
    concurrent_profile_inserts_have_one_winner,
    a_profile_is_replaced_only_from_its_newest_version,
}

async fn insert(store: &StoreHandle, profile: &AutomationProfile) -> Result<()> {
    let profile = profile.clone();
    try_write(store, move |tx| tx.insert_profile(&profile)).await
}

async fn replace(store: &StoreHandle, row: ProfileRow) -> Result<i64> {
    try_write(store, move |tx| tx.replace_profile(&row)).await
}

fn a_profile_reads_back_in_every_field(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let samples = ["team/b", "team/B", "local/a"].map(profile);
    block_on(async {
        for sample in &samples {
            insert(&opened.store, sample).await.unwrap();
        }
        let found = read(&opened.store, |tx| tx.profile(&name("team/b"))).await;
        assert_eq!((&found.profile, found.version), (&samples[0], 1));
        let all = read(&opened.store, |tx| tx.profiles()).await;
        let all: Vec<_> = all.into_iter().map(|row| row.profile).collect();
        assert_eq!(all, [2, 1, 0].map(|number: usize| samples[number].clone()));
        let none = opened.store.read(|tx| tx.profile(&name("none"))).await;
        assert_missing(none, ("automation profile", "local/none"));
    });
}

fn a_taken_profile_name_is_refused_and_built_in_ones_always_are(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        insert(&opened.store, &profile("mine")).await.unwrap();
        assert_taken(
            insert(&opened.store, &profile("mine")).await,
            ("the profile name", "local/mine", "another profile"),
        );
        let built_in = BuiltInProfile::Manual.profile();
        let wanted = ("the profile name", "manual", "a built-in profile");
        assert_taken(insert(&opened.store, &built_in).await, wanted);
        let row = ProfileRow {
            profile: built_in,
            version: 1,
        };
        assert_taken(replace(&opened.store, row).await, wanted);
    });
}

fn concurrent_profile_inserts_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |_| {
            let store = opened.store.clone();
            async move { insert(&store, &profile("wanted")).await }
        })
        .await;
        assert_one_winner(answers);
        assert_eq!(read(&opened.store, |tx| tx.profiles()).await.len(), 1);
    });
}

fn a_profile_is_replaced_only_from_its_newest_version(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
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
        let answers = run_concurrently(16, |number| {
            let (store, row) = (opened.store.clone(), row(format!("from {number}"), 1));
            async move { replace(&store, row).await }
        })
        .await;
        let (version, refused) = assert_one_winner(answers);
        assert_eq!(version, 2);
        for error in refused {
            assert_conflict::<()>(Err(error), ("automation profile", 1, 2));
        }
        let newest = read(&opened.store, |tx| tx.profile(&name("mine"))).await;
        assert_eq!(newest.version, 2);
        assert!(newest.profile.description.starts_with("from "));
    });
}
