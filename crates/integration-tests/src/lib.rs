//! Tests across engines and processes, and their shared code.
//!
//! [`TestDatabase`] is the database of one test; this process or another can reopen it.
//! [`contract!`] runs one test on memory, SQLite and PostgreSQL. `src/bin/hammer.rs` is the process
//! that race and kill tests start. `cargo xtask test` provides PostgreSQL; without it the tests
//! fail rather than skip.

pub mod assertions;
pub mod bare;
pub mod breaker;
pub mod child;
pub mod cluster;
pub mod counting_store;
pub mod definition_samples;
pub mod environment;
pub mod execution_samples;
pub mod hammer;
pub mod lifecycle_samples;
pub mod plan_driver;
pub mod raw_sql;
pub mod recorders;
pub mod rng;
pub mod samples;
pub mod store_access;
pub mod test_database;
pub mod wait;
pub mod workload;

use std::future::Future;

pub use environment::trials;
pub use test_database::{Backend, OpenTestDatabase, TestDatabase};

/// Runs each contract test on every engine, as `memory::name`, `sqlite::name`, `postgres::name`.
///
/// Tests after `durable:` need a database that can be reopened or accessed from outside, which a
/// memory database cannot. An area with only such tests has `on_sqlite` and `on_postgres`, because
/// not every store must pass it.
#[macro_export]
macro_rules! contract {
    (durable: $($durable:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[test] fn $durable() { super::$durable($crate::Backend::Sqlite); })+
        }
        mod on_postgres {
            $(#[test] fn $durable() { super::$durable($crate::Backend::Postgres); })+
        }
    };
    ($($test:ident),+ $(,)? $(; durable: $($durable:ident),+ $(,)?)?) => {
        mod memory {
            $(#[test] fn $test() { super::$test($crate::Backend::Memory); })+
        }
        mod sqlite {
            $(#[test] fn $test() { super::$test($crate::Backend::Sqlite); })+
            $($(#[test] fn $durable() { super::$durable($crate::Backend::Sqlite); })+)?
        }
        mod postgres {
            $(#[test] fn $test() { super::$test($crate::Backend::Postgres); })+
            $($(#[test] fn $durable() { super::$durable($crate::Backend::Postgres); })+)?
        }
    };
}

/// Runs a future to completion on a new runtime.
///
/// # Panics
///
/// If the runtime cannot be started.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    #[expect(clippy::expect_used, reason = "a test that cannot start must fail")]
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(future)
}
