//! `agents version`

use clap::Args;
use serde::Serialize;

use crate::bootstrap::sqlite_version;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Show the version and how it was built
///
/// Reads no settings and creates nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents version
  agents version --format json")]
pub struct VersionArgs {}

#[derive(Debug, Serialize)]
struct VersionAnswer {
    version: &'static str,
    commit: Option<&'static str>,
    rustc: &'static str,
    target: &'static str,
    sqlite: &'static str,
}

impl VersionArgs {
    pub fn run(&self) -> Result<CommandAnswer, CommandFailure> {
        let build = VersionAnswer {
            version: env!("CARGO_PKG_VERSION"),
            commit: Some(env!("AGENTS_COMMIT")).filter(|commit| !commit.is_empty()),
            rustc: env!("AGENTS_RUSTC"),
            target: env!("AGENTS_TARGET"),
            sqlite: sqlite_version(),
        };
        let rows = [
            ("version", ViewCell::new(build.version, Tone::Strong)),
            ("commit", build.commit.unwrap_or("unknown").into()),
            ("rustc", build.rustc.into()),
            ("target", build.target.into()),
            ("sqlite", build.sqlite.into()),
        ];
        CommandAnswer::new(&build, OutputView::new().panel("CleverAgents", rows))
    }
}
