//! Actions and plans: versioned rows that are never overwritten, with unique names.

use cleveragents_domain::id::{IdFragment, PlanId};
use cleveragents_domain::{Action, ActionState, Move, Plan};
use cleveragents_integration_tests::samples::{action, at, name, plan, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Result, StoreError, StoreHandle};

contract! {
    an_action_reads_back_in_every_field,
    a_plan_reads_back_in_every_field,
    lists_are_newest_first,
    missing_rows_are_not_found,
    a_taken_name_names_its_holder,
    concurrent_inserts_of_one_name_have_one_winner,
    an_update_counts_the_version_up,
    a_stale_update_is_a_conflict,
    an_update_of_a_missing_row_is_not_found,
    sixteen_updates_of_one_version_have_one_winner,
    a_plan_is_found_by_either_end_of_its_id,
    an_ambiguous_fragment_lists_the_candidates,
}

async fn insert_action(store: &StoreHandle, action: &Action) -> Result<()> {
    let action = action.clone();
    try_write(store, move |tx| tx.insert_action(&action)).await
}

async fn insert_plan(store: &StoreHandle, plan: &Plan) -> Result<()> {
    let plan = plan.clone();
    try_write(store, move |tx| tx.insert_plan(&plan)).await
}

async fn update_action(store: &StoreHandle, action: &Action) -> Result<i64> {
    let action = action.clone();
    try_write(store, move |tx| tx.update_action(&action)).await
}

async fn update_plan(store: &StoreHandle, plan: &Plan) -> Result<i64> {
    let plan = plan.clone();
    try_write(store, move |tx| tx.update_plan(&plan)).await
}

async fn find(store: &StoreHandle, fragment: &str) -> Result<Plan> {
    let fragment: IdFragment = fragment.parse().unwrap();
    store.read(move |tx| tx.find_plan(&fragment)).await
}

#[track_caller]
fn assert_conflict(answer: Result<i64>, what: &str, id: &str, versions: (i64, i64)) {
    let (wanted_what, wanted_id) = (what, id);
    match answer {
        Err(StoreError::Conflict {
            entity,
            id,
            expected,
            found,
        }) => {
            assert_eq!((entity.as_str(), id.as_str()), (wanted_what, wanted_id));
            assert_eq!((expected, found), versions);
        }
        other => panic!("{other:?} instead of a conflict"),
    }
}

#[track_caller]
fn assert_taken(answer: Result<()>, wanted: (&str, &str, &str)) {
    match answer {
        Err(StoreError::Taken { key, name, holder }) => {
            let key = key.to_string();
            assert_eq!((key.as_str(), name.as_str(), holder.as_str()), wanted);
        }
        other => panic!("{other:?} instead of Taken"),
    }
}

#[track_caller]
fn assert_missing<T: std::fmt::Debug>(answer: Result<T>, wanted: (&str, &str)) {
    match answer {
        Err(StoreError::NotFound { entity, id }) => {
            assert_eq!((entity.as_str(), id.as_str()), wanted);
        }
        other => panic!("{other:?} instead of NotFound"),
    }
}

fn an_action_reads_back_in_every_field(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let sample = action("prod:team/coverage", 0);
    block_on(async {
        insert_action(&opened.store, &sample).await.unwrap();
        let asked = sample.name.clone();
        assert_eq!(
            read(&opened.store, move |tx| tx.action(&asked)).await,
            sample
        );
        assert_eq!(read(&opened.store, |tx| tx.actions()).await, [sample]);
        // A new row gets version 1, whatever the value says.
        let copied = Action {
            version: 7,
            ..action("local/copied", 1)
        };
        insert_action(&opened.store, &copied).await.unwrap();
        let found = read(&opened.store, |tx| tx.action(&name("copied"))).await;
        assert_eq!(
            found,
            Action {
                version: 1,
                ..copied
            }
        );
    });
}

fn a_plan_reads_back_in_every_field(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let id = plan_id();
    let sample = plan(id, 0);
    block_on(async {
        insert_plan(&opened.store, &sample).await.unwrap();
        assert_eq!(read(&opened.store, move |tx| tx.plan(id)).await, sample);
        assert_eq!(find(&opened.store, &id.to_string()).await.unwrap(), sample);
        assert_eq!(read(&opened.store, |tx| tx.plans()).await, [sample]);
    });
}

fn lists_are_newest_first(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        for seconds in [3, 1, 4, 2] {
            let text = format!("local/made-{seconds}");
            insert_action(&opened.store, &action(&text, seconds))
                .await
                .unwrap();
            insert_plan(&opened.store, &plan(plan_id(), seconds))
                .await
                .unwrap();
        }
        let actions = read(&opened.store, |tx| tx.actions()).await;
        let made: Vec<_> = actions.iter().map(|action| action.created_at).collect();
        assert_eq!(made, [4, 3, 2, 1].map(at));
        let plans = read(&opened.store, |tx| tx.plans()).await;
        let made: Vec<_> = plans
            .iter()
            .map(|plan| plan.timestamps.created_at)
            .collect();
        assert_eq!(made, [4, 3, 2, 1].map(at));
        // An update does not change the list order.
        update_action(&opened.store, &actions[3]).await.unwrap();
        let last = read(&opened.store, |tx| tx.actions()).await.pop().unwrap();
        assert_eq!((last.id, last.version), (actions[3].id, 2));
    });
}

fn missing_rows_are_not_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let id = plan_id();
    block_on(async {
        let action = opened.store.read(|tx| tx.action(&name("team/none"))).await;
        assert_missing(action, ("action", "team/none"));
        let plan = opened.store.read(move |tx| tx.plan(id)).await;
        assert_missing(plan, ("plan", &id.to_string()));
        assert_missing(find(&opened.store, "zzzz").await, ("plan", "ZZZZ"));
        assert!(read(&opened.store, |tx| tx.actions()).await.is_empty());
        assert!(read(&opened.store, |tx| tx.plans()).await.is_empty());
    });
}

fn a_taken_name_names_its_holder(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let first = action("local/one", 0);
    block_on(async {
        insert_action(&opened.store, &first).await.unwrap();
        let second = insert_action(&opened.store, &action("local/one", 1)).await;
        let holder = first.id.to_string();
        assert_taken(second, ("the action name", "local/one", &holder));
        // Names differ by case and by namespace.
        insert_action(&opened.store, &action("local/One", 2))
            .await
            .unwrap();
        insert_action(&opened.store, &action("team/one", 3))
            .await
            .unwrap();
        let same_id = Action {
            id: first.id,
            ..action("local/two", 4)
        };
        let refused = insert_action(&opened.store, &same_id).await;
        assert_taken(
            refused,
            (
                "the action name",
                "local/two",
                "another row with the same id",
            ),
        );

        let first = plan(plan_id(), 0);
        insert_plan(&opened.store, &first).await.unwrap();
        let second = Plan {
            name: first.name.clone(),
            ..plan(plan_id(), 1)
        };
        let holder = first.identity.plan_id.to_string();
        let taken = first.name.to_string();
        assert_taken(
            insert_plan(&opened.store, &second).await,
            ("the plan name", &taken, &holder),
        );
        assert_eq!(read(&opened.store, |tx| tx.actions()).await.len(), 3);
        assert_eq!(read(&opened.store, |tx| tx.plans()).await, [first]);
    });
}

fn concurrent_inserts_of_one_name_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let answers = run_concurrently(16, |_| {
            let (store, action) = (opened.store.clone(), action("local/wanted", 0));
            async move { (action.id, insert_action(&store, &action).await) }
        })
        .await;
        let winners: Vec<_> = answers
            .iter()
            .filter(|(_, answer)| answer.is_ok())
            .collect();
        assert_eq!(winners.len(), 1);
        let holder = winners[0].0.to_string();
        for (_, answer) in answers.into_iter().filter(|(_, answer)| answer.is_err()) {
            assert_taken(answer, ("the action name", "local/wanted", &holder));
        }
    });
}

fn an_update_counts_the_version_up(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let mut changed = action("local/one", 0);
    let mut moved = plan(plan_id(), 0);
    block_on(async {
        insert_action(&opened.store, &changed).await.unwrap();
        insert_plan(&opened.store, &moved).await.unwrap();
        for version in 2..=4 {
            changed.description = format!("version {version}");
            changed.state = ActionState::Available;
            changed.updated_at = at(version);
            changed.version = update_action(&opened.store, &changed).await.unwrap();
            assert_eq!(changed.version, version);
            moved.attempt += 1;
            moved.version = update_plan(&opened.store, &moved).await.unwrap();
            assert_eq!(moved.version, version);
        }
        moved = moved.make_move(Move::Cancel, at(9)).unwrap();
        moved.version = update_plan(&opened.store, &moved).await.unwrap();
        assert_eq!(read(&opened.store, |tx| tx.actions()).await, [changed]);
        assert_eq!(read(&opened.store, |tx| tx.plans()).await, [moved]);
    });
}

fn a_stale_update_is_a_conflict(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (stale, moved) = (action("local/one", 0), plan(plan_id(), 0));
    block_on(async {
        insert_action(&opened.store, &stale).await.unwrap();
        insert_plan(&opened.store, &moved).await.unwrap();
        let newer = Action {
            description: "newer".to_owned(),
            ..stale.clone()
        };
        assert_eq!(update_action(&opened.store, &newer).await.unwrap(), 2);
        assert_eq!(update_plan(&opened.store, &moved).await.unwrap(), 2);
        let refused = update_action(&opened.store, &stale).await;
        assert_conflict(refused, "action", &stale.id.to_string(), (1, 2));
        let id = moved.identity.plan_id.to_string();
        assert_conflict(
            update_plan(&opened.store, &moved).await,
            "plan",
            &id,
            (1, 2),
        );
        // A version from the future conflicts like an old one.
        let ahead = Plan {
            version: 3,
            ..moved.clone()
        };
        assert_conflict(
            update_plan(&opened.store, &ahead).await,
            "plan",
            &id,
            (3, 2),
        );
        let kept = read(&opened.store, |tx| tx.actions()).await;
        assert_eq!(
            kept,
            [Action {
                version: 2,
                ..newer
            }]
        );
    });
}

fn an_update_of_a_missing_row_is_not_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let (action, plan) = (action("local/one", 0), plan(plan_id(), 0));
    block_on(async {
        let refused = update_action(&opened.store, &action).await;
        assert_missing(refused, ("action", &action.id.to_string()));
        let refused = update_plan(&opened.store, &plan).await;
        assert_missing(refused, ("plan", &plan.identity.plan_id.to_string()));
        assert!(read(&opened.store, |tx| tx.plans()).await.is_empty());
    });
}

fn sixteen_updates_of_one_version_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let id = plan_id();
    let sample = plan(id, 0);
    block_on(async {
        insert_plan(&opened.store, &sample).await.unwrap();
        let answers = run_concurrently(16, |number| {
            let store = opened.store.clone();
            let changed = Plan {
                attempt: 100 + number as u32,
                ..sample.clone()
            };
            async move { (changed.attempt, update_plan(&store, &changed).await) }
        })
        .await;
        let mut winners = Vec::new();
        for (attempt, answer) in answers {
            match answer {
                Ok(version) => winners.push((attempt, version)),
                refused => assert_conflict(refused, "plan", &id.to_string(), (1, 2)),
            }
        }
        let found = read(&opened.store, move |tx| tx.plan(id)).await;
        assert_eq!(winners, [(found.attempt, 2)]);
        assert_eq!(found.version, 2);
    });
}

/// A plan whose id is written out.
async fn with_id(store: &StoreHandle, id: &str) -> PlanId {
    let id: PlanId = id.parse().unwrap();
    let sample = plan(id, 0);
    write(store, move |tx| tx.insert_plan(&sample)).await;
    id
}

fn a_plan_is_found_by_either_end_of_its_id(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let one = with_id(&opened.store, "01JAAAAAAA0000000000BBBBBB").await;
        let two = with_id(&opened.store, "01JCCCCCCC0000000000DDDDDD").await;
        let cases = [
            ("01JA", one),
            ("01jc", two),
            ("bbbb", one),
            ("00DDDDDD", two),
            ("00bb", one),
            ("00DDD", two),
            ("01JAAAAAAA0000000000BBBBBB", one),
        ];
        for (fragment, id) in cases {
            let found = find(&opened.store, fragment).await.unwrap();
            assert_eq!(found.identity.plan_id, id, "{fragment}");
        }
        // The middle of an id matches nothing, and a fragment that matches both ends of one plan is
        // unambiguous.
        assert_missing(find(&opened.store, "0000").await, ("plan", "0000"));
        let both = with_id(&opened.store, "01JE0000000000000000001JE0").await;
        assert_eq!(
            find(&opened.store, "01JE0").await.unwrap().identity.plan_id,
            both
        );
    });
}

fn an_ambiguous_fragment_lists_the_candidates(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let mut ids = Vec::new();
        for number in 0..25 {
            ids.push(
                with_id(
                    &opened.store,
                    &format!("01JAAAAAAA00000000000000{number:02}"),
                )
                .await,
            );
        }
        let candidates = |ids: &[PlanId]| -> Vec<String> {
            let shown = |id: &PlanId| format!("{id} (team/security-audit-{})", id.short());
            ids.iter().map(shown).collect()
        };
        let end = with_id(&opened.store, "01JBBBBBBB000000000Z000003").await;
        let two = find(&opened.store, "00003").await;
        assert!(
            matches!(&two, Err(StoreError::Ambiguous { fragment, candidates: found })
                if fragment == "00003" && *found == candidates(&[ids[3], end])),
            "{two:?}"
        );
        // Only the first twenty candidates are listed.
        let many = find(&opened.store, "01ja").await;
        assert!(
            matches!(&many, Err(StoreError::Ambiguous { fragment, candidates: found })
                if fragment == "01JA" && *found == candidates(&ids[..20])),
            "{many:?}"
        );
    });
}
