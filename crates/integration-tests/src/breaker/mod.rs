//! What tests of the circuit breaker share: verbs as data, and a breaker for one caller at a time.

pub mod reference;
pub mod script;
