//! Models as the engine sees them, over real connections: a small test server for everything that
//! can fail, and a real model for what must succeed.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts test functions, not the functions they share"
)]

mod failures;
mod fixture;
mod limits;
mod real_model;
mod requests;
mod server;
