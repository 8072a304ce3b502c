//! What the product does, and the ports it needs for it.
//!
//! The engine knows the rules' consequences (who may go on, what is recorded with what) but no
//! SQL, no files, no terminal and no environment: those stand behind [`ports`]. Everything that
//! changes state is one transaction given to [`StoreHandle::write`], so a change and its journal
//! event cannot come apart. Start reading at [`ports::store`], then [`journal`] and [`runs`].

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
