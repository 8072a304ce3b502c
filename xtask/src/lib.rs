//! The project's tasks: the test run with its own PostgreSQL, CI, tidy, mutants, stress, attacks,
//! benchmarks and pictures.
//!
//! It knows the workspace only from outside: manifests, sources and programs, never a crate's
//! types. Start reading at [`run`]; `process`, `environment`, `files` and `output` are the only
//! modules that start programs, read the environment, write files and print.

pub mod attack;
pub mod bench;
pub mod ci;
pub mod cluster;
pub mod environment;
pub mod files;
pub mod local_model;
pub mod mutants;
pub mod output;
pub mod pictures;
pub mod process;
pub mod report;
pub mod stress;
pub mod table;
pub mod testing;
pub mod tidy;

use anyhow::{Result, bail};

const USAGE: &str = "\
cargo xtask <command>

  test [-- ARGS]          all tests, with a temporary PostgreSQL; ARGS go to `cargo test` and narrow the run
  ci                      fmt, clippy, tidy, docs, mutants build, test, attack, pictures, mutants; stops at the
                          first failure
  tidy                    the dependency table, size limits and house rules
  mutants [NAME…] [--list]  remove each guard and check that its test fails
  mutants --build         check that all mutants compile, many at once
  stress [--rounds N]     race and kill tests at full trial counts
  attack [FAMILY…] [--full]  attack the program from outside; see `cargo xtask attack --help`
  bench [NAME…]           startup, build, or a bench-NAME program (default: startup appends)
  pictures [--check]      render the pictures of the docs from the program, or compare them
  help                    this text";

/// Runs one task; the error says what to do.
pub fn run(arguments: &[String]) -> Result<()> {
    let (command, rest) = match arguments.split_first() {
        None => ("help", &[][..]),
        Some((command, rest)) => (command.as_str(), rest),
    };
    match command {
        "test" => testing::run(rest),
        "ci" => ci::run(rest),
        "tidy" => tidy::run(rest),
        "mutants" => mutants::run(rest),
        "stress" => stress::run(rest),
        "attack" => attack::run(rest),
        "bench" => bench::run(rest),
        "pictures" => pictures::run(rest),
        "help" | "--help" | "-h" => {
            output::line(USAGE);
            Ok(())
        }
        other => bail!("unknown task `{other}`; see `cargo xtask help`"),
    }
}

/// Fails if arguments are given to a task that takes none.
fn no_arguments(command: &str, arguments: &[String]) -> Result<()> {
    match arguments.first() {
        None => Ok(()),
        Some(extra) => bail!("`cargo xtask {command}` takes no argument, got `{extra}`"),
    }
}
