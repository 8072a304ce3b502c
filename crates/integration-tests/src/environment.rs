//! Environment variables that the test command sets.

#![expect(
    clippy::disallowed_methods,
    reason = "the one place where tests read their environment"
)]

use std::env;

/// The URL of the temporary PostgreSQL cluster.
///
/// # Panics
///
/// Without one: these tests must not be skipped.
pub fn postgres_url() -> String {
    match env::var("CLEVERAGENTS_TEST_POSTGRES") {
        Ok(url) => url,
        Err(_) => panic!("this test needs PostgreSQL: run `cargo xtask test`, which starts one"),
    }
}

/// Returns whether there is a cluster; only for benchmarks, which can run without.
pub fn has_postgres() -> bool {
    env::var_os("CLEVERAGENTS_TEST_POSTGRES").is_some()
}

/// The certificate of the cluster's server.
///
/// # Panics
///
/// Without one, as in [`postgres_url`].
pub fn postgres_certificate() -> String {
    match env::var("CLEVERAGENTS_TEST_POSTGRES_CA") {
        Ok(path) => path,
        Err(_) => panic!("this test needs PostgreSQL with TLS: run `cargo xtask test`"),
    }
}

/// The script that stops, starts, restarts or kills the cluster.
///
/// # Panics
///
/// Without one, as in [`postgres_url`].
pub fn postgres_control() -> String {
    match env::var("CLEVERAGENTS_TEST_POSTGRES_CONTROL") {
        Ok(path) => path,
        Err(_) => panic!("this test restarts PostgreSQL: run `cargo xtask test`"),
    }
}

/// `full` rounds scaled by `CLEVERAGENTS_TRIALS` (per cent), at least `least`.
pub fn trials(full: u32, least: u32) -> u32 {
    let percent = env::var("CLEVERAGENTS_TRIALS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(10_u32);
    (full.saturating_mul(percent) / 100).max(least)
}
