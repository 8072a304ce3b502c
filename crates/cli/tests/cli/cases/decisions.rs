//! Commands about the decisions of a plan.

use super::{SnapshotCase, with_store};
use crate::decision_fixture;
use crate::environment::TestEnvironment;

pub(super) const CASES: &[SnapshotCase] = &[
    SnapshotCase {
        command: "plan tree",
        about: "",
        arguments: &["plan", "tree", "local/lint-00002001"],
        prepare: with_decisions,
        line_limit: None,
    },
    SnapshotCase {
        command: "plan tree",
        about: "corrected",
        arguments: &["plan", "tree", "00002001"],
        prepare: with_correction,
        line_limit: None,
    },
    SnapshotCase {
        command: "plan tree",
        about: "superseded",
        arguments: &["plan", "tree", "--show-superseded", "00002001"],
        prepare: with_correction,
        line_limit: None,
    },
    SnapshotCase {
        command: "plan tree",
        about: "unknown",
        arguments: &["plan", "tree", "00002001"],
        prepare: with_store,
        line_limit: None,
    },
    SnapshotCase {
        command: "plan explain",
        about: "",
        arguments: &["plan", "explain", "00004000"],
        prepare: with_decisions,
        line_limit: None,
    },
    SnapshotCase {
        command: "plan explain",
        about: "context",
        arguments: &[
            "plan",
            "explain",
            "--show-context",
            "--show-reasoning",
            "00004000",
        ],
        prepare: with_decisions,
        line_limit: None,
    },
    SnapshotCase {
        command: "plan explain",
        about: "root",
        arguments: &["plan", "explain", "00002005", "--show-context"],
        prepare: with_correction,
        line_limit: None,
    },
    SnapshotCase {
        command: "plan explain",
        about: "ambiguous",
        arguments: &["plan", "explain", "01JZZ"],
        prepare: with_decisions,
        line_limit: None,
    },
    SnapshotCase {
        command: "plan correct",
        about: "",
        arguments: &[
            "plan",
            "correct",
            "--mode",
            "revert",
            "-g",
            "Begin with the prices",
            "00004000",
        ],
        prepare: with_decisions,
        line_limit: None,
    },
    SnapshotCase {
        command: "plan correct",
        about: "append",
        arguments: &[
            "plan",
            "correct",
            "--mode",
            "append",
            "--guidance",
            "Mind the prices, too",
            "00004000",
        ],
        prepare: with_decisions,
        line_limit: None,
    },
    SnapshotCase {
        command: "plan correct",
        about: "dry-run",
        arguments: &[
            "plan",
            "correct",
            "--mode",
            "revert",
            "-g",
            "Begin with the prices",
            "--dry-run",
            "00004000",
        ],
        prepare: with_decisions,
        line_limit: None,
    },
    SnapshotCase {
        command: "plan correct",
        about: "superseded",
        arguments: &[
            "plan", "correct", "--mode", "revert", "-g", "Again", "--yes", "00004000",
        ],
        prepare: with_correction,
        line_limit: None,
    },
];

fn with_decisions(environment: &mut TestEnvironment) {
    decision_fixture::create(environment);
}

fn with_correction(environment: &mut TestEnvironment) {
    decision_fixture::create_corrected(environment);
}
