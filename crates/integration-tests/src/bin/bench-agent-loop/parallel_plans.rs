//! A hundred concurrent plans in one process, with a model latency of 50 ms.

use std::time::Instant;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{EventKind, Phase, PlanState};
use cleveragents_engine::execution::ExecuteOutcome;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::bench_environment::BenchEnvironment;
use crate::usage::{children_cpu_ms, own_cpu_ms, peak_mib};

const PLANS: usize = 100;
/// The number of model requests per plan; the last answer finishes it.
const TURNS: usize = 5;
/// The delay of each answer.
const LATENCY_MS: usize = 50;

pub(crate) fn print_header() {
    println!(
        "\n{PLANS} plans at once, {TURNS} answers each, {LATENCY_MS} ms an answer; ideal is what the \
         answers alone take"
    );
    println!(
        "{:>11} {:>9} {:>9} {:>6} {:>9} {:>9} {:>10} {:>12} {:>5}",
        "concurrency", "ideal", "wall", "ratio", "own CPU", "git's", "peak", "operations", "lost"
    );
}

pub(crate) fn measure(concurrency: u32) -> Value {
    runtime().block_on(run(concurrency))
}

/// Configured like the program's runtime.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

async fn run(concurrency: u32) -> Value {
    let environment = BenchEnvironment::open(&script()).await;
    let mut plans = Vec::new();
    for _ in 0..PLANS {
        plans.push(environment.create_plan().await);
    }
    let executor = environment.executor(environment.scripted_models(), concurrency);
    let before = (own_cpu_ms(), children_cpu_ms());
    let begun = Instant::now();
    let mut work = JoinSet::new();
    for plan in plans.clone() {
        let executor = executor.clone();
        work.spawn(async move { executor.execute(plan, "bench").await });
    }
    let ended = work.join_all().await;
    let wall = begun.elapsed().as_secs_f64() * 1e3;
    let (own, git) = (own_cpu_ms() - before.0, children_cpu_ms() - before.1);
    for end in ended {
        let end = end.expect("it is executed");
        assert!(matches!(end, ExecuteOutcome::Complete { .. }), "{end:?}");
    }
    let mut lost = Vec::new();
    for plan in plans {
        let expected = RecordCounts {
            calls: TURNS,
            answers: TURNS,
            changes: TURNS - 1,
        };
        lost.extend(check_records(&environment, plan, expected).await);
    }
    let statistics = environment.opened.database.statistics().await;
    let operations = statistics.expect("an answer").operations;
    let at_once = PLANS.min(concurrency as usize);
    let ideal = (PLANS * TURNS * LATENCY_MS) as f64 / at_once as f64;
    let (ratio, peak) = (wall / ideal, peak_mib());
    println!(
        "{concurrency:>11} {ideal:>6.0} ms {wall:>6.0} ms {ratio:>6.2} {own:>6.0} ms {git:>6.0} ms \
         {peak:>6.1} MiB {operations:>12} {:>5}",
        lost.len()
    );
    assert!(lost.is_empty(), "{lost:?}");
    json!({
        "ideal_ms": ideal,
        "wall_ms": wall,
        "ratio": ratio,
        "own_cpu_ms": own,
        "git_cpu_ms": git,
        "peak_mib": peak,
        "operations": operations,
        "lost": lost.len(),
    })
}

/// The records that a plan must have left.
pub(crate) struct RecordCounts {
    pub(crate) calls: usize,
    pub(crate) answers: usize,
    pub(crate) changes: usize,
}

/// Returns where the records of an executed plan differ from its script: tool calls, model answers
/// and changes.
pub(crate) async fn check_records(
    environment: &BenchEnvironment,
    plan: PlanId,
    counts: RecordCounts,
) -> Vec<String> {
    let RecordCounts {
        calls,
        answers,
        changes,
    } = counts;
    let found = environment.count_records(plan).await;
    let expected = [
        ("rows of tool calls".to_owned(), calls),
        ("rows of model calls".to_owned(), answers),
        ("rows of changes".to_owned(), changes),
        (EventKind::ToolInvoked.to_string(), calls),
        (EventKind::ToolCompleted.to_string(), calls),
        (EventKind::ModelAsked.to_string(), answers),
        (EventKind::ModelAnswered.to_string(), answers),
        (EventKind::ChangeRecorded.to_string(), changes),
    ];
    let mut lost = Vec::new();
    for (what, expected) in expected {
        let found = found.get(&what).copied().unwrap_or_default();
        if found != expected {
            lost.push(format!("plan {plan}: {found} {what} instead of {expected}"));
        }
    }
    let at = environment.reload_plan(plan).await.position;
    if (at.phase(), at.state()) != (Phase::Execute, PlanState::Complete) {
        lost.push(format!("plan {plan} is at {at}"));
    }
    lost
}

fn script() -> String {
    let mut text = String::from("turns:\n");
    for turn in 1..TURNS {
        text.push_str(&format!(
            "  - delay_ms: {LATENCY_MS}\n    tool_calls:\n      \
             - {{tool: builtin/file-write, input: {{path: notes/{turn}.txt, content: \"turn {turn}\\n\"}}}}\n"
        ));
    }
    text.push_str(&format!(
        "  - delay_ms: {LATENCY_MS}\n    tool_calls: [{{tool: builtin/finish, input: {{summary: Written}}}}]\n"
    ));
    text
}
