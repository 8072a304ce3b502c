//! Tool calls: numbered when they start, ended once.

use cleveragents_domain::id::{PlanId, ToolCallId};
use cleveragents_domain::tool_call::{NewToolCall, ToolCallEnd, ToolCallRecord, ToolCallState};
use cleveragents_integration_tests::assertions::{
    assert_conflict, assert_missing, assert_one_winner, assert_taken,
};
use cleveragents_integration_tests::execution_samples::{process, store_sandbox, tool_call, tree};
use cleveragents_integration_tests::samples::plan_id;
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Ids, Result, StoreHandle};
use serde_json::json;

contract! {
    a_call_is_recorded_from_start_to_end,
    a_call_needs_its_plan_and_sandbox,
    concurrent_call_ends_have_one_winner,
    concurrent_calls_are_numbered_without_gaps,
    calls_are_read_in_pages_and_counted_by_step,
}

async fn begin(store: &StoreHandle, call: &NewToolCall) -> Result<ToolCallRecord> {
    let call = call.clone();
    try_write(store, move |tx| tx.begin_tool_call(&call)).await
}

async fn end(store: &StoreHandle, id: ToolCallId, end: ToolCallEnd) -> Result<ToolCallRecord> {
    try_write(store, move |tx| tx.end_tool_call(id, &end)).await
}

async fn mark_process(store: &StoreHandle, id: ToolCallId) -> Result<()> {
    try_write(store, move |tx| tx.set_tool_call_process(id, &process())).await
}

async fn get(store: &StoreHandle, id: ToolCallId) -> ToolCallRecord {
    read(store, move |tx| tx.tool_call(id)).await
}

async fn unfinished(store: &StoreHandle, plan: PlanId) -> Vec<i64> {
    let found = read(store, move |tx| tx.unfinished_tool_calls(plan)).await;
    found.iter().map(|call| call.number).collect()
}

fn call_end(state: ToolCallState) -> ToolCallEnd {
    ToolCallEnd {
        state,
        output: Some(json!({ "text": "so \0 \u{fdd0}", "lines": [1, null] })),
        error: Some("kein \0 Netz".to_owned()),
        tree_after: tree('e'),
    }
}

fn a_call_is_recorded_from_start_to_end(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let call = tool_call(plan, sandbox);
        let begun = begin(&opened.store, &call).await.unwrap();
        let wanted = ToolCallRecord {
            call: call.clone(),
            number: 1,
            state: ToolCallState::Invoked,
            process: None,
            output: None,
            error: None,
            tree_after: None,
            started_at: begun.started_at,
            finished_at: None,
            undone_by: None,
        };
        assert_eq!(begun, wanted);
        assert_eq!(get(&opened.store, call.id).await, wanted);
        assert_eq!(unfinished(&opened.store, plan).await, [1]);
        mark_process(&opened.store, call.id).await.unwrap();
        let how = call_end(ToolCallState::Errored);
        let finished = end(&opened.store, call.id, how.clone()).await.unwrap();
        assert!(finished.finished_at.unwrap() >= finished.started_at);
        let wanted = ToolCallRecord {
            state: ToolCallState::Errored,
            process: Some(process()),
            output: how.output,
            error: how.error,
            tree_after: Some(how.tree_after),
            finished_at: finished.finished_at,
            ..wanted
        };
        assert_eq!(finished, wanted);
        assert_eq!(get(&opened.store, call.id).await, wanted);
        assert!(unfinished(&opened.store, plan).await.is_empty());
        // An ended call cannot be changed.
        let again = end(&opened.store, call.id, call_end(ToolCallState::Completed)).await;
        assert_conflict(again, ("tool call", 1, 2));
        assert_conflict(
            mark_process(&opened.store, call.id).await,
            ("tool call", 1, 2),
        );
        assert_eq!(get(&opened.store, call.id).await, wanted);
    });
}

fn a_call_needs_its_plan_and_sandbox(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let (_, foreign) = store_sandbox(&opened.store).await;
        assert_missing(
            begin(&opened.store, &tool_call(plan, foreign)).await,
            ("sandbox of this plan", &foreign.to_string()),
        );
        let unowned = plan_id();
        assert_missing(
            begin(&opened.store, &tool_call(unowned, sandbox)).await,
            ("plan", &unowned.to_string()),
        );
        let call = tool_call(plan, sandbox);
        begin(&opened.store, &call).await.unwrap();
        assert_taken(
            begin(&opened.store, &call).await,
            ("the tool call id", &call.id.to_string(), "another call"),
        );
        let unknown = ToolCallId::new(SystemIds.next());
        let missing = ("tool call", &*unknown.to_string());
        assert_missing(mark_process(&opened.store, unknown).await, missing);
        let ending = end(&opened.store, unknown, call_end(ToolCallState::Completed)).await;
        assert_missing(ending, missing);
        let found = opened.store.read(move |tx| tx.tool_call(unknown)).await;
        assert_missing(found, missing);
        // Refused calls left no gap.
        let next = begin(&opened.store, &tool_call(plan, sandbox))
            .await
            .unwrap();
        assert_eq!(next.number, 2);
    });
}

fn concurrent_call_ends_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let call = tool_call(plan, sandbox);
        begin(&opened.store, &call).await.unwrap();
        let answers = run_concurrently(16, |task| {
            let (store, id) = (opened.store.clone(), call.id);
            async move {
                let how = ToolCallEnd {
                    output: Some(json!(task)),
                    ..call_end(ToolCallState::Interrupted)
                };
                end(&store, id, how).await
            }
        })
        .await;
        let (winner, refused) = assert_one_winner(answers);
        for error in refused {
            assert_conflict::<()>(Err(error), ("tool call", 1, 2));
        }
        assert_eq!(get(&opened.store, call.id).await, winner);
    });
}

fn concurrent_calls_are_numbered_without_gaps(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let numbers = run_concurrently(16, |_| {
            let store = opened.store.clone();
            async move {
                let mut numbers = Vec::new();
                for _ in 0..5 {
                    let begun = begin(&store, &tool_call(plan, sandbox)).await.unwrap();
                    numbers.push(begun.number);
                }
                numbers
            }
        })
        .await;
        assert!(numbers.iter().all(|mine| mine.is_sorted()));
        let mut numbers: Vec<i64> = numbers.into_iter().flatten().collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=80).collect::<Vec<i64>>());
        assert_eq!(unfinished(&opened.store, plan).await, numbers);
    });
}

fn calls_are_read_in_pages_and_counted_by_step(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let (other, elsewhere) = store_sandbox(&opened.store).await;
        begin(&opened.store, &tool_call(other, elsewhere))
            .await
            .unwrap();
        let steps = [
            (1, Some(1)),
            (1, Some(2)),
            (2, Some(1)),
            (1, Some(2)),
            (1, None),
        ];
        for (attempt, step) in steps {
            let call = NewToolCall {
                attempt,
                step,
                ..tool_call(plan, sandbox)
            };
            begin(&opened.store, &call).await.unwrap();
        }
        let page = read(&opened.store, move |tx| tx.tool_calls_after(plan, 1, 3)).await;
        let message: Vec<(i64, u32, Option<u32>)> = page
            .iter()
            .map(|it| (it.number, it.call.attempt, it.call.step))
            .collect();
        assert_eq!(message, [(2, 1, Some(2)), (3, 2, Some(1)), (4, 1, Some(2))]);
        let count = |step| {
            let store = opened.store.clone();
            async move { read(&store, move |tx| tx.count_tool_calls(plan, step)).await }
        };
        assert_eq!(count(None).await, 5);
        assert_eq!(count(Some((1, 2))).await, 2);
        assert_eq!(count(Some((2, 1))).await, 1);
        assert_eq!(count(Some((2, 2))).await, 0);
    });
}
