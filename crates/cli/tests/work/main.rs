//! Plans at work from outside: the real program on real repositories, with its exit codes and
//! envelopes, killed, cancelled, set back and applied.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the functions they share"
)]

mod applying;
mod applying_crashes;
mod cancelling;
mod crash_matrix;
mod dying;
mod following;
mod gates;
mod guards;
mod killing;
mod postgres;
mod profiles;
mod rollback;
mod settling;
mod steps;
mod world;
