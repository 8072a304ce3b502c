//! The demo. What it answers holds ids, commits and hashes of its own data directory, which is gone
//! when it ends; so it is looked at in `crate::demo`, and what is pinned is how it fails.

use super::{SnapshotCase, case, without_setup};

pub(super) const CASES: &[SnapshotCase] = &[case("demo", "", &["demo"], without_setup)];
