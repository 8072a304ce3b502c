//! `agents init`

use std::path::Path;

use clap::Args;
use cleveragents_domain::EventKind;
use serde_json::json;

use super::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Level, Tone, View};
use crate::records::{First, record_once};
use crate::settings::{file, template};

/// Create the data directory, the settings file and the database
///
/// Never needed first: every command creates what it needs. What is there already is left as it
/// is, so it may be run again at any time.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents init
  agents init --data-dir /srv/agents
  agents init --set core.database-url=postgresql://agents@db.example/agents")]
pub struct Init {}

/// Something `init` sees to.
struct Item {
    name: &'static str,
    place: String,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Created,
    Existing,
}

impl Init {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let settings = context.settings()?;
        let locations = &settings.locations;
        let was_there = locations.data_directory.is_dir();
        let wiring = context.wiring()?;
        let config_created = file::create(&locations.config_file, &template::text())?;
        let wired = wiring.open()?;
        let record = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "node": wiring.node(),
        });
        let first = record_once(&wired, "store.init", EventKind::StoreInitialised, &record)?;
        let items = [
            Item {
                name: "data_directory",
                place: shown(wiring.directory()),
                state: State::of(!was_there),
            },
            Item {
                name: "config_file",
                place: shown(&locations.config_file),
                state: State::of(config_created),
            },
            Item {
                name: "database",
                place: wired.place(),
                state: State::of(first == First::Yes),
            },
        ];
        Ok(answer(&items))
    }
}

fn answer(items: &[Item]) -> Answer {
    let is_new = |item: &&Item| item.state == State::Created;
    let created: Vec<&str> = items.iter().filter(is_new).map(|item| item.name).collect();
    let all: Vec<_> = items
        .iter()
        .map(|item| json!({"item": item.name, "place": item.place, "state": item.state.name()}))
        .collect();
    let rows = items.iter().map(|item| {
        let tone = match item.state {
            State::Created => Tone::Good,
            State::Existing => Tone::Faint,
        };
        vec![
            Cell::from(item.name.replace('_', " ")),
            Cell::new(item.state.name(), tone),
            Cell::from(item.place.as_str()),
        ]
    });
    let said = match created.is_empty() {
        true => "everything was there already".to_owned(),
        false => "ready".to_owned(),
    };
    let view = View::new().table("CleverAgents is set up", &["item", "state", "place"], rows);
    Answer::new(json!({"created": created, "items": all}), view)
        .say(Level::Info, said)
        .say(Level::Hint, "agents diagnostics")
}

impl State {
    fn of(created: bool) -> Self {
        match created {
            true => Self::Created,
            false => Self::Existing,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Existing => "existing",
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
