//! Model calls: numbered when they start, ended once; their reservation counts from the start.

use cleveragents_domain::id::{CheckpointId, ModelCallId, PlanId};
use cleveragents_domain::model::Usage;
use cleveragents_domain::model_call::{
    ModelCallEnd, ModelCallRecord, ModelCallState, ModelSpend, ModelTotals, NewModelCall,
};
use cleveragents_integration_tests::assertions::{
    assert_conflict, assert_missing, assert_one_winner, assert_taken,
};
use cleveragents_integration_tests::execution_samples::{conversation, model_call};
use cleveragents_integration_tests::lifecycle_samples::store_sample_plan;
use cleveragents_integration_tests::samples::{name, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Ids, Result, StoreHandle};

contract! {
    a_model_call_is_recorded_from_start_to_end,
    a_model_call_needs_a_plan,
    concurrent_model_call_ends_have_one_winner,
    concurrent_model_calls_are_numbered_without_gaps,
    the_newest_valid_call_of_a_conversation_is_found,
    reserved_usage_counts_until_settled,
    reported_and_estimated_usage_are_added_up_apart,
    a_rollback_undoes_later_model_calls,
}

async fn begin(store: &StoreHandle, call: &NewModelCall) -> Result<ModelCallRecord> {
    let call = call.clone();
    try_write(store, move |tx| tx.begin_model_call(&call)).await
}

async fn end(store: &StoreHandle, id: ModelCallId, end: ModelCallEnd) -> Result<ModelCallRecord> {
    try_write(store, move |tx| tx.end_model_call(id, &end)).await
}

async fn model_calls(store: &StoreHandle, plan: PlanId) -> Vec<ModelCallRecord> {
    read(store, move |tx| tx.model_calls_after(plan, 0, u32::MAX)).await
}

async fn model_totals(store: &StoreHandle, plan: PlanId) -> ModelTotals {
    read(store, move |tx| tx.model_totals(plan)).await
}

fn call_end(state: ModelCallState) -> ModelCallEnd {
    ModelCallEnd {
        state,
        answer: Some("f".repeat(64)),
        usage: Usage {
            input_tokens: 10,
            output_tokens: 5,
            cached_tokens: 3,
            cache_written_tokens: 1,
        },
        spent: ModelSpend {
            tokens: 15,
            usd: Some(0.125),
        },
        is_estimate: false,
        error: Some("kein \0 Netz".to_owned()),
    }
}

fn a_model_call_is_recorded_from_start_to_end(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let call = model_call(plan);
        let begun = begin(&opened.store, &call).await.unwrap();
        let wanted = ModelCallRecord {
            call: call.clone(),
            number: 1,
            ordinal: 0,
            state: ModelCallState::Asked,
            answer: None,
            usage: Usage::default(),
            spent: call.reserved,
            is_estimate: true,
            error: None,
            started_at: begun.started_at,
            finished_at: None,
            undone_by: None,
        };
        assert_eq!(begun, wanted);
        assert_eq!(
            model_calls(&opened.store, plan).await,
            std::slice::from_ref(&wanted)
        );
        let unfinished = read(&opened.store, move |tx| tx.unfinished_model_calls(plan)).await;
        assert_eq!(unfinished, std::slice::from_ref(&wanted));
        let how = call_end(ModelCallState::Failed);
        let finished = end(&opened.store, call.id, how.clone()).await.unwrap();
        assert!(finished.finished_at.unwrap() >= finished.started_at);
        let wanted = ModelCallRecord {
            state: ModelCallState::Failed,
            answer: how.answer,
            usage: how.usage,
            spent: how.spent,
            is_estimate: how.is_estimate,
            error: how.error,
            finished_at: finished.finished_at,
            ..wanted
        };
        assert_eq!(finished, wanted);
        assert_eq!(
            model_calls(&opened.store, plan).await,
            std::slice::from_ref(&wanted)
        );
        let again = end(&opened.store, call.id, call_end(ModelCallState::Answered)).await;
        assert_conflict(again, ("model call", 1, 2));
        assert_eq!(model_calls(&opened.store, plan).await, [wanted]);
    });
}

fn a_model_call_needs_a_plan(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let unowned = plan_id();
        assert_missing(
            begin(&opened.store, &model_call(unowned)).await,
            ("plan", &unowned.to_string()),
        );
        let plan = store_sample_plan(&opened.store).await;
        let call = model_call(plan);
        begin(&opened.store, &call).await.unwrap();
        assert_taken(
            begin(&opened.store, &call).await,
            ("the model call id", &call.id.to_string(), "another call"),
        );
        let unknown = ModelCallId::new(SystemIds.next());
        assert_missing(
            end(&opened.store, unknown, call_end(ModelCallState::Answered)).await,
            ("model call", &unknown.to_string()),
        );
    });
}

fn concurrent_model_call_ends_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let call = begin(&opened.store, &model_call(plan)).await.unwrap();
        let ends = run_concurrently(16, |_| {
            let (store, id) = (opened.store.clone(), call.call.id);
            async move { end(&store, id, call_end(ModelCallState::Answered)).await }
        })
        .await;
        assert_one_winner(ends);
        assert_eq!(model_totals(&opened.store, plan).await.counted().tokens, 15);
    });
}

fn concurrent_model_calls_are_numbered_without_gaps(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let begun = run_concurrently(16, |number| {
            let store = opened.store.clone();
            async move {
                let actor = name(["local/coder", "local/planner"][number % 2]);
                let call = NewModelCall {
                    actor,
                    ..model_call(plan)
                };
                begin(&store, &call).await.unwrap()
            }
        })
        .await;
        let sorted = |mut numbers: Vec<i64>| {
            numbers.sort_unstable();
            numbers
        };
        let numbers = begun.iter().map(|it| it.number).collect();
        assert_eq!(sorted(numbers), (1..=16).collect::<Vec<i64>>());
        for actor in ["local/coder", "local/planner"] {
            let of_actor = begun.iter().filter(|it| it.call.actor == name(actor));
            let ordinals = of_actor.map(|it| i64::try_from(it.ordinal).unwrap());
            assert_eq!(sorted(ordinals.collect()), (0..8).collect::<Vec<i64>>());
        }
    });
}

fn the_newest_valid_call_of_a_conversation_is_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let store = &opened.store;
        let plan = store_sample_plan(store).await;
        let newest = move |step| {
            let store = store.clone();
            async move {
                let found = read(&store, move |tx| {
                    tx.newest_model_call(plan, &conversation(step))
                });
                found.await.map(|it| it.number)
            }
        };
        assert_eq!(newest(1).await, None);
        let states = [
            ModelCallState::Failed,
            ModelCallState::Answered,
            ModelCallState::Answered,
            ModelCallState::Interrupted,
        ];
        for (state, number) in states.into_iter().zip(1..) {
            let call = begin(store, &model_call(plan)).await.unwrap();
            assert_eq!(newest(1).await, Some(number), "asked");
            end(store, call.call.id, call_end(state)).await.unwrap();
            assert_eq!(newest(1).await, Some(number), "{state}");
        }
        assert_eq!(newest(2).await, None, "another conversation");
    });
}

fn reserved_usage_counts_until_settled(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let store = &opened.store;
        let (plan, other) = (
            store_sample_plan(store).await,
            store_sample_plan(store).await,
        );
        assert_eq!(model_totals(store, plan).await, ModelTotals::default());
        let call = begin(store, &model_call(plan)).await.unwrap();
        begin(store, &model_call(plan)).await.unwrap();
        begin(store, &model_call(other)).await.unwrap();
        let reserved = ModelTotals {
            estimated_tokens: 2000,
            estimated_usd: 0.5,
            ..ModelTotals::default()
        };
        assert_eq!(model_totals(store, plan).await, reserved);
        end(store, call.call.id, call_end(ModelCallState::Answered))
            .await
            .unwrap();
        let settled = ModelTotals {
            reported: Usage {
                input_tokens: 10,
                output_tokens: 5,
                cached_tokens: 3,
                cache_written_tokens: 0,
            },
            reported_usd: 0.125,
            estimated_tokens: 1000,
            estimated_usd: 0.25,
            ..ModelTotals::default()
        };
        assert_eq!(model_totals(store, plan).await, settled);
        let counted = ModelSpend {
            tokens: 1015,
            usd: Some(0.375),
        };
        assert_eq!(settled.counted(), counted);
    });
}

/// Ends of model calls, each with whether its price is known.
fn priced_and_unpriced_ends() -> Vec<(ModelCallEnd, bool)> {
    let reported = call_end(ModelCallState::Answered);
    let refused = ModelCallEnd {
        usage: Usage::default(),
        spent: ModelSpend {
            tokens: 0,
            usd: Some(0.0),
        },
        ..call_end(ModelCallState::Failed)
    };
    let broken = ModelCallEnd {
        is_estimate: true,
        ..call_end(ModelCallState::Failed)
    };
    let unpriced = |end: &ModelCallEnd| ModelCallEnd {
        spent: ModelSpend {
            usd: None,
            ..end.spent
        },
        ..end.clone()
    };
    vec![
        (reported.clone(), true),
        (refused.clone(), true),
        (broken.clone(), true),
        (unpriced(&refused), false),
        (unpriced(&reported), false),
        (unpriced(&broken), false),
    ]
}

fn reported_and_estimated_usage_are_added_up_apart(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let store = &opened.store;
        let plan = store_sample_plan(store).await;
        let mut wanted = ModelTotals::default();
        for (ended, is_priced) in priced_and_unpriced_ends() {
            let reserved = ModelSpend {
                tokens: 1000,
                usd: is_priced.then_some(0.25),
            };
            let call = NewModelCall {
                reserved,
                ..model_call(plan)
            };
            let call = begin(store, &call).await.unwrap();
            end(store, call.call.id, ended.clone()).await.unwrap();
            let (tokens, usd) = (ended.spent.tokens, ended.spent.usd.unwrap_or(0.0));
            if ended.is_estimate {
                wanted.estimated_tokens += tokens;
                wanted.estimated_usd += usd;
                wanted.has_unpriced_estimate |= !is_priced;
            } else {
                wanted.reported.input_tokens += ended.usage.input_tokens;
                wanted.reported.output_tokens += ended.usage.output_tokens;
                wanted.reported.cached_tokens += ended.usage.cached_tokens;
                wanted.reported_usd += usd;
                // What cost nothing has no price to know.
                wanted.has_unpriced_usage |= !is_priced && tokens > 0;
            }
            assert_eq!(model_totals(store, plan).await, wanted, "{ended:?}");
        }
        assert_eq!(wanted.counted().tokens, 60);
    });
}

fn a_rollback_undoes_later_model_calls(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let store = &opened.store;
        let plan = store_sample_plan(store).await;
        for after_call in [0, 2, 4] {
            let call = NewModelCall {
                after_call,
                ..model_call(plan)
            };
            let begun = begin(store, &call).await.unwrap();
            end(store, begun.call.id, call_end(ModelCallState::Answered))
                .await
                .unwrap();
        }
        let by = CheckpointId::new(SystemIds.next());
        let undone = write(store, move |tx| tx.undo_model_calls(plan, 2, by)).await;
        assert_eq!(undone, 2);
        let standing = |calls: &[ModelCallRecord]| -> Vec<i64> {
            let standing = calls.iter().filter(|it| it.undone_by.is_none());
            standing.map(|it| it.number).collect()
        };
        assert_eq!(standing(&model_calls(store, plan).await), [1]);
        let newest = read(store, move |tx| {
            tx.newest_model_call(plan, &conversation(1))
        })
        .await;
        assert_eq!(newest.map(|it| it.number), Some(1));
        let paid = model_totals(store, plan).await.counted();
        assert_eq!(paid.tokens, 45, "what was paid stays paid");
        write(store, move |tx| tx.redo(plan, by)).await;
        assert_eq!(standing(&model_calls(store, plan).await), [1, 2, 3]);
    });
}
