//! Time and identity, which pure code must not make for itself.

use std::fmt::Debug;

use cleveragents_domain::Timestamp;
use ulid::Ulid;

pub trait Clock: Send + Sync + Debug {
    /// The wall clock's time. Never used to order events or to expire leases.
    fn now(&self) -> Timestamp;
}

pub trait Ids: Send + Sync + Debug {
    /// A ULID nobody has seen before.
    fn next(&self) -> Ulid;
}
