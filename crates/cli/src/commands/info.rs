//! `agents info`

use clap::Args;
use serde_json::json;

use super::Context;
use crate::disk;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Tone, View, counted};
use crate::settings::Locations;
use crate::wiring::{Engine, NEWEST_SCHEMA, Statistics, Wired, Wiring};

/// Show where data is kept, what is in it and how much space it takes
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents info
  agents info --format json")]
pub struct Info {}

/// What files of the data directory take.
struct Disk {
    database: u64,
    wal: u64,
    blobs: u64,
    backups: u64,
    total: u64,
    free: Option<u64>,
}

impl Info {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let locations = &context.settings()?.locations;
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let statistics = wired.statistics()?;
        let disk = Disk::of(&wiring);
        let installation = installation_rows(&wiring, locations);
        let view = View::new()
            .panel("CleverAgents", installation)
            .panel("Database", database_rows(&wired))
            .panel("Contents", content_rows(&statistics))
            .panel("Disk", disk.rows());
        let data = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "data_directory": wiring.directory().display().to_string(),
            "config_file": locations.config_file.display().to_string(),
            "config_file_present": locations.config_file.is_file(),
            "project_config_file": locations.project_file.as_ref().map(|file| file.display().to_string()),
            "node": wiring.node(),
            "server_mode": "disabled",
            "database": {
                "engine": engine_name(wired.engine()),
                "place": wired.place(),
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
        Ok(Answer::new(data, view))
    }
}

pub(super) fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Memory => "memory",
        Engine::Sqlite => "sqlite",
        Engine::Postgres => "postgresql",
    }
}

fn installation_rows(wiring: &Wiring, locations: &Locations) -> Vec<(&'static str, Cell)> {
    let config = match locations.config_file.is_file() {
        true => Cell::from(locations.config_file.display().to_string()),
        false => {
            let text = format!("{} (not there)", locations.config_file.display());
            Cell::new(text, Tone::Faint)
        }
    };
    let mut rows = vec![
        (
            "version",
            Cell::new(env!("CARGO_PKG_VERSION"), Tone::Strong),
        ),
        (
            "data directory",
            wiring.directory().display().to_string().into(),
        ),
        ("settings", config),
    ];
    if let Some(file) = &locations.project_file {
        rows.push(("project settings", file.display().to_string().into()));
    }
    rows.push(("node", Cell::new(wiring.node(), Tone::Faint)));
    rows.push(("server mode", Cell::new("disabled", Tone::Faint)));
    rows
}

fn database_rows(wired: &Wired<'_>) -> [(&'static str, Cell); 3] {
    [
        ("engine", engine_name(wired.engine()).into()),
        ("place", wired.place().into()),
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
                counted(statistics.streams, "stream")
            ),
        ),
        ("operations", statistics.operations.to_string()),
        (
            "blobs",
            format!("{} ({})", statistics.blobs, disk::shown(blob_bytes)),
        ),
        (
            "database size",
            disk::shown(u64::try_from(statistics.database_bytes).unwrap_or(0)),
        ),
    ]
}

impl Disk {
    fn of(wiring: &Wiring) -> Self {
        let folder = wiring.directory();
        let database = wiring.database_file();
        let mut wal = database.clone().into_os_string();
        wal.push("-wal");
        Self {
            database: disk::used(&database),
            wal: disk::used(wal.as_ref()),
            blobs: disk::used(&folder.join("blobs")),
            backups: disk::used(&folder.join("backups")),
            total: disk::used(folder),
            free: disk::free(folder).ok(),
        }
    }

    fn rows(&self) -> [(&'static str, Cell); 6] {
        let free = self.free.map_or("unknown".to_owned(), disk::shown);
        [
            ("database file", disk::shown(self.database).into()),
            ("write-ahead log", disk::shown(self.wal).into()),
            ("blob files", disk::shown(self.blobs).into()),
            ("backups", disk::shown(self.backups).into()),
            (
                "data directory in all",
                Cell::new(disk::shown(self.total), Tone::Strong),
            ),
            ("free on the disk", free.into()),
        ]
    }
}
