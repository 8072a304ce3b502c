//! Shared by the circuit breaker tests: calls as data, and a single-threaded reference breaker.

pub mod reference;
pub mod script;
