//! The product's logic, and the ports it needs.
//!
//! The engine decides who may continue a plan and what is recorded together. It knows no SQL, no
//! files, no terminal and no environment: those are behind [`ports`]. Every state change is one
//! transaction through [`StoreHandle::write`], so a change and its journal event cannot be
//! separated. Start reading at [`ports::store`], then [`journal`] and [`runs`].

pub mod actors;
pub mod applying;
pub mod breaker;
pub mod confidence;
pub mod decisions;
pub mod definitions;
pub mod execution;
pub mod instructions;
pub mod invariants;
pub mod journal;
pub mod lifecycle;
pub mod locks;
pub mod ports;
pub mod profiles;
pub mod projects;
pub mod recovery;
pub mod retry;
pub mod runs;
pub mod sandboxes;
pub mod secrets;
pub mod system;
pub mod trust;
pub mod validations;

pub use ports::{StoreError, StoreHandle, StoreOperation};
