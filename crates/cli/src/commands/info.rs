//! `agents info`

use clap::Args;
use serde_json::json;

use super::CommandContext;
use crate::bootstrap::{AppContext, Bootstrap, Engine, NEWEST_SCHEMA, Statistics};
use crate::disk;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell, format_count};
use crate::settings::Locations;

/// Show where data is stored, what it contains and how much space it takes
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents info
  agents info --format json")]
pub struct InfoArgs {}

/// Disk usage of the files in the data directory.
struct DataDiskUsage {
    database: u64,
    wal: u64,
    blobs: u64,
    backups: u64,
    total: u64,
    free: Option<u64>,
}

impl InfoArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let locations = &context.settings()?.locations;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let statistics = app.statistics()?;
        let disk = DataDiskUsage::of(&bootstrap);
        let installation = installation_rows(&bootstrap, locations);
        let view = OutputView::new()
            .panel("CleverAgents", installation)
            .panel("Database", database_rows(&app))
            .panel("Contents", content_rows(&statistics))
            .panel("Disk", disk.rows());
        let data = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "data_directory": bootstrap.directory().display().to_string(),
            "config_file": locations.config_file.display().to_string(),
            "config_file_present": locations.config_file.is_file(),
            "project_config_file": locations.project_file.as_ref().map(|file| file.display().to_string()),
            "node": bootstrap.node(),
            "server_mode": "disabled",
            "database": {
                "engine": engine_name(app.engine()),
                "place": app.database_location(),
                "schema_version": NEWEST_SCHEMA,
            },
            "statistics": statistics,
            "disk": {
                "database_bytes": disk.database,
                "wal_bytes": disk.wal,
                "blobs_bytes": disk.blobs,
                "backups_bytes": disk.backups,
                "total_bytes": disk.total,
                "free_bytes": disk.free,
            },
        });
        Ok(CommandAnswer::new(data, view))
    }
}

pub(super) fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Memory => "memory",
        Engine::Sqlite => "sqlite",
        Engine::Postgres => "postgresql",
    }
}

fn installation_rows(
    bootstrap: &Bootstrap,
    locations: &Locations,
) -> Vec<(&'static str, ViewCell)> {
    let config = if locations.config_file.is_file() {
        ViewCell::from(locations.config_file.display().to_string())
    } else {
        let text = format!("{} (missing)", locations.config_file.display());
        ViewCell::new(text, Tone::Faint)
    };
    let mut rows = vec![
        (
            "version",
            ViewCell::new(env!("CARGO_PKG_VERSION"), Tone::Strong),
        ),
        (
            "data directory",
            bootstrap.directory().display().to_string().into(),
        ),
        ("settings", config),
    ];
    if let Some(file) = &locations.project_file {
        rows.push(("project settings", file.display().to_string().into()));
    }
    rows.push(("node", ViewCell::new(bootstrap.node(), Tone::Faint)));
    rows.push(("server mode", ViewCell::new("disabled", Tone::Faint)));
    rows
}

fn database_rows(app: &AppContext<'_>) -> [(&'static str, ViewCell); 3] {
    [
        ("engine", engine_name(app.engine()).into()),
        ("place", app.database_location().into()),
        ("schema", NEWEST_SCHEMA.to_string().into()),
    ]
}

fn content_rows(statistics: &Statistics) -> [(&'static str, String); 6] {
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

impl DataDiskUsage {
    fn of(bootstrap: &Bootstrap) -> Self {
        let folder = bootstrap.directory();
        let database = bootstrap.database_file();
        let mut wal = database.clone().into_os_string();
        wal.push("-wal");
        Self {
            database: disk::disk_usage(&database),
            wal: disk::disk_usage(wal.as_ref()),
            blobs: disk::disk_usage(&folder.join("blobs")),
            backups: disk::disk_usage(&folder.join("backups")),
            total: disk::disk_usage(folder),
            free: disk::free_space(folder).ok(),
        }
    }

    fn rows(&self) -> [(&'static str, ViewCell); 6] {
        let free = self.free.map_or("unknown".to_owned(), disk::format_size);
        [
            ("database file", disk::format_size(self.database).into()),
            ("write-ahead log", disk::format_size(self.wal).into()),
            ("blob files", disk::format_size(self.blobs).into()),
            ("backups", disk::format_size(self.backups).into()),
            (
                "data directory, total",
                ViewCell::new(disk::format_size(self.total), Tone::Strong),
            ),
            ("free on the disk", free.into()),
        ]
    }
}
