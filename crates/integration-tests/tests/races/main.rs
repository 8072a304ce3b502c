//! Many threads and processes on one database: races, kills, takeovers, restarts.
//!
//! The processes are `hammer`s; their acknowledgements are compared with the journal ([`ledger`]).
//! Counts are scaled by `CLEVERAGENTS_TRIALS`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "all of this is test: what fails must fail it, what was measured is shown"
)]

/// Runs each test on the engines that several processes can share.
macro_rules! engines {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test] fn $test() { super::$test(cleveragents_integration_tests::Backend::Sqlite); })+
        }
        mod postgres {
            $(#[test] fn $test() { super::$test(cleveragents_integration_tests::Backend::Postgres); })+
        }
    };
}

/// The program that generates load and is killed.
const HAMMER: &[&str] = &[env!("CARGO_BIN_EXE_hammer")];

mod directory;
mod durability;
mod kills;
mod ledger;
mod locks;
mod processes;
mod resilience;
mod startup;
mod takeover;
