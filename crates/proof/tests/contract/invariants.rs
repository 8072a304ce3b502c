//! Invariants: each said once in its scope, and found by whom they speak of.

use cleveragents_domain::{Invariant, Scope};
use cleveragents_engine::ports::{Result, StoreHandle};
use cleveragents_proof::answers::{assert_missing, assert_taken, one_winner};
use cleveragents_proof::lifecycle_samples::{invariant, project, stored_plan};
use cleveragents_proof::samples::{name, plan_id};
use cleveragents_proof::verbs::{attempt, read, together, write};
use cleveragents_proof::{Backend, Place, block_on, contract};

contract! {
    a_rule_reads_back_in_every_scope,
    a_text_is_said_once_in_its_scope,
    sixteen_who_say_the_same_have_one_winner,
    sixteen_who_remove_a_rule_have_one_winner,
    a_scope_must_be_there,
}

async fn insert(store: &StoreHandle, invariant: &Invariant) -> Result<()> {
    let invariant = invariant.clone();
    attempt(store, move |unit| unit.insert_invariant(&invariant)).await
}

async fn insert_project(store: &StoreHandle, text: &str) {
    let project = project(text, 0);
    write(store, move |unit| unit.insert_project(&project)).await;
}

fn a_rule_reads_back_in_every_scope(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let plan = stored_plan(&opened.store).await;
        insert_project(&opened.store, "shop").await;
        insert_project(&opened.store, "bank").await;
        let lint = Scope::Action(name("lint"));
        // Oldest last, so that the order is seen to be made.
        let rules = [
            invariant("of the plan \0", Scope::Plan(plan), 1),
            invariant("of the action", lint.clone(), 2),
            invariant("of the bank", Scope::Project(name("bank")), 3),
            invariant("of the shop", Scope::Project(name("shop")), 4),
            invariant("global", Scope::Global, 6),
            invariant("older", Scope::Global, 5),
            invariant("of another", Scope::Action(name("other")), 7),
        ];
        for rule in &rules {
            insert(&opened.store, rule).await.unwrap();
        }
        let all = read(&opened.store, |unit| unit.invariants()).await;
        let by_time = [0, 1, 2, 3, 5, 4, 6].map(|number: usize| rules[number].clone());
        assert_eq!(all, by_time);
        let asked = read(&opened.store, move |unit| {
            let projects = [name("shop"), name("bank")];
            unit.invariants_for(&projects, Some(&name("lint")), Some(plan))
        })
        .await;
        let wanted = [5, 4, 3, 2, 1, 0].map(|number: usize| rules[number].clone());
        assert_eq!(asked, wanted);
        let global = read(&opened.store, |unit| unit.invariants_for(&[], None, None)).await;
        assert_eq!(global, wanted[..2]);
        let fragment = rules[3].id.to_string()[18..].parse().unwrap();
        let found = opened
            .store
            .read(move |unit| unit.find_invariant(&fragment))
            .await;
        assert_eq!(found.unwrap(), rules[3]);
    });
}

fn a_text_is_said_once_in_its_scope(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let long = "no new dependencies ".repeat(1000);
    block_on(async {
        let first = invariant(&long, Scope::Global, 0);
        insert(&opened.store, &first).await.unwrap();
        let shouted = format!("  {}\n", long.to_uppercase());
        let refused = insert(&opened.store, &invariant(&shouted, Scope::Global, 1)).await;
        let holder = first.id.to_string();
        assert_taken(refused, ("the invariant", &shouted, &holder));
        // Others may say the same, and it may be said again once it is gone.
        for text in ["a", "b"] {
            let scope = Scope::Action(name(text));
            insert(&opened.store, &invariant(&long, scope, 0))
                .await
                .unwrap();
        }
        let removed = write(&opened.store, move |unit| unit.remove_invariant(first.id)).await;
        assert_eq!(removed.text, long);
        insert(&opened.store, &invariant(&shouted, Scope::Global, 1))
            .await
            .unwrap();
        assert_eq!(read(&opened.store, |unit| unit.invariants()).await.len(), 3);
    });
}

fn sixteen_who_say_the_same_have_one_winner(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let answers = together(16, |_| {
            let (store, rule) = (opened.store.clone(), invariant("same", Scope::Global, 0));
            async move { insert(&store, &rule).await.map(|()| rule.id) }
        })
        .await;
        let (winner, refused) = one_winner(answers);
        for error in refused {
            assert_taken::<()>(Err(error), ("the invariant", "same", &winner.to_string()));
        }
    });
}

fn sixteen_who_remove_a_rule_have_one_winner(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let rule = invariant("gone soon", Scope::Global, 0);
    block_on(async {
        insert(&opened.store, &rule).await.unwrap();
        let id = rule.id;
        let answers = together(16, |_| {
            let store = opened.store.clone();
            async move { attempt(&store, move |unit| unit.remove_invariant(id)).await }
        })
        .await;
        let (removed, refused) = one_winner(answers);
        assert_eq!(removed, rule);
        for error in refused {
            assert_missing::<()>(Err(error), ("invariant", &id.to_string()));
        }
    });
}

fn a_scope_must_be_there(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let plan = plan_id();
    block_on(async {
        let of_project = invariant("x", Scope::Project(name("none")), 0);
        assert_missing(
            insert(&opened.store, &of_project).await,
            ("project", "local/none"),
        );
        let of_plan = invariant("x", Scope::Plan(plan), 0);
        assert_missing(
            insert(&opened.store, &of_plan).await,
            ("plan", &plan.to_string()),
        );
        assert!(
            read(&opened.store, |unit| unit.invariants())
                .await
                .is_empty()
        );
    });
}
