//! The real clock and id source: the only place that reads either from the machine.

use std::time::{SystemTime, UNIX_EPOCH};

use cleveragents_domain::Timestamp;
use ulid::Ulid;

use crate::{Clock, Ids};

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one home of the machine's clock"
    )]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Timestamp::default().after(since.unwrap_or_default())
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    #[expect(clippy::disallowed_methods, reason = "the one home of new ids")]
    fn next(&self) -> Ulid {
        Ulid::generate()
    }
}
