//! The `agents` program: reads the process environment once and runs.

use std::process::ExitCode;

use cleveragents_cli::environment::Environment;

fn main() -> ExitCode {
    ExitCode::from(cleveragents_cli::run(&Environment::from_process()))
}
