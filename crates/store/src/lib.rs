//! The storage ports on SQLite, PostgreSQL and memory.
//!
//! All SQL of the project is here, one text for both engines ([`dialect`] has the exceptions).
//! [`Database`] is the port's implementation; [`session`] speaks the ports' verbs; [`sqlite`] and
//! [`postgres`] own threads and connections; [`maintenance`] backs up, restores and collects. The
//! crate reads no environment and prints nothing.

mod blob_files;
mod database;
mod dialect;
mod directory;
mod files;
mod maintenance;
mod postgres;
mod presence;
mod queue;
mod schema;
mod session;
mod sqlite;
mod tx;
mod value;

pub use database::{Database, Engine, Options};
pub use directory::{DataDirectory, file_system_of};
pub use maintenance::{
    Altered, Backup, Collected, Existing, Finding, Manifest, Progress, Restored, Retention,
    Statistics, Target, inspect, restore,
};
pub use presence::{Card, Presence};
pub use schema::NEWEST as NEWEST_SCHEMA;
pub use sqlite::version as sqlite_version;
