//! Commands about the decisions of a plan.

use super::{Case, with_store};
use crate::environment::TestEnvironment;
use crate::story;

pub(super) const CASES: &[Case] = &[
    Case {
        command: "plan tree",
        about: "",
        arguments: &["plan", "tree", "local/lint-00002001"],
        prepare: with_story,
        head: None,
    },
    Case {
        command: "plan tree",
        about: "corrected",
        arguments: &["plan", "tree", "00002001"],
        prepare: with_correction,
        head: None,
    },
    Case {
        command: "plan tree",
        about: "superseded",
        arguments: &["plan", "tree", "--show-superseded", "00002001"],
        prepare: with_correction,
        head: None,
    },
    Case {
        command: "plan tree",
        about: "unknown",
        arguments: &["plan", "tree", "00002001"],
        prepare: with_store,
        head: None,
    },
    Case {
        command: "plan explain",
        about: "",
        arguments: &["plan", "explain", "00004000"],
        prepare: with_story,
        head: None,
    },
    Case {
        command: "plan explain",
        about: "context",
        arguments: &[
            "plan",
            "explain",
            "--show-context",
            "--show-reasoning",
            "00004000",
        ],
        prepare: with_story,
        head: None,
    },
    Case {
        command: "plan explain",
        about: "root",
        arguments: &["plan", "explain", "00002005", "--show-context"],
        prepare: with_correction,
        head: None,
    },
    Case {
        command: "plan explain",
        about: "ambiguous",
        arguments: &["plan", "explain", "01JZZ"],
        prepare: with_story,
        head: None,
    },
    Case {
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
        prepare: with_story,
        head: None,
    },
    Case {
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
        prepare: with_story,
        head: None,
    },
    Case {
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
        prepare: with_story,
        head: None,
    },
    Case {
        command: "plan correct",
        about: "superseded",
        arguments: &[
            "plan", "correct", "--mode", "revert", "-g", "Again", "--yes", "00004000",
        ],
        prepare: with_correction,
        head: None,
    },
];

fn with_story(environment: &mut TestEnvironment) {
    story::tell(environment);
}

fn with_correction(environment: &mut TestEnvironment) {
    story::tell_corrected(environment);
}
