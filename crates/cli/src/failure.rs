//! Failures of commands. They are failures of requests; commands that meet a problem before they
//! send a request build one themselves.

pub use cleveragents_api::ExitClass as ExitCode;
pub use cleveragents_api::FailureKind;
pub use cleveragents_app::RequestError as CommandFailure;
pub use cleveragents_app::failure::{display_path, excerpt};
