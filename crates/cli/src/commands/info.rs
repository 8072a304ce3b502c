//! `agents info`

use clap::Args;
use cleveragents_api::info::{
    DatabaseContents, DatabaseInfo, DiskUsage, Info, InfoAnswer, ServerMode,
};

use super::CommandContext;
use crate::disk;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell, format_count};

/// Show where data is stored, what it contains and how much space it takes
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents info
  agents info --format json")]
pub struct InfoArgs {}

impl InfoArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        CommandAnswer::from_reply(context.call(Info {})?, |info| {
            OutputView::new()
                .panel("CleverAgents", installation_rows(info))
                .panel("Database", database_rows(&info.database))
                .panel("Contents", content_rows(&info.statistics))
                .panel("Disk", disk_rows(&info.disk))
        })
    }
}

fn installation_rows(info: &InfoAnswer) -> Vec<(&'static str, ViewCell)> {
    let installation = &info.installation;
    let config = if installation.config_file_present {
        ViewCell::from(installation.config_file.clone())
    } else {
        let text = format!("{} (missing)", installation.config_file);
        ViewCell::new(text, Tone::Faint)
    };
    let mut rows = vec![
        ("version", ViewCell::new(info.version.clone(), Tone::Strong)),
        ("data directory", installation.data_directory.clone().into()),
        ("settings", config),
    ];
    if let Some(file) = &installation.project_config_file {
        rows.push(("project settings", file.clone().into()));
    }
    rows.push(("node", ViewCell::new(info.node.clone(), Tone::Faint)));
    let mode = match info.server_mode {
        ServerMode::Disabled => "disabled",
    };
    rows.push(("server mode", ViewCell::new(mode, Tone::Faint)));
    rows
}

fn database_rows(database: &DatabaseInfo) -> [(&'static str, ViewCell); 3] {
    [
        ("engine", database.engine.clone().into()),
        ("place", database.place.clone().into()),
        ("schema", database.schema_version.to_string().into()),
    ]
}

fn content_rows(statistics: &DatabaseContents) -> [(&'static str, String); 6] {
    let blob_bytes = u64::try_from(statistics.blob_bytes).unwrap_or(0);
    [
        ("plans", statistics.plans.to_string()),
        ("actions", statistics.actions.to_string()),
        (
            "events",
            format!(
                "{} in {}",
                statistics.events,
                format_count(statistics.streams, "stream")
            ),
        ),
        ("operations", statistics.operations.to_string()),
        (
            "blobs",
            format!("{} ({})", statistics.blobs, disk::format_size(blob_bytes)),
        ),
        (
            "database size",
            disk::format_size(u64::try_from(statistics.database_bytes).unwrap_or(0)),
        ),
    ]
}

fn disk_rows(usage: &DiskUsage) -> [(&'static str, ViewCell); 6] {
    let free = usage.free_bytes.map(disk::format_size);
    let free = free.unwrap_or_else(|| "unknown".to_owned());
    let size = |bytes| ViewCell::from(disk::format_size(bytes));
    [
        ("database file", size(usage.database_bytes)),
        ("write-ahead log", size(usage.wal_bytes)),
        ("blob files", size(usage.blobs_bytes)),
        ("backups", size(usage.backups_bytes)),
        (
            "data directory, total",
            ViewCell::new(disk::format_size(usage.total_bytes), Tone::Strong),
        ),
        ("free on the disk", free.into()),
    ]
}
