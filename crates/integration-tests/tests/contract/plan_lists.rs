//! Lists of plans: filters, pages and counts; and a plan locked for an update.

use std::collections::BTreeMap;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Move, Phase, Plan, PlanState};
use cleveragents_integration_tests::assertions::assert_missing;
use cleveragents_integration_tests::lifecycle_samples::{store_plan, store_sample_plan};
use cleveragents_integration_tests::samples::{at, name, plan, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{PlanCursor, PlanFilter, PlanPage, StoreHandle};

contract! {
    a_filter_finds_exactly_its_matches,
    pages_follow_each_other_without_gap_or_repeat,
    a_move_changes_which_lists_a_plan_is_in,
    counts_are_exact_while_plans_move,
    sixteen_read_change_write_rounds_lose_nothing,
    a_missing_plan_cannot_be_locked,
}

async fn list(store: &StoreHandle, filter: PlanFilter) -> PlanPage {
    read(store, move |tx| tx.list_plans(&filter)).await
}

fn ids(page: &PlanPage) -> Vec<PlanId> {
    page.plans
        .iter()
        .map(|plan| plan.identity.plan_id)
        .collect()
}

/// Four plans, newest last: two actions, two projects, three positions.
async fn four_plans(store: &StoreHandle) -> Vec<Plan> {
    let mut plans: Vec<Plan> = (0..4).map(|number| plan(plan_id(), number)).collect();
    plans[0].brief.action_name = name("local/lint");
    plans[1].brief.projects = vec![name("local/shop")];
    plans[2].brief.projects = vec![name("local/bank"), name("local/bank")];
    plans[3] = plans[3].make_move(Move::Cancel, at(9)).unwrap();
    for plan in &plans {
        store_plan(store, plan.clone()).await;
    }
    plans
}

/// Filters, and which of the four plans they match.
fn filters() -> Vec<(PlanFilter, Vec<usize>)> {
    let by_phase = |phase| PlanFilter {
        phase: Some(phase),
        ..PlanFilter::default()
    };
    let by_state = |state| PlanFilter {
        state: Some(state),
        ..PlanFilter::default()
    };
    let by_project = |text| PlanFilter {
        projects: vec![name(text)],
        ..PlanFilter::default()
    };
    let by_projects = |texts: &[&str]| PlanFilter {
        projects: texts.iter().map(|text| name(text)).collect(),
        ..PlanFilter::default()
    };
    let by_action = |text| PlanFilter {
        action: Some(name(text)),
        ..PlanFilter::default()
    };
    let by_all = PlanFilter {
        phase: Some(Phase::Execute),
        state: Some(PlanState::Processing),
        action: Some(name("team/security-audit")),
        ..by_project("bank")
    };
    vec![
        (PlanFilter::default(), vec![3, 2, 1, 0]),
        (by_phase(Phase::Execute), vec![3, 2, 1, 0]),
        (by_phase(Phase::Apply), vec![]),
        (by_state(PlanState::Cancelled), vec![3]),
        (by_project("shop"), vec![3, 1, 0]),
        (by_project("bank"), vec![3, 2, 0]),
        (by_project("team/shop"), vec![]),
        (by_projects(&["shop", "bank"]), vec![3, 2, 1, 0]),
        (by_projects(&["bank", "team/shop"]), vec![3, 2, 0]),
        (by_action("team/security-audit"), vec![3, 2, 1]),
        (by_all, vec![2]),
    ]
}

fn a_filter_finds_exactly_its_matches(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plans = four_plans(&opened.store).await;
        for (filter, wanted) in filters() {
            let page = list(&opened.store, filter.clone()).await;
            let wanted: Vec<Plan> = wanted.iter().map(|number| plans[*number].clone()).collect();
            let mut by_state: BTreeMap<PlanState, u64> = BTreeMap::new();
            for plan in &wanted {
                *by_state.entry(plan.position.state()).or_default() += 1;
            }
            assert_eq!(page.total, wanted.len() as u64, "{filter:?}");
            assert_eq!(page.by_state, by_state, "{filter:?}");
            assert_eq!(page.plans, wanted, "{filter:?}");
        }
    });
}

fn pages_follow_each_other_without_gap_or_repeat(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        // Two per second: only their ids define the order.
        for number in 0..10 {
            store_plan(&opened.store, plan(plan_id(), number / 2)).await;
        }
        let lists = [
            vec![],
            vec![name("local/shop")],
            vec![name("local/bank"), name("local/shop")],
        ];
        for projects in lists {
            let filter = PlanFilter {
                projects,
                ..PlanFilter::default()
            };
            let all = list(&opened.store, filter.clone()).await;
            assert_eq!((all.plans.len(), all.total), (10, 10));
            let mut paged = Vec::new();
            let mut next = PlanFilter {
                limit: Some(3),
                ..filter
            };
            loop {
                let page = list(&opened.store, next.clone()).await;
                assert_eq!((page.total, &page.by_state), (10, &all.by_state));
                let Some(last) = page.plans.last() else {
                    break;
                };
                next.before = Some(PlanCursor::from(last));
                paged.extend(page.plans);
            }
            assert_eq!(paged, all.plans);
        }
        let none = PlanFilter {
            limit: Some(0),
            ..PlanFilter::default()
        };
        let page = list(&opened.store, none).await;
        assert_eq!((page.plans.len(), page.total), (0, 10));
    });
}

fn a_move_changes_which_lists_a_plan_is_in(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let id = plan_id();
    let sample = plan(id, 0);
    let in_state = |state| PlanFilter {
        state: Some(state),
        ..PlanFilter::default()
    };
    block_on(async {
        store_plan(&opened.store, sample.clone()).await;
        assert_eq!(
            ids(&list(&opened.store, in_state(PlanState::Processing)).await),
            [id]
        );
        let moved = sample.make_move(Move::Complete, at(9)).unwrap();
        write(&opened.store, move |tx| tx.update_plan(&moved)).await;
        assert!(ids(&list(&opened.store, in_state(PlanState::Processing)).await).is_empty());
        let complete = list(&opened.store, in_state(PlanState::Complete)).await;
        assert_eq!((ids(&complete), complete.plans[0].version), (vec![id], 2));
    });
}

/// Filters that match all the sample plans.
fn filters_matching_all() -> [PlanFilter; 4] {
    let asked = |project: Option<&str>, action: Option<&str>| PlanFilter {
        projects: project.map(name).into_iter().collect(),
        action: action.map(name),
        ..PlanFilter::default()
    };
    let audit = Some("team/security-audit");
    [
        asked(None, None),
        asked(Some("local/shop"), None),
        asked(None, audit),
        asked(Some("local/bank"), audit),
    ]
}

/// Every count of a project or action covers all its plans in one snapshot, never half a move.
fn counts_are_exact_while_plans_move(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let filters = filters_matching_all();
    block_on(async {
        let mut plans = Vec::new();
        for number in 0..24 {
            plans.push(plan(plan_id(), number));
            store_plan(&opened.store, plans[plans.len() - 1].clone()).await;
        }
        run_concurrently(16, |task| {
            let (store, filters) = (opened.store.clone(), filters.clone());
            let own: Vec<Plan> = plans.iter().skip(task).step_by(8).cloned().collect();
            async move {
                if task >= 8 {
                    for filter in filters.iter().cycle().take(12) {
                        let page = list(&store, filter.clone()).await;
                        let counted: u64 = page.by_state.values().sum();
                        assert_eq!((page.total, counted, page.plans.len()), (24, 24, 24));
                    }
                    return;
                }
                for plan in own {
                    write(&store, move |tx| {
                        let found = tx.plan_for_update(plan.identity.plan_id)?;
                        let moved = found.make_move(Move::Complete, at(9)).unwrap();
                        tx.update_plan(&moved)
                    })
                    .await;
                }
            }
        })
        .await;
        let complete = BTreeMap::from([(PlanState::Complete, 24)]);
        for filter in filters {
            assert_eq!(list(&opened.store, filter.clone()).await.by_state, complete);
            let processing = PlanFilter {
                state: Some(PlanState::Processing),
                ..filter.clone()
            };
            let none = list(&opened.store, processing).await;
            assert_eq!((none.total, none.plans.len()), (0, 0), "{filter:?}");
        }
        // Deleted plans are not counted.
        let gone = read(&opened.store, move |tx| tx.plan(plans[0].identity.plan_id)).await;
        write(&opened.store, move |tx| tx.delete_plan(&gone)).await;
        let [_, shop, ..] = filters_matching_all();
        assert_eq!(list(&opened.store, shop).await.total, 23);
    });
}

fn sixteen_read_change_write_rounds_lose_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let id = store_sample_plan(&opened.store).await;
        let before = read(&opened.store, move |tx| tx.plan(id)).await;
        run_concurrently(16, |_| {
            let store = opened.store.clone();
            async move {
                // The row is locked between the read and the write, so there is no conflict.
                write(&store, move |tx| {
                    let mut plan = tx.plan_for_update(id)?;
                    plan.attempt += 1;
                    tx.update_plan(&plan)
                })
                .await
            }
        })
        .await;
        let after = read(&opened.store, move |tx| tx.plan(id)).await;
        assert_eq!((after.attempt, after.version), (before.attempt + 16, 17));
    });
}

fn a_missing_plan_cannot_be_locked(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let id = plan_id();
    block_on(async {
        let answer = opened
            .store
            .write(
                cleveragents_integration_tests::test_database::new_operation("test.lock"),
                move |tx| tx.plan_for_update(id),
            )
            .await;
        assert_missing(answer, ("plan", &id.to_string()));
    });
}
