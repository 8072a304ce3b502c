//! Models as the engine sees them, over real connections: a small server of our own for everything
//! that can go wrong, and a real model for what must go right.

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
