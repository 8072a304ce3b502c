//! Plans at work from outside: the real program on real repositories, with its exit codes and
//! envelopes, killed, cancelled, set back and applied.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the functions they share"
)]

#[path = "../../../sandbox/tests/targets/hostile_configuration.rs"]
mod hostile_configuration;

mod aborting;
mod applying;
mod applying_crashes;
mod cancelling;
mod commit_races;
mod crash_matrix;
mod dead_ends;
mod dying;
mod every_call;
mod filters;
mod following;
mod full_disk;
mod gates;
mod guards;
mod kill_points;
mod killing;
mod limits;
mod local_model;
mod masks;
mod models;
mod postgres;
mod profiles;
mod rebasing;
mod rollback;
mod running;
mod settling;
mod steps;
mod stopped_process;
mod thinking;
mod thinking_again;
mod thinking_bad_input;
mod thinking_budgets;
mod thinking_faults;
mod thinking_kills;
mod thinking_long;
mod thinking_refused;
mod thinking_secrets;
mod thinking_wire;
mod thinking_words;
mod tripwires;
mod untrusted_repository;
mod world;
