//! Actions: registered once, replaced and archived by name, whoever comes at the same time.

use cleveragents_domain::{ActionState, EventKind, StreamId};
use cleveragents_engine::ports::StoreError;
use cleveragents_proof::samples::name;
use cleveragents_proof::verbs::{events, together};
use cleveragents_proof::{Backend, Place, block_on, contract};

use super::scene::{Scene, draft, named, refusal, request};

contract! {
    an_action_is_created_replaced_and_archived_on_the_record,
    of_sixteen_who_create_one_name_one_has_it,
    sixteen_who_replace_one_action_all_succeed,
    sixteen_who_archive_one_action_do_it_once,
}

async fn system_events(scene: &Scene, kind: EventKind) -> usize {
    let all = events(&scene.opened.store, StreamId::System).await;
    all.iter().filter(|event| event.kind == kind).count()
}

fn an_action_is_created_replaced_and_archived_on_the_record(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let service = &scene.lifecycle;
        let made = service
            .create_action(named("local/a"), "eva")
            .await
            .unwrap();
        assert_eq!(service.action(name("local/a")).await.unwrap(), made);
        match refusal(service.create_action(named("local/a"), "eva").await) {
            StoreError::Taken { holder, .. } => assert_eq!(holder, made.id.to_string()),
            other => panic!("{other} instead of Taken"),
        }
        let mut changed = named("local/a");
        changed.description = "Other".to_owned();
        let later = service.update_action(changed, "eva").await.unwrap();
        assert_eq!((later.id, later.version), (made.id, 2));
        assert_eq!(service.action(name("local/a")).await.unwrap(), later);
        let new = service.update_action(named("local/b"), "eva").await;
        assert_eq!(new.unwrap().version, 1);
        let archived = service.archive_action(name("local/a"), "eva").await;
        let archived = archived.unwrap();
        assert_eq!(archived.state, ActionState::Archived);
        let again = service.archive_action(name("local/a"), "eva").await;
        assert_eq!(again.unwrap(), archived);
        let missing = refusal(service.archive_action(name("local/none"), "eva").await);
        assert!(matches!(missing, StoreError::NotFound { .. }));
        for (kind, times) in [
            (EventKind::ActionCreated, 2),
            (EventKind::ActionUpdated, 1),
            (EventKind::ActionArchived, 1),
        ] {
            assert_eq!(system_events(&scene, kind).await, times);
        }
    });
}

fn of_sixteen_who_create_one_name_one_has_it(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let answers = together(16, |_| {
            let service = scene.lifecycle.clone();
            async move { service.create_action(named("local/one"), "eva").await }
        })
        .await;
        let won: Vec<_> = answers.iter().filter_map(|it| it.as_ref().ok()).collect();
        assert_eq!(won.len(), 1);
        for answer in answers.iter().filter(|it| it.is_err()) {
            match refusal(answer.clone()) {
                StoreError::Taken { holder, .. } => assert_eq!(holder, won[0].id.to_string()),
                other => panic!("{other} instead of Taken"),
            }
        }
        assert_eq!(system_events(&scene, EventKind::ActionCreated).await, 1);
    });
}

fn sixteen_who_replace_one_action_all_succeed(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let answers = together(16, |task| {
            let service = scene.lifecycle.clone();
            async move {
                let mut draft = named("local/new");
                draft.description = format!("by {task}");
                let replaced = service.update_action(draft, "eva").await.unwrap();
                // A use at the same time is a use of what is there then.
                let used = service.use_action(request()).await;
                used.unwrap();
                let known = service.update_action(super::scene::draft(""), "eva").await;
                known.unwrap();
                replaced
            }
        })
        .await;
        let mut versions: Vec<i64> = answers.iter().map(|action| action.version).collect();
        versions.sort_unstable();
        assert_eq!(versions, (1..=16).collect::<Vec<_>>());
        let last = answers.iter().find(|action| action.version == 16);
        let found = scene.lifecycle.action(name("local/new")).await.unwrap();
        assert_eq!(Some(&found), last);
        assert_eq!(system_events(&scene, EventKind::ActionUpdated).await, 31);
        let known = scene.lifecycle.action(draft("").name).await.unwrap();
        assert_eq!(known.version, 17);
    });
}

fn sixteen_who_archive_one_action_do_it_once(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let answers = together(16, |_| {
            let service = scene.lifecycle.clone();
            async move { service.archive_action(name("local/lint"), "eva").await }
        })
        .await;
        let first = answers[0].clone().unwrap();
        for answer in answers {
            assert_eq!(answer.unwrap(), first);
        }
        assert_eq!(system_events(&scene, EventKind::ActionArchived).await, 1);
    });
}
