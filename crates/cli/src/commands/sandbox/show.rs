//! `agents sandbox show`

use clap::Args;
use cleveragents_domain::id::IdFragment;
use cleveragents_engine::sandboxes::{OnDisk, Shown};
use serde_json::{Value, json};

use super::view;
use crate::commands::Context;
use crate::disk;
use crate::failure::{ExitCode, Failure};
use crate::output::{Answer, Cell, Level, Tone, View};
use crate::wiring::Wired;

/// Show one sandbox: whose it is, how far it came, where it is and how large
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents sandbox show 7XK2M9QD
  agents sandbox show 01JZZZZZZZ0000000000ABCDEF --format json")]
pub struct Show {
    /// The sandbox's id, or at least four characters of either end of it
    #[arg(value_name = "SANDBOX")]
    sandbox: IdFragment,
}

impl Show {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let service = wired.sandboxes()?;
        let found = wired.wait(service.show(self.sandbox.clone()));
        let found = found.map_err(|error| {
            let failure = Failure::from(error);
            match failure.exit {
                ExitCode::NotFound => failure.hint("agents sandbox list"),
                _ => failure,
            }
        })?;
        Ok(answer(&found, &wired))
    }
}

fn answer(found: &Shown, wired: &Wired<'_>) -> Answer {
    let (known, record) = (&found.known, &found.known.record);
    let tree = wired.sandbox_tree(record.id);
    let size = match known.on_disk {
        OnDisk::Present => tree.parent().map(disk::used),
        OnDisk::Absent | OnDisk::Elsewhere => None,
    };
    let mut data = view::data(known, wired);
    if let Value::Object(map) = &mut data {
        map.insert("bytes".to_owned(), json!(size));
        map.insert("size".to_owned(), json!(size.map(disk::shown)));
        map.insert("plan".to_owned(), json!(found.plan.name));
        map.insert("phase".to_owned(), json!(found.plan.position.phase()));
        map.insert("plan_state".to_owned(), json!(found.plan.position.state()));
    }
    let none = || Cell::new("none", Tone::Faint);
    let text = |text: Option<String>| text.map_or_else(none, Cell::from);
    let rows = vec![
        ("sandbox", Cell::new(record.id.to_string(), Tone::Strong)),
        ("plan", found.plan.name.to_string().into()),
        ("plan stands at", found.plan.position.to_string().into()),
        ("resource", record.resource_name.to_string().into()),
        ("of", record.resource_path.to_string().into()),
        ("base", record.base.as_str().into()),
        ("base commit", text(record.base_commit.clone())),
        ("node", text(record.node.clone())),
        ("state", view::state(record.state)),
        ("folder", view::folder(known)),
        ("files", tree.display().to_string().into()),
        ("size", text(size.map(disk::shown))),
        ("made", record.created_at.to_string().into()),
        ("changed", record.updated_at.to_string().into()),
    ];
    let view = View::new().panel("Sandbox", rows);
    let answer = Answer::new(data, view);
    match (known.on_disk, record.tree.is_some()) {
        (OnDisk::Present, true) => {
            let hint = format!("agents plan diff {}", record.plan_id);
            answer.say(Level::Hint, hint)
        }
        _ => answer,
    }
}
