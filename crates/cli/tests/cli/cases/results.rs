//! Commands about what plans came to.

use super::{Case, case};
use crate::executed::{PLAN, with_executed, with_plan};

pub(super) const CASES: &[Case] = &[
    case("plan diff", "", &["plan", "diff", PLAN], with_executed),
    case(
        "plan diff",
        "stat",
        &["plan", "diff", PLAN, "--stat"],
        with_executed,
    ),
    case(
        "plan diff",
        "patch",
        &["plan", "diff", PLAN, "--patch", "--file", "cart.txt"],
        with_executed,
    ),
    case(
        "plan diff",
        "file",
        &["plan", "diff", PLAN, "--file", "docs", "kept/new name.txt"],
        with_executed,
    ),
    case(
        "plan diff",
        "not-changed",
        &["plan", "diff", PLAN, "--file", "docs/note.md"],
        with_executed,
    ),
    case(
        "plan diff",
        "no-resource",
        &["plan", "diff", PLAN, "--resource", "bank"],
        with_executed,
    ),
    case("plan diff", "nothing", &["plan", "diff", PLAN], with_plan),
    case(
        "plan artifacts",
        "",
        &["plan", "artifacts", PLAN],
        with_executed,
    ),
    case(
        "plan artifacts",
        "none",
        &["plan", "artifacts", PLAN],
        with_plan,
    ),
    case(
        "plan reject",
        "",
        &[
            "plan",
            "reject",
            PLAN,
            "docs/notes.md",
            "--why",
            "not asked for",
        ],
        with_executed,
    ),
    case(
        "plan reject",
        "no-hunk",
        &[
            "plan",
            "reject",
            PLAN,
            "cart.txt:3",
            "--why",
            "not asked for",
        ],
        with_executed,
    ),
    case(
        "plan reject",
        "too-early",
        &["plan", "reject", PLAN, "cart.txt", "--why", "not asked for"],
        with_plan,
    ),
];
