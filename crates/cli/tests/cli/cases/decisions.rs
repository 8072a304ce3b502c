//! Commands about the decisions of a plan.

use super::{Case, with_nothing};
use crate::environment::TestEnvironment;
use crate::story;

pub(super) const CASES: &[Case] = &[Case {
    command: "plan tree",
    about: "",
    arguments: &["plan", "tree", "00002001"],
    prepare: with_story,
    head: None,
}];

fn with_story(environment: &mut TestEnvironment) {
    story::tell(environment);
}
