//! Commands about the results of plans.

use super::{SnapshotCase, case};
use crate::executed_plan::{PLAN_PLACEHOLDER, with_executed_plan, with_plan};

pub(super) const CASES: &[SnapshotCase] = &[
    case(
        "plan diff",
        "",
        &["plan", "diff", PLAN_PLACEHOLDER],
        with_executed_plan,
    ),
    case(
        "diff",
        "",
        &["diff", PLAN_PLACEHOLDER, "--stat"],
        with_executed_plan,
    ),
    case(
        "plan diff",
        "stat",
        &["plan", "diff", PLAN_PLACEHOLDER, "--stat"],
        with_executed_plan,
    ),
    case(
        "plan diff",
        "patch",
        &[
            "plan",
            "diff",
            PLAN_PLACEHOLDER,
            "--patch",
            "--file",
            "cart.txt",
        ],
        with_executed_plan,
    ),
    case(
        "plan diff",
        "file",
        &[
            "plan",
            "diff",
            PLAN_PLACEHOLDER,
            "--file",
            "docs",
            "kept/new name.txt",
        ],
        with_executed_plan,
    ),
    case(
        "plan diff",
        "not-changed",
        &["plan", "diff", PLAN_PLACEHOLDER, "--file", "docs/note.md"],
        with_executed_plan,
    ),
    case(
        "plan diff",
        "no-resource",
        &["plan", "diff", PLAN_PLACEHOLDER, "--resource", "bank"],
        with_executed_plan,
    ),
    case(
        "plan diff",
        "nothing",
        &["plan", "diff", PLAN_PLACEHOLDER],
        with_plan,
    ),
    case(
        "plan artifacts",
        "",
        &["plan", "artifacts", PLAN_PLACEHOLDER],
        with_executed_plan,
    ),
    case(
        "plan artifacts",
        "none",
        &["plan", "artifacts", PLAN_PLACEHOLDER],
        with_plan,
    ),
    case(
        "plan reject",
        "",
        &[
            "plan",
            "reject",
            PLAN_PLACEHOLDER,
            "docs/notes.md",
            "--why",
            "not asked for",
        ],
        with_executed_plan,
    ),
    case(
        "plan reject",
        "no-hunk",
        &[
            "plan",
            "reject",
            PLAN_PLACEHOLDER,
            "cart.txt:3",
            "--why",
            "not asked for",
        ],
        with_executed_plan,
    ),
    case(
        "plan reject",
        "too-early",
        &[
            "plan",
            "reject",
            PLAN_PLACEHOLDER,
            "cart.txt",
            "--why",
            "not asked for",
        ],
        with_plan,
    ),
];
