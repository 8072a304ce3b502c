//! `agents init`

use std::path::Path;

use clap::Args;
use cleveragents_domain::event::payloads::StoreInitialised;
use cleveragents_engine::journal::{RecordOutcome, record_system_event_once};
use serde::Serialize;

use super::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};
use crate::settings::{file, template};

/// Create the data directory, the settings file and the database
///
/// Optional: every command creates what it needs. Existing data is not changed, so it is safe to
/// run again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents init
  agents init --data-dir /srv/agents
  agents init --set core.database-url=postgresql://agents@db.example/agents")]
pub struct InitArgs {}

#[derive(Debug, Serialize)]
struct InitAnswer<'a> {
    /// The names of the items that were created.
    created: Vec<&'static str>,
    items: &'a [InitItem],
}

/// A file, folder or database that `init` creates or finds.
#[derive(Debug, Serialize)]
struct InitItem {
    #[serde(rename = "item")]
    name: &'static str,
    #[serde(rename = "place")]
    location: String,
    state: InitItemState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum InitItemState {
    Created,
    Existing,
}

impl InitArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let settings = context.settings()?;
        let locations = &settings.locations;
        let was_there = locations.data_directory.is_dir();
        let bootstrap = context.bootstrap()?;
        let config_created = file::create(&locations.config_file, &template::render())?;
        let app = bootstrap.open()?;
        // Before the record below: other commands may have used the database without `init`.
        let known = app.statistics()?;
        let record = StoreInitialised {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: bootstrap.node().to_owned(),
        };
        let operation = app.operation("store.init");
        let recorded = record_system_event_once(app.store(), operation, app.actor(), &record);
        let first = app.block_on(recorded)?;
        let items = [
            InitItem {
                name: "data_directory",
                location: display_path(bootstrap.directory()),
                state: InitItemState::of(!was_there),
            },
            InitItem {
                name: "config_file",
                location: display_path(&locations.config_file),
                state: InitItemState::of(config_created),
            },
            InitItem {
                name: "database",
                location: app.database_location(),
                state: InitItemState::of(first == RecordOutcome::Recorded && known.events == 0),
            },
        ];
        let contents = [(known.plans, "plan"), (known.actions, "action")];
        let contents = contents.into_iter().filter(|(number, _)| *number > 0);
        let contents: Vec<String> = contents
            .map(|(number, what)| format_count(number, what))
            .collect();
        answer(&items, &contents)
    }
}

/// `contents` describes the data that was there before.
fn answer(items: &[InitItem], contents: &[String]) -> Result<CommandAnswer, CommandFailure> {
    let is_new = |item: &&InitItem| item.state == InitItemState::Created;
    let created: Vec<&str> = items.iter().filter(is_new).map(|item| item.name).collect();
    let rows = items.iter().map(|item| {
        let tone = match item.state {
            InitItemState::Created => Tone::Good,
            InitItemState::Existing => Tone::Faint,
        };
        vec![
            ViewCell::from(item.name.replace('_', " ")),
            ViewCell::new(item.state.name(), tone),
            ViewCell::from(item.location.as_str()),
        ]
    });
    let said = match (created.is_empty(), contents) {
        (true, []) => "already set up".to_owned(),
        (false, []) => "ready".to_owned(),
        (_, contents) => format!(
            "already in use: {}; existing data was not changed",
            contents.join(", ")
        ),
    };
    let view = OutputView::new().table("CleverAgents is set up", &["item", "state", "place"], rows);
    let answer = CommandAnswer::new(&InitAnswer { created, items }, view)?;
    Ok(answer
        .with_message(MessageLevel::Info, said)
        .with_message(MessageLevel::Hint, "agents diagnostics"))
}

impl InitItemState {
    fn of(created: bool) -> Self {
        if created {
            Self::Created
        } else {
            Self::Existing
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Existing => "existing",
        }
    }
}

fn display_path(path: &Path) -> String {
    path.display().to_string()
}
