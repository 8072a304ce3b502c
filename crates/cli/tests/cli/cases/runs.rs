//! `agents run` and `agents plan resume`.

use super::{SnapshotCase, case};
use crate::environment::TestEnvironment;
use crate::executed_plan::{PLAN_PLACEHOLDER, create_plan, with_executed_plan, with_plan};

pub(super) const CASES: &[SnapshotCase] = &[
    case("run", "", &["run"], |_| {}),
    case("run", "empty", &["run", "  "], |_| {}),
    case("run", "unknown", &["run", "local/tydi-up"], with_plan),
    case(
        "run",
        "no-model",
        &["run", "tidy up", "--path", "shop"],
        with_plan,
    ),
    case(
        "run",
        "no-folder",
        &["run", "tidy up", "--path", "moon"],
        |_| {},
    ),
    case(
        "plan resume",
        "",
        &["plan", "resume", PLAN_PLACEHOLDER],
        with_strategy,
    ),
    case(
        "plan resume",
        "dry-run",
        &["plan", "resume", PLAN_PLACEHOLDER, "--dry-run"],
        with_plan,
    ),
    case(
        "plan resume",
        "dry-run-executed",
        &["plan", "resume", PLAN_PLACEHOLDER, "--dry-run"],
        with_executed_plan,
    ),
    case(
        "plan resume",
        "executed",
        &["plan", "resume", PLAN_PLACEHOLDER],
        with_executed_plan,
    ),
    case(
        "plan tree",
        "executed",
        &["plan", "tree", PLAN_PLACEHOLDER],
        with_executed_plan,
    ),
    case(
        "actor run",
        "tool",
        &["actor", "run", "local/tidy", "Hello"],
        with_plan,
    ),
    case(
        "actor run",
        "no-model",
        &["actor", "run", "builtin/coder", "Hello"],
        |_| {},
    ),
    case(
        "actor run",
        "",
        &["actor", "run", "local/talker", "Hello"],
        with_scripted_actor,
    ),
];

/// A plan whose strategy waits for approval.
fn with_strategy(environment: &mut TestEnvironment) {
    let plan = create_plan(environment);
    let run = environment.run(&["plan", "execute", &plan]);
    assert_eq!(run.code, Some(5));
}

/// An actor with a scripted model.
fn with_scripted_actor(environment: &mut TestEnvironment) {
    environment.write(
        "work/talker.yaml",
        "name: local/talker\ntype: llm\ndescription: Talks\nprovider: scripted\nmodel: lines.yaml\n",
    );
    environment.write(
        "work/lines.yaml",
        "turns:\n  - text: Good evening.\n    usage: {input_tokens: 7, output_tokens: 3}\n",
    );
    let added = environment.run(&["actor", "add", "--config", "talker.yaml"]);
    added.succeeded();
}
