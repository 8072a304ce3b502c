//! Time and ids. Pure code must not create them itself (law 8).

use std::fmt::Debug;

use cleveragents_domain::Timestamp;
use ulid::Ulid;

pub trait Clock: Send + Sync + Debug {
    /// The wall clock's time. Never used to order events or to expire leases.
    fn now(&self) -> Timestamp;
}

pub trait Ids: Send + Sync + Debug {
    /// Returns a new, unique ULID.
    fn next(&self) -> Ulid;
}
