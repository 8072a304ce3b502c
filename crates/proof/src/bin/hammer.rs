//! The process that race and kill tests start, stop and kill; see `cleveragents_proof::hammer`.

use std::process::ExitCode;

fn main() -> ExitCode {
    cleveragents_proof::hammer::run(std::env::args().skip(1))
}
