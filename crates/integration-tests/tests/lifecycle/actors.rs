//! Actors: added once, replaced on request, removed if unused; each change is recorded.

use std::sync::Arc;

use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::{Action, Actor, ActorKind, BuiltInActor, EventKind, StreamId};
use cleveragents_engine::actors::{
    ActorRegistry, ActorRegistryError, ActorRemovalMode, DuplicatePolicy, RegisteredActor,
    RegistryChange,
};
use cleveragents_integration_tests::definition_samples::actor;
use cleveragents_integration_tests::lifecycle_samples::usable_action;
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{events, run_concurrently, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{StoreError, StoreHandle};

contract! {
    an_actor_is_added_replaced_found_and_removed,
    concurrent_actor_adds_have_one_winner,
    concurrent_actor_updates_all_succeed,
    concurrent_actor_changes_leave_a_consistent_journal,
    an_actor_that_an_action_names_stays_unless_forced,
    a_built_in_actor_name_is_reserved,
    each_configured_model_is_an_actor_that_is_never_stored,
    an_actor_added_before_its_model_keeps_its_name,
}

fn registry(store: &StoreHandle) -> ActorRegistry {
    ActorRegistry::new(store.clone(), Arc::new(SystemIds))
}

async fn kinds(store: &StoreHandle) -> Vec<EventKind> {
    let story = events(store, StreamId::System).await;
    story.into_iter().map(|event| event.kind).collect()
}

fn is_taken(error: &ActorRegistryError) -> bool {
    matches!(error, ActorRegistryError::Store(StoreError::Taken { .. }))
}

fn an_actor_is_added_replaced_found_and_removed(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let actors = registry(&opened.store);
    let before = actor("team/own");
    block_on(async {
        let missing = actors.actor(before.name.clone()).await.unwrap_err();
        assert!(missing.to_string().contains("there is no actor `team/own`"));
        let (added, change) = actors
            .add(before.clone(), DuplicatePolicy::Refuse, "eva")
            .await
            .unwrap();
        assert_eq!((change, added.version), (RegistryChange::Added, 1));
        let again = actors
            .add(before.clone(), DuplicatePolicy::Refuse, "eva")
            .await;
        assert!(is_taken(&again.unwrap_err()));
        let after = Actor {
            description: "changed".to_owned(),
            ..before.clone()
        };
        let (updated, change) = actors
            .add(after.clone(), DuplicatePolicy::Replace, "eva")
            .await
            .unwrap();
        assert_eq!((change, updated.version), (RegistryChange::Updated, 2));
        assert_eq!(updated.created_at, added.created_at);
        assert_ne!(updated.hash, added.hash);
        let found = actors.actor(before.name.clone()).await.unwrap();
        assert_eq!(found, RegisteredActor::Added(updated));
        let (same, _) = actors
            .add(before.clone(), DuplicatePolicy::Replace, "eva")
            .await
            .unwrap();
        assert_eq!(same.hash, added.hash, "the hash is that of the content");
        let all = actors.actors().await.unwrap();
        let names: Vec<String> = all
            .iter()
            .map(|each| each.actor().name.to_string())
            .collect();
        assert_eq!(names, ["builtin/coder", "builtin/direct", "team/own"]);
        actors
            .remove(before.name.clone(), ActorRemovalMode::IfUnused, "eva")
            .await
            .unwrap();
        let gone = actors
            .remove(before.name, ActorRemovalMode::Forced, "eva")
            .await;
        assert!(gone.unwrap_err().to_string().contains("there is no actor"));
        let wanted = [
            EventKind::ActorAdded,
            EventKind::ActorUpdated,
            EventKind::ActorUpdated,
            EventKind::ActorRemoved,
        ];
        assert_eq!(kinds(&opened.store).await, wanted);
    });
}

fn concurrent_actor_adds_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |_| {
            let actors = registry(&opened.store);
            async move {
                actors
                    .add(actor("team/own"), DuplicatePolicy::Refuse, "eva")
                    .await
            }
        })
        .await;
        let (won, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1);
        for error in refused {
            assert!(is_taken(&error.unwrap_err()));
        }
        assert_eq!(kinds(&opened.store).await, [EventKind::ActorAdded]);
    });
}

fn concurrent_actor_updates_all_succeed(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |_| {
            let actors = registry(&opened.store);
            async move {
                let put = actors.add(actor("team/own"), DuplicatePolicy::Replace, "eva");
                put.await.unwrap().0.version
            }
        })
        .await;
        let mut versions = answers;
        versions.sort_unstable();
        assert_eq!(versions, (1..=16).collect::<Vec<i64>>());
        let message = kinds(&opened.store).await;
        let added = message
            .iter()
            .filter(|kind| **kind == EventKind::ActorAdded);
        assert_eq!((message.len(), added.count()), (16, 1));
    });
}

/// Whatever the order, the journal records a sequence in which each step was possible.
/// Adds, replaces and removes the same actor from 15 tasks. Replacing must never fail.
async fn change_actor_concurrently(store: &StoreHandle) {
    run_concurrently(15, |number| {
        let actors = registry(store);
        async move {
            let sample = actor("team/own");
            match number % 3 {
                0 => drop(actors.add(sample, DuplicatePolicy::Refuse, "eva").await),
                1 => {
                    let replaced = actors.add(sample, DuplicatePolicy::Replace, "eva").await;
                    drop(replaced.unwrap());
                }
                _ => {
                    let mode = ActorRemovalMode::IfUnused;
                    drop(actors.remove(sample.name, mode, "eva").await);
                }
            }
        }
    })
    .await;
}

fn concurrent_actor_changes_leave_a_consistent_journal(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        // A removal overtakes an update only now and then, so several rounds are needed.
        for _ in 0..12 {
            change_actor_concurrently(&opened.store).await;
        }
        let mut there = false;
        for kind in kinds(&opened.store).await {
            match kind {
                EventKind::ActorAdded => assert!(!std::mem::replace(&mut there, true)),
                EventKind::ActorUpdated => assert!(there),
                EventKind::ActorRemoved => assert!(std::mem::replace(&mut there, false)),
                other => panic!("{other}"),
            }
        }
        let left = registry(&opened.store).actors().await.unwrap();
        assert_eq!(left.len(), BuiltInActor::ALL.len() + usize::from(there));
    });
}

fn an_actor_that_an_action_names_stays_unless_forced(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let actors = registry(&opened.store);
    let reviewer = name("reviewer");
    block_on(async {
        let named = usable_action("team/b", true);
        let archived = Action {
            state: cleveragents_domain::ActionState::Archived,
            ..usable_action("team/a", true)
        };
        assert_eq!(named.actors.review_actor, Some(reviewer.clone()));
        write(&opened.store, move |tx| {
            tx.insert_action(&named)?;
            tx.insert_action(&archived)
        })
        .await;
        actors
            .add(actor("reviewer"), DuplicatePolicy::Refuse, "eva")
            .await
            .unwrap();
        let (_, actions) = actors.actor_in_use(reviewer.clone()).await.unwrap();
        assert_eq!(actions, [name("team/b")]);
        let refused = actors
            .remove(reviewer.clone(), ActorRemovalMode::IfUnused, "eva")
            .await;
        match refused {
            Err(ActorRegistryError::InUse { actions, .. }) => assert_eq!(actions, [name("team/b")]),
            other => panic!("{other:?}"),
        }
        let (_, left) = actors
            .remove(reviewer, ActorRemovalMode::Forced, "eva")
            .await
            .unwrap();
        assert_eq!(left, [name("team/b")]);
    });
}

fn a_built_in_actor_name_is_reserved(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let actors = registry(&opened.store);
    let direct = BuiltInActor::Direct.actor();
    block_on(async {
        let found = actors.actor(direct.name.clone()).await.unwrap();
        assert_eq!(found, RegisteredActor::BuiltIn(direct.clone()));
        for update in [DuplicatePolicy::Refuse, DuplicatePolicy::Replace] {
            for sample in [direct.clone(), actor("builtin/other")] {
                let answer = actors.add(sample, update, "eva").await;
                assert!(matches!(answer, Err(ActorRegistryError::Invalid(_))));
            }
        }
        let answer = actors
            .remove(direct.name, ActorRemovalMode::Forced, "eva")
            .await;
        assert!(matches!(answer, Err(ActorRegistryError::BuiltIn { .. })));
        assert!(kinds(&opened.store).await.is_empty());
    });
}

fn models(names: &[&str]) -> Vec<ModelChoice> {
    let choice = |model: &&str| ModelChoice {
        provider: "team".to_owned(),
        model: (*model).to_owned(),
    };
    names.iter().map(choice).collect()
}

async fn names(actors: &ActorRegistry) -> Vec<(String, bool)> {
    let all = actors.actors().await.unwrap();
    let message = |it: &RegisteredActor| {
        let is_built_in = matches!(it, RegisteredActor::BuiltIn(_));
        (it.actor().name.to_string(), is_built_in)
    };
    all.iter().map(message).collect()
}

fn each_configured_model_is_an_actor_that_is_never_stored(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let plain = registry(&opened.store);
    let models = models(&["fast", "qwen:7b"]);
    let actors = plain.clone().with_models(&models);
    let built_in = |name: &str| (name.to_owned(), true);
    block_on(async {
        assert_eq!(
            names(&actors).await,
            [
                "builtin/coder",
                "builtin/direct",
                "team/fast",
                "team/qwen-7b"
            ]
            .map(built_in)
        );
        let (found, _) = actors.actor_in_use(name("team/qwen-7b")).await.unwrap();
        let ActorKind::Llm(llm) = &found.actor().kind else {
            panic!("{found:?}");
        };
        assert_eq!(llm.model.as_ref(), Some(&models[1]));
        for update in [DuplicatePolicy::Refuse, DuplicatePolicy::Replace] {
            let answer = actors.add(actor("team/fast"), update, "eva").await;
            assert!(
                matches!(answer, Err(ActorRegistryError::ReservedForModel { .. })),
                "{answer:?}"
            );
        }
        for removal in [ActorRemovalMode::IfUnused, ActorRemovalMode::Forced] {
            let answer = actors.remove(name("team/fast"), removal, "eva").await;
            assert!(
                matches!(answer, Err(ActorRegistryError::BuiltIn { .. })),
                "{answer:?}"
            );
        }
        // Nothing was written: without the configuration there is no actor.
        assert!(kinds(&opened.store).await.is_empty());
        assert!(plain.actor(name("team/fast")).await.is_err());
    });
}

fn an_actor_added_before_its_model_keeps_its_name(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let plain = registry(&opened.store);
    let actors = plain.clone().with_models(&models(&["own"]));
    block_on(async {
        let own = actor("team/own");
        plain
            .add(own.clone(), DuplicatePolicy::Refuse, "eva")
            .await
            .unwrap();
        let found = actors.actor(own.name.clone()).await.unwrap();
        assert!(matches!(&found, RegisteredActor::Added(row) if row.actor == own));
        assert_eq!(names(&actors).await[2], ("team/own".to_owned(), false));
        assert_eq!(names(&actors).await.len(), 3);
        let again = actors
            .add(own.clone(), DuplicatePolicy::Refuse, "eva")
            .await;
        assert!(is_taken(&again.unwrap_err()));
        let replaced = actors
            .add(own.clone(), DuplicatePolicy::Replace, "eva")
            .await;
        assert_eq!(replaced.unwrap().1, RegistryChange::Updated);
        actors
            .remove(own.name.clone(), ActorRemovalMode::IfUnused, "eva")
            .await
            .unwrap();
        let found = actors.actor(own.name).await.unwrap();
        assert!(matches!(found, RegisteredActor::BuiltIn(_)));
    });
}
