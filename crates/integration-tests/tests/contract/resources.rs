//! Resources: unique name and path, and no dangling links.

use cleveragents_domain::{AbsolutePath, Resource, ResourceType};
use cleveragents_integration_tests::assertions::{
    assert_conflict, assert_missing, assert_one_winner, assert_referenced, assert_taken,
};
use cleveragents_integration_tests::lifecycle_samples::{project, resource};
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, trials};
use cleveragents_ports::{Entity, Result, StoreError, StoreHandle};

contract! {
    a_resource_with_any_path_reads_back,
    a_taken_path_names_the_resource_that_has_it,
    concurrent_inserts_of_one_path_have_one_winner,
    links_are_ordered_and_deduplicated,
    a_path_has_the_projects_of_its_resource,
    a_linked_resource_is_not_removed,
    concurrent_link_and_removal_leave_no_dangling_link,
}

async fn insert(store: &StoreHandle, resource: &Resource) -> Result<()> {
    let resource = resource.clone();
    try_write(store, move |tx| tx.insert_resource(&resource)).await
}

async fn delete(store: &StoreHandle, resource: &Resource) -> Result<()> {
    let resource = resource.clone();
    try_write(store, move |tx| tx.delete_resource(&resource)).await
}

async fn link(store: &StoreHandle, project: &str, resource: &str) -> Result<u64> {
    let (project, resource) = (name(project), name(resource));
    try_write(store, move |tx| tx.link_resource(&project, &resource)).await
}

async fn insert_project(store: &StoreHandle, text: &str) {
    let project = project(text, 0);
    write(store, move |tx| tx.insert_project(&project)).await;
}

async fn linked(store: &StoreHandle, project: &str) -> Vec<String> {
    let project = name(project);
    let found = read(store, move |tx| tx.resources_of(&project)).await;
    found.iter().map(|each| each.name.to_string()).collect()
}

fn a_resource_with_any_path_reads_back(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let long = [b"/".as_slice(), &[b'x'; 4000]].concat();
    let samples = [
        resource("odd", b"/srv/\xff\n%", 0),
        Resource {
            resource_type: ResourceType::GitCheckout,
            ..resource("long", &long, 1)
        },
    ];
    block_on(async {
        for sample in &samples {
            insert(&opened.store, sample).await.unwrap();
            let asked = sample.name.clone();
            let found = read(&opened.store, move |tx| tx.resource(&asked)).await;
            assert_eq!(found, *sample);
        }
        let [odd, long] = samples;
        assert_eq!(read(&opened.store, |tx| tx.resources()).await, [long, odd]);
        let none = opened.store.read(|tx| tx.resource(&name("none"))).await;
        assert_missing(none, ("resource", "local/none"));
    });
}

fn a_taken_path_names_the_resource_that_has_it(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let first = resource("one", b"/srv/one", 0);
    block_on(async {
        insert(&opened.store, &first).await.unwrap();
        let same_place = insert(&opened.store, &resource("two", b"/srv/one", 0)).await;
        assert_taken(same_place, ("the path", "/srv/one", "local/one"));
        let same_name = insert(&opened.store, &resource("one", b"/srv/two", 0)).await;
        let holder = first.id.to_string();
        assert_taken(same_name, ("the resource name", "local/one", &holder));
        insert(&opened.store, &resource("two", b"/srv/two", 0))
            .await
            .unwrap();
        assert_eq!(read(&opened.store, |tx| tx.resources()).await.len(), 2);
    });
}

fn concurrent_inserts_of_one_path_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |number| {
            let store = opened.store.clone();
            let resource = resource(&format!("r{number}"), b"/srv/wanted", 0);
            async move {
                insert(&store, &resource)
                    .await
                    .map(|()| resource.name.to_string())
            }
        })
        .await;
        let (winner, refused) = assert_one_winner(answers);
        for error in refused {
            assert_taken::<()>(Err(error), ("the path", "/srv/wanted", &winner));
        }
    });
}

fn a_path_has_the_projects_of_its_resource(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let store = &opened.store;
    block_on(async {
        for project in ["shop", "bank", "mine"] {
            insert_project(store, project).await;
        }
        for (text, path) in [("all", b"/srv/all".as_slice()), ("one", b"/srv/all/one")] {
            insert(store, &resource(text, path, 0)).await.unwrap();
        }
        for (project, resource) in [("shop", "all"), ("bank", "all"), ("mine", "one")] {
            link(store, project, resource).await.unwrap();
        }
        for (path, expected) in [
            (b"/srv/all".as_slice(), vec!["local/bank", "local/shop"]),
            (b"/srv/all/one", vec!["local/mine"]),
            (b"/srv", vec![]),
        ] {
            let path = AbsolutePath::from_bytes(path).unwrap();
            let found = read(store, move |tx| tx.projects_at(&path)).await;
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected);
        }
    });
}

fn links_are_ordered_and_deduplicated(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let store = &opened.store;
    block_on(async {
        insert_project(store, "shop").await;
        for text in ["c", "a", "b"] {
            let path = format!("/srv/{text}");
            insert(store, &resource(text, path.as_bytes(), 0))
                .await
                .unwrap();
            assert_eq!(link(store, "shop", text).await.unwrap(), 1);
        }
        assert_eq!(link(store, "shop", "c").await.unwrap(), 0);
        assert_eq!(
            linked(store, "shop").await,
            ["local/c", "local/a", "local/b"]
        );
        let unlink = |resource: &'static str| {
            write(store, move |tx| {
                tx.unlink_resource(&name("shop"), &name(resource))
            })
        };
        assert_eq!((unlink("c").await, unlink("c").await), (1, 0));
        assert_eq!(link(store, "shop", "c").await.unwrap(), 1);
        assert_eq!(
            linked(store, "shop").await,
            ["local/a", "local/b", "local/c"]
        );
        assert_missing(link(store, "none", "c").await, ("project", "local/none"));
        assert_missing(
            link(store, "shop", "none").await,
            ("resource", "local/none"),
        );
        let none = store.read(|tx| tx.resources_of(&name("none"))).await;
        assert_missing(none, ("project", "local/none"));
    });
}

fn a_linked_resource_is_not_removed(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let tree = resource("tree", b"/srv/tree", 0);
    block_on(async {
        insert(&opened.store, &tree).await.unwrap();
        for project in ["shop", "bank"] {
            insert_project(&opened.store, project).await;
            link(&opened.store, project, "tree").await.unwrap();
        }
        assert_referenced(
            delete(&opened.store, &tree).await,
            ("resource", "local/tree"),
            &["local/bank", "local/shop"],
        );
        let ahead = Resource {
            version: 2,
            ..tree.clone()
        };
        assert_conflict(delete(&opened.store, &ahead).await, ("resource", 2, 1));
        for project in ["shop", "bank"] {
            write(&opened.store, move |tx| {
                tx.unlink_resource(&name(project), &name("tree"))
            })
            .await;
        }
        delete(&opened.store, &tree).await.unwrap();
        let id = tree.id.to_string();
        assert_missing(delete(&opened.store, &tree).await, ("resource", &id));
        // The path can be registered again.
        insert(&opened.store, &resource("new", b"/srv/tree", 0))
            .await
            .unwrap();
    });
}

fn concurrent_link_and_removal_leave_no_dangling_link(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for number in 0..4 {
            insert_project(&opened.store, &format!("p{number}")).await;
        }
        for _ in 0..trials(200, 10) {
            let tree = resource("tree", b"/srv/tree", 0);
            insert(&opened.store, &tree).await.unwrap();
            let answers = run_concurrently(5, |number| {
                let (store, tree) = (opened.store.clone(), tree.clone());
                async move {
                    match number {
                        2 => delete(&store, &tree).await.map(|()| 0),
                        _ => link(&store, &format!("p{}", number % 4), "tree").await,
                    }
                }
            })
            .await;
            let removed = answers[2].is_ok();
            let mut links = 0;
            for number in 0..4 {
                links += linked(&opened.store, &format!("p{number}")).await.len();
            }
            let left = read(&opened.store, |tx| tx.resources()).await;
            assert_eq!(left.is_empty(), removed);
            for (number, answer) in answers.into_iter().enumerate() {
                match answer {
                    Ok(_) if number != 2 && removed => panic!("{number} linked what is gone"),
                    Ok(_) => {}
                    Err(StoreError::NotFound {
                        entity: Entity::Resource,
                        ..
                    }) if number != 2 => {}
                    Err(StoreError::Referenced {
                        entity: Entity::Resource,
                        ..
                    }) if number == 2 => {}
                    other => panic!("{number}: {other:?}"),
                }
            }
            assert_eq!(links == 0, removed, "{links} links");
            if !removed {
                write(&opened.store, move |tx| {
                    for number in 0..4 {
                        tx.unlink_resource(&name(&format!("p{number}")), &name("tree"))?;
                    }
                    tx.delete_resource(&tree)
                })
                .await;
            }
        }
    });
}
