//! Invariants: unique within their scope, and found by scope.

use cleveragents_domain::{Invariant, InvariantScope};
use cleveragents_integration_tests::assertions::{assert_missing, assert_one_winner, assert_taken};
use cleveragents_integration_tests::lifecycle_samples::{invariant, project, store_sample_plan};
use cleveragents_integration_tests::samples::{name, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Result, StoreHandle};

contract! {
    a_rule_reads_back_in_every_scope,
    a_text_is_unique_in_its_scope,
    concurrent_identical_rules_have_one_winner,
    concurrent_rule_removals_have_one_winner,
    a_scope_must_exist,
}

async fn insert(store: &StoreHandle, invariant: &Invariant) -> Result<()> {
    let invariant = invariant.clone();
    try_write(store, move |tx| tx.insert_invariant(&invariant)).await
}

async fn insert_project(store: &StoreHandle, text: &str) {
    let project = project(text, 0);
    write(store, move |tx| tx.insert_project(&project)).await;
}

fn a_rule_reads_back_in_every_scope(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        insert_project(&opened.store, "shop").await;
        insert_project(&opened.store, "bank").await;
        let lint = InvariantScope::Action(name("lint"));
        // Oldest last, to show that the result is sorted.
        let rules = [
            invariant("of the plan \0", InvariantScope::Plan(plan), 1),
            invariant("of the action", lint.clone(), 2),
            invariant("of the bank", InvariantScope::Project(name("bank")), 3),
            invariant("of the shop", InvariantScope::Project(name("shop")), 4),
            invariant("global", InvariantScope::Global, 6),
            invariant("older", InvariantScope::Global, 5),
            invariant("of another", InvariantScope::Action(name("other")), 7),
        ];
        for rule in &rules {
            insert(&opened.store, rule).await.unwrap();
        }
        let all = read(&opened.store, |tx| tx.invariants()).await;
        let by_time = [0, 1, 2, 3, 5, 4, 6].map(|number: usize| rules[number].clone());
        assert_eq!(all, by_time);
        let asked = read(&opened.store, move |tx| {
            let projects = [name("shop"), name("bank")];
            tx.invariants_for(&projects, Some(&name("lint")), Some(plan))
        })
        .await;
        let wanted = [5, 4, 3, 2, 1, 0].map(|number: usize| rules[number].clone());
        assert_eq!(asked, wanted);
        let global = read(&opened.store, |tx| tx.invariants_for(&[], None, None)).await;
        assert_eq!(global, wanted[..2]);
        let fragment = rules[3].id.to_string()[18..].parse().unwrap();
        let found = opened
            .store
            .read(move |tx| tx.find_invariant(&fragment))
            .await;
        assert_eq!(found.unwrap(), rules[3]);
    });
}

fn a_text_is_unique_in_its_scope(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let long = "no new dependencies ".repeat(1000);
    block_on(async {
        let first = invariant(&long, InvariantScope::Global, 0);
        insert(&opened.store, &first).await.unwrap();
        let shouted = format!("  {}\n", long.to_uppercase());
        let refused = insert(
            &opened.store,
            &invariant(&shouted, InvariantScope::Global, 1),
        )
        .await;
        let holder = first.id.to_string();
        assert_taken(refused, ("the invariant", &shouted, &holder));
        // Other scopes may have the same text, and it may be added again after removal.
        for text in ["a", "b"] {
            let scope = InvariantScope::Action(name(text));
            insert(&opened.store, &invariant(&long, scope, 0))
                .await
                .unwrap();
        }
        let removed = write(&opened.store, move |tx| tx.remove_invariant(first.id)).await;
        assert_eq!(removed.text, long);
        insert(
            &opened.store,
            &invariant(&shouted, InvariantScope::Global, 1),
        )
        .await
        .unwrap();
        assert_eq!(read(&opened.store, |tx| tx.invariants()).await.len(), 3);
    });
}

fn concurrent_identical_rules_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |_| {
            let (store, rule) = (
                opened.store.clone(),
                invariant("same", InvariantScope::Global, 0),
            );
            async move { insert(&store, &rule).await.map(|()| rule.id) }
        })
        .await;
        let (winner, refused) = assert_one_winner(answers);
        for error in refused {
            assert_taken::<()>(Err(error), ("the invariant", "same", &winner.to_string()));
        }
    });
}

fn concurrent_rule_removals_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let rule = invariant("gone soon", InvariantScope::Global, 0);
    block_on(async {
        insert(&opened.store, &rule).await.unwrap();
        let id = rule.id;
        let answers = run_concurrently(16, |_| {
            let store = opened.store.clone();
            async move { try_write(&store, move |tx| tx.remove_invariant(id)).await }
        })
        .await;
        let (removed, refused) = assert_one_winner(answers);
        assert_eq!(removed, rule);
        for error in refused {
            assert_missing::<()>(Err(error), ("invariant", &id.to_string()));
        }
    });
}

fn a_scope_must_exist(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let plan = plan_id();
    block_on(async {
        let of_project = invariant("x", InvariantScope::Project(name("none")), 0);
        assert_missing(
            insert(&opened.store, &of_project).await,
            ("project", "local/none"),
        );
        let of_plan = invariant("x", InvariantScope::Plan(plan), 0);
        assert_missing(
            insert(&opened.store, &of_plan).await,
            ("plan", &plan.to_string()),
        );
        assert!(read(&opened.store, |tx| tx.invariants()).await.is_empty());
    });
}
