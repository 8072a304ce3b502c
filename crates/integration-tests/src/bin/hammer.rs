//! The process that race and kill tests start, stop and kill; see
//! `cleveragents_integration_tests::hammer`.

use std::process::ExitCode;

fn main() -> ExitCode {
    cleveragents_integration_tests::hammer::run(std::env::args().skip(1))
}
