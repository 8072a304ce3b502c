//! Actions: registered once, replaced and archived by name, also under concurrency.

use cleveragents_domain::{ActionState, EventKind, StreamId};
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{events, run_concurrently};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::StoreError;

use super::fixture::{LifecycleFixture, draft, draft_named, request, store_error};

contract! {
    an_action_is_created_replaced_and_archived_on_the_record,
    concurrent_creates_of_one_name_have_one_winner,
    concurrent_action_replacements_all_succeed,
    concurrent_archives_take_effect_once,
}

async fn system_events(fixture: &LifecycleFixture, kind: EventKind) -> usize {
    let all = events(&fixture.opened.store, StreamId::System).await;
    all.iter().filter(|event| event.kind == kind).count()
}

fn an_action_is_created_replaced_and_archived_on_the_record(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let actions = &fixture.actions;
        let made = actions.create(draft_named("local/a"), "eva").await.unwrap();
        assert_eq!(actions.action(name("local/a")).await.unwrap(), made);
        match store_error(actions.create(draft_named("local/a"), "eva").await) {
            StoreError::Taken { holder, .. } => assert_eq!(holder, made.id.to_string()),
            other => panic!("{other} instead of Taken"),
        }
        let mut changed = draft_named("local/a");
        changed.description = "Other".to_owned();
        let later = actions.update(changed, "eva").await.unwrap();
        assert_eq!((later.id, later.version), (made.id, 2));
        assert_eq!(actions.action(name("local/a")).await.unwrap(), later);
        let new = actions.update(draft_named("local/b"), "eva").await;
        assert_eq!(new.unwrap().version, 1);
        let archived = actions.archive(name("local/a"), "eva").await;
        let archived = archived.unwrap();
        assert_eq!(archived.state, ActionState::Archived);
        let again = actions.archive(name("local/a"), "eva").await;
        assert_eq!(again.unwrap(), archived);
        let missing = store_error(actions.archive(name("local/none"), "eva").await);
        assert!(matches!(missing, StoreError::NotFound { .. }));
        for (kind, times) in [
            (EventKind::ActionCreated, 2),
            (EventKind::ActionUpdated, 1),
            (EventKind::ActionArchived, 1),
        ] {
            assert_eq!(system_events(&fixture, kind).await, times);
        }
    });
}

fn concurrent_creates_of_one_name_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let answers = run_concurrently(16, |_| {
            let actions = fixture.actions.clone();
            async move { actions.create(draft_named("local/one"), "eva").await }
        })
        .await;
        let won: Vec<_> = answers.iter().filter_map(|it| it.as_ref().ok()).collect();
        assert_eq!(won.len(), 1);
        for answer in answers.iter().filter(|it| it.is_err()) {
            match store_error(answer.clone()) {
                StoreError::Taken { holder, .. } => assert_eq!(holder, won[0].id.to_string()),
                other => panic!("{other} instead of Taken"),
            }
        }
        assert_eq!(system_events(&fixture, EventKind::ActionCreated).await, 1);
    });
}

fn concurrent_action_replacements_all_succeed(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let answers = run_concurrently(16, |task| {
            let (service, actions) = (fixture.lifecycle.clone(), fixture.actions.clone());
            async move {
                let mut draft = draft_named("local/new");
                draft.description = format!("by {task}");
                let replaced = actions.update(draft, "eva").await.unwrap();
                // A concurrent use applies to the action as it is at that moment.
                let used = service.use_action(request()).await;
                used.unwrap();
                let known = actions.update(super::fixture::draft(""), "eva").await;
                known.unwrap();
                replaced
            }
        })
        .await;
        let mut versions: Vec<i64> = answers.iter().map(|action| action.version).collect();
        versions.sort_unstable();
        assert_eq!(versions, (1..=16).collect::<Vec<_>>());
        let last = answers.iter().find(|action| action.version == 16);
        let found = fixture.actions.action(name("local/new")).await.unwrap();
        assert_eq!(Some(&found), last);
        assert_eq!(system_events(&fixture, EventKind::ActionUpdated).await, 31);
        let known = fixture.actions.action(draft("").name).await.unwrap();
        assert_eq!(known.version, 17);
    });
}

fn concurrent_archives_take_effect_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let answers = run_concurrently(16, |_| {
            let actions = fixture.actions.clone();
            async move { actions.archive(name("local/lint"), "eva").await }
        })
        .await;
        let first = answers[0].clone().unwrap();
        for answer in answers {
            assert_eq!(answer.unwrap(), first);
        }
        assert_eq!(system_events(&fixture, EventKind::ActionArchived).await, 1);
    });
}
