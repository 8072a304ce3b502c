//! `cargo xtask …`: the project's own tasks. All code is in the library so that it can be tested.

use std::process::ExitCode;

use xtask::output;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match xtask::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is::<output::AlreadyReported>() {
                output::problem(&format!("error: {error:#}"));
            }
            ExitCode::FAILURE
        }
    }
}
