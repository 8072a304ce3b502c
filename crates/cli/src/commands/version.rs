//! `agents version`

use clap::Args;
use serde_json::json;

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

impl VersionArgs {
    pub fn run(&self) -> Result<CommandAnswer, CommandFailure> {
        let version = env!("CARGO_PKG_VERSION");
        let commit = Some(env!("AGENTS_COMMIT")).filter(|commit| !commit.is_empty());
        let rustc = env!("AGENTS_RUSTC");
        let target = env!("AGENTS_TARGET");
        let sqlite = sqlite_version();
        let data = json!({
            "version": version,
            "commit": commit,
            "rustc": rustc,
            "target": target,
            "sqlite": sqlite,
        });
        let rows = [
            ("version", ViewCell::new(version, Tone::Strong)),
            ("commit", commit.unwrap_or("unknown").into()),
            ("rustc", rustc.into()),
            ("target", target.into()),
            ("sqlite", sqlite.into()),
        ];
        Ok(CommandAnswer::new(
            data,
            OutputView::new().panel("CleverAgents", rows),
        ))
    }
}
