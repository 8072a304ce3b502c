//! `agents version`

use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{Answer, Cell, Tone, View};
use crate::wiring::sqlite_version;

/// Show the version and how it was built
///
/// Reads no settings and creates nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents version
  agents version --format json")]
pub struct Version {}

impl Version {
    pub fn run(&self) -> Result<Answer, Failure> {
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
            ("version", Cell::new(version, Tone::Strong)),
            ("commit", commit.unwrap_or("unknown").into()),
            ("rustc", rustc.into()),
            ("target", target.into()),
            ("sqlite", sqlite.into()),
        ];
        Ok(Answer::new(data, View::new().panel("CleverAgents", rows)))
    }
}
