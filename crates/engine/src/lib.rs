//! The product's logic.
//!
//! The engine decides who may continue a plan and what is recorded together. It knows no SQL, no
//! files, no terminal and no environment: those are behind the traits of `cleveragents_ports`.
//! Every state change is one transaction through [`cleveragents_ports::StoreHandle::write`], so a
//! change and its journal event cannot be separated. Start reading at [`journal`] and [`runs`].

pub mod actors;
pub mod applying;
pub mod breaker;
pub mod confidence;
pub mod decisions;
pub mod error_history;
pub mod execution;
pub mod instructions;
pub mod invariants;
pub mod journal;
pub mod lifecycle;
pub mod locks;
pub mod profiles;
pub mod projects;
pub mod provenance;
pub mod retry;
pub mod runs;
pub mod sandboxes;
pub mod secrets;
pub mod trust;
pub mod undo;
pub mod validations;
