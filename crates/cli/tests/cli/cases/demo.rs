//! The demo. Its answer contains ids, commits and hashes of a temporary data directory, so
//! `crate::demo` tests it. Only its failures are pinned here.

use super::{SnapshotCase, case, without_setup};

pub(super) const CASES: &[SnapshotCase] = &[case("demo", "", &["demo"], without_setup)];
