//! Execution of plans from outside: the real program on real repositories, with its exit codes and
//! envelopes, killed, cancelled, rolled back and applied.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the functions they share"
)]

#[path = "../../../sandbox/tests/targets/hostile_configuration.rs"]
mod hostile_configuration;

mod aborting;
mod activity;
mod applying;
mod applying_crashes;
mod bookkeeping;
mod cancelling;
mod commit_races;
mod crash_matrix;
mod dead_ends;
mod event_follower;
mod filters;
mod full_disk;
mod gates;
mod guards;
mod interrupts;
mod kill_at_step;
mod kill_points;
mod limits;
mod llm_actor;
mod llm_actor_bad_output;
mod llm_actor_budgets;
mod llm_actor_compaction;
mod llm_actor_costs;
mod llm_actor_faults;
mod llm_actor_http;
mod llm_actor_kills;
mod llm_actor_prompts;
mod llm_actor_refusals;
mod llm_actor_rollback;
mod llm_actor_secrets;
mod local_model;
mod manual_recovery;
mod masks;
mod models;
mod plan_reads;
mod postgres;
mod profiles;
mod questions;
mod rebasing;
mod resuming;
mod review;
mod reworking;
mod rollback;
mod run_command;
mod screen;
mod steps;
mod stopped_process;
mod syscall_kills;
mod tripwires;
mod uncommitted_base;
mod untrusted_repository;
mod watching;
mod worker_kills;
mod world;
