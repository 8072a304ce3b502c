//! Projects and resources through their service: all or nothing, also under concurrency.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_domain::{
    AbsolutePath, EventKind, NamespacedName, ProfileName, ResourceType, StreamId,
};
use cleveragents_engine::projects::{
    CreatedProject, LinkOutcome, LocatedResource, NewProject, ProjectError, ProjectService,
    UnlinkOutcome,
};
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{events, read, run_concurrently};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, trials};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Entity, Liveness, StoreError};

use super::fixture::LifecycleFixture;

contract! {
    a_project_is_created_with_its_resources_and_rules,
    a_project_that_is_refused_leaves_nothing,
    concurrent_creates_of_one_project_have_one_winner,
    sixteen_directories_of_one_name_get_distinct_names,
    concurrent_projects_share_the_same_resources,
    concurrent_link_and_resource_removal_have_one_winner,
}

pub(crate) fn service(fixture: &LifecycleFixture) -> ProjectService {
    service_with(
        fixture,
        Arc::clone(&fixture.opened.presence) as Arc<dyn Liveness>,
    )
}

pub(crate) fn service_with(
    fixture: &LifecycleFixture,
    liveness: Arc<dyn Liveness>,
) -> ProjectService {
    ProjectService::new(fixture.opened.store.clone(), Arc::new(SystemIds), liveness)
}

fn found_resource(path: &str) -> LocatedResource {
    LocatedResource {
        path: AbsolutePath::from_bytes(path).unwrap(),
        resource_type: ResourceType::GitCheckout,
    }
}

pub(crate) fn new_project(text: &str, paths: &[&str]) -> NewProject {
    NewProject {
        name: name(text),
        description: Some("for sale".to_owned()),
        automation_profile: None,
        locations: paths.iter().map(|path| found_resource(path)).collect(),
        invariants: vec!["No new dependencies".to_owned()],
    }
}

fn names(created: &CreatedProject) -> Vec<String> {
    let resources = created.resources.iter();
    resources.map(|it| it.name.to_string()).collect()
}

fn a_project_is_created_with_its_resources_and_rules(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::open(&test_db);
        let service = service(&fixture);
        let mut new = new_project("team/shop", &["/srv/b/shop", "/srv/a", "/srv/c/shop"]);
        new.invariants.push("no  NEW dependencies".to_owned());
        let created = service.create(new, "eva").await.unwrap();
        assert_eq!(names(&created), ["local/shop", "local/a", "local/shop-2"]);
        assert!(created.reused.is_empty());
        let second = new_project("team/other", &["/srv/a"]);
        let second = service.create(second, "eva").await.unwrap();
        assert_eq!(second.reused, [name("local/a")]);

        let view = service.show(name("team/shop")).await.unwrap();
        assert_eq!(view.project, created.project);
        assert_eq!(view.resources, created.resources);
        assert_eq!(view.invariants, created.invariants);
        assert_eq!(view.invariants.len(), 1);
        let listed = service.list().await.unwrap();
        assert_eq!(listed.len(), 2);
        assert!(listed.contains(&view));
        let shared = service.show_resource(name("local/a")).await.unwrap();
        assert_eq!(shared.projects, [name("team/other"), name("team/shop")]);
        let map = service.project_map().await.unwrap();
        assert_eq!((map.projects.len(), map.resources.len()), (2, 3));

        let message = events(&fixture.opened.store, StreamId::System).await;
        let kinds: Vec<EventKind> = message.iter().map(|event| event.kind.clone()).collect();
        use EventKind::{InvariantAdded, ProjectCreated, ResourceAdded, ResourceLinked};
        let first = [
            ProjectCreated,
            ResourceAdded,
            ResourceLinked,
            ResourceAdded,
            ResourceLinked,
            ResourceAdded,
            ResourceLinked,
            InvariantAdded,
        ];
        assert_eq!(kinds[..8], first);
        assert_eq!(kinds[8..], [ProjectCreated, ResourceLinked, InvariantAdded]);
        assert!(message.iter().all(|event| event.actor == "eva"));
    });
}

fn a_project_that_is_refused_leaves_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::open(&test_db);
        let service = service(&fixture);
        let good = || new_project("local/shop", &["/srv/shop"]);
        let unknown = NewProject {
            automation_profile: Some(ProfileName::Custom(name("team/none"))),
            ..good()
        };
        let wordless = NewProject {
            invariants: vec!["fine".to_owned(), " ".to_owned()],
            ..good()
        };
        let wordy = NewProject {
            description: Some("x".repeat(5000)),
            ..good()
        };
        for (new, part) in [
            (unknown, "no automation profile `team/none`"),
            (wordless, "an invariant needs a text"),
            (wordy, "may be 4096 bytes long, this one has 5000"),
        ] {
            let said = service.create(new, "eva").await.unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
        let map = service.project_map().await.unwrap();
        assert_eq!((map.projects.len(), map.resources.len()), (0, 0));
        let rules = read(&fixture.opened.store, |tx| tx.invariants()).await;
        assert!(rules.is_empty());
        assert!(
            events(&fixture.opened.store, StreamId::System)
                .await
                .is_empty()
        );
    });
}

fn concurrent_creates_of_one_project_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::open(&test_db);
        let service = service(&fixture);
        let answers = run_concurrently(32, |number| {
            let (service, path) = (service.clone(), format!("/srv/{number}/shop"));
            async move {
                let new = new_project("local/wanted", &[&path]);
                service.create(new, "eva").await
            }
        })
        .await;
        let won: Vec<&CreatedProject> = answers.iter().filter_map(|it| it.as_ref().ok()).collect();
        let [winner] = won[..] else {
            panic!("{} winners", won.len());
        };
        let holder = winner.project.id.to_string();
        for answer in &answers {
            match answer {
                Ok(_) => {}
                Err(ProjectError::Store(StoreError::Taken {
                    holder: reported, ..
                })) => {
                    assert_eq!(*reported, holder);
                }
                other => panic!("{other:?} instead of Taken"),
            }
        }
        let map = service.project_map().await.unwrap();
        assert_eq!((map.projects.len(), map.resources.len()), (1, 1));
        assert_eq!(map.resources[0].resource, winner.resources[0]);
    });
}

fn sixteen_directories_of_one_name_get_distinct_names(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::open(&test_db);
        let service = service(&fixture);
        let answers = run_concurrently(16, |number| {
            let service = service.clone();
            async move {
                let paths = [format!("/srv/{number}/shop"), format!("/srv/{number}/docs")];
                let mut paths: Vec<&str> = paths.iter().map(String::as_str).collect();
                if number % 2 == 1 {
                    paths.reverse();
                }
                let new = new_project(&format!("local/p{number}"), &paths);
                service.create(new, "eva").await.unwrap()
            }
        })
        .await;
        let given: BTreeSet<String> = answers.iter().flat_map(names).collect();
        let mut wanted = BTreeSet::new();
        for base in ["local/shop", "local/docs"] {
            wanted.insert(base.to_owned());
            wanted.extend((2..=16).map(|number| format!("{base}-{number}")));
        }
        assert_eq!(given, wanted);
    });
}

fn concurrent_projects_share_the_same_resources(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::open(&test_db);
        let service = service(&fixture);
        let answers = run_concurrently(16, |number| {
            let service = service.clone();
            async move {
                let mut paths = ["/srv/a/shop", "/srv/b/shop"];
                if number % 2 == 1 {
                    paths.reverse();
                }
                let new = new_project(&format!("local/p{number}"), &paths);
                service.create(new, "eva").await.unwrap()
            }
        })
        .await;
        let added = answers
            .iter()
            .map(|it| it.resources.len() - it.reused.len());
        assert_eq!(added.sum::<usize>(), 2);
        let map = service.project_map().await.unwrap();
        assert_eq!((map.projects.len(), map.resources.len()), (16, 2));
        assert!(map.resources.iter().all(|it| it.projects.len() == 16));
    });
}

/// The sample project on which plans are created.
pub(crate) fn shop() -> NamespacedName {
    name("local/shop")
}

fn concurrent_link_and_resource_removal_have_one_winner(backend: Backend) {
    for _ in 0..trials(50, 5) {
        let test_db = TestDatabase::new(backend);
        block_on(async {
            let fixture = LifecycleFixture::with_samples(&test_db).await;
            let service = service(&fixture);
            let folder = name("local/folder");
            let first = service.unlink(shop(), folder.clone(), "eva").await.unwrap();
            assert_eq!(first, UnlinkOutcome::Done);
            let answers = run_concurrently(8, |number| {
                let (service, folder) = (service.clone(), name("local/folder"));
                async move {
                    match number % 2 {
                        0 => service.remove_resource(folder, "eva").await.map(|_| None),
                        _ => service.link(shop(), folder, "eva").await.map(Some),
                    }
                }
            })
            .await;
            let new = |it: &&Result<_, _>| matches!(it, Ok(Some(LinkOutcome::New)));
            let removed = |it: &&Result<_, ProjectError>| matches!(it, Ok(None));
            let outcome = (
                answers.iter().filter(new).count(),
                answers.iter().filter(removed).count(),
            );
            let linked = service.show(shop()).await.unwrap().resources.len();
            let there = service.show_resource(folder).await.is_ok();
            if there {
                assert_eq!((outcome, linked), ((1, 0), 1));
            } else {
                assert_eq!((outcome, linked), ((0, 1), 0));
            }
            for error in answers.into_iter().filter_map(Result::err) {
                let legal = match &error {
                    ProjectError::Linked { projects, .. } => there && *projects == ["local/shop"],
                    ProjectError::Store(StoreError::NotFound { entity, id }) => {
                        !there && *entity == Entity::Resource && id == "local/folder"
                    }
                    _ => false,
                };
                assert!(legal, "{error:?}");
            }
        });
    }
}
