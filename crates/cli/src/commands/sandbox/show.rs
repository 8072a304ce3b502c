//! `agents sandbox show`

use clap::Args;
use cleveragents_domain::id::IdFragment;
use cleveragents_engine::sandboxes::{SandboxFolderPresence, SandboxWithPlan};
use serde_json::{Value, json};

use super::view;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::disk;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

/// Show a sandbox: its plan, state, folder and size
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents sandbox show 7XK2M9QD
  agents sandbox show 01JZZZZZZZ0000000000ABCDEF --format json")]
pub struct SandboxShowArgs {
    /// The sandbox's id, or at least four characters of either end of it
    #[arg(value_name = "SANDBOX")]
    sandbox: IdFragment,
}

impl SandboxShowArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let service = app.sandboxes()?;
        let found = app.block_on(service.show(self.sandbox.clone()));
        let found = found.map_err(|error| {
            let failure = CommandFailure::from(error);
            match failure.exit {
                ExitCode::NotFound => failure.hint("agents sandbox list"),
                _ => failure,
            }
        })?;
        Ok(answer(&found, &app))
    }
}

fn answer(found: &SandboxWithPlan, app: &AppContext<'_>) -> CommandAnswer {
    let (known, record) = (&found.sandbox, &found.sandbox.record);
    let tree = app.sandbox_tree(record.id);
    let size = match known.on_disk {
        SandboxFolderPresence::Present => tree.parent().map(disk::disk_usage),
        SandboxFolderPresence::Absent | SandboxFolderPresence::OnOtherNode => None,
    };
    let mut data = view::data(known, app);
    if let Value::Object(map) = &mut data {
        map.insert("bytes".to_owned(), json!(size));
        map.insert("size".to_owned(), json!(size.map(disk::format_size)));
        map.insert("plan".to_owned(), json!(found.plan.name));
        map.insert("phase".to_owned(), json!(found.plan.position.phase()));
        map.insert("plan_state".to_owned(), json!(found.plan.position.state()));
    }
    let none = || ViewCell::new("none", Tone::Faint);
    let text = |text: Option<String>| text.map_or_else(none, ViewCell::from);
    let rows = vec![
        (
            "sandbox",
            ViewCell::new(record.id.to_string(), Tone::Strong),
        ),
        ("plan", found.plan.name.to_string().into()),
        ("plan state", found.plan.position.to_string().into()),
        ("resource", record.resource_name.to_string().into()),
        ("of", record.resource_path.to_string().into()),
        ("base", record.base.as_str().into()),
        ("base commit", text(record.base_commit.clone())),
        ("node", text(record.node.clone())),
        ("state", view::state(record.state)),
        ("folder", view::folder(known)),
        ("files", tree.display().to_string().into()),
        ("size", text(size.map(disk::format_size))),
        ("made", record.created_at.to_string().into()),
        ("changed", record.updated_at.to_string().into()),
    ];
    let view = OutputView::new().panel("Sandbox", rows);
    let answer = CommandAnswer::new(data, view);
    match (known.on_disk, record.tree.is_some()) {
        (SandboxFolderPresence::Present, true) => {
            let hint = format!("agents plan diff {}", record.plan_id);
            answer.with_message(MessageLevel::Hint, hint)
        }
        _ => answer,
    }
}
