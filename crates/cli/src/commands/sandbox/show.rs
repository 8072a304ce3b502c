//! `agents sandbox show`

use clap::Args;
use cleveragents_api::sandbox::{SandboxDetails, SandboxShow};
use cleveragents_domain::id::IdFragment;

use super::view;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

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
        let reply = context.call(SandboxShow {
            sandbox: self.sandbox.clone(),
        })?;
        CommandAnswer::from_reply(reply, panel)
    }
}

fn panel(found: &SandboxDetails) -> OutputView {
    let sandbox = &found.sandbox;
    let none = || ViewCell::new("none", Tone::Faint);
    let text = |text: &Option<String>| text.clone().map_or_else(none, ViewCell::from);
    let rows = vec![
        (
            "sandbox",
            ViewCell::new(sandbox.id.to_string(), Tone::Strong),
        ),
        ("plan", found.plan.to_string().into()),
        (
            "plan state",
            format!("{}/{}", found.phase, found.plan_state).into(),
        ),
        ("resource", sandbox.resource.to_string().into()),
        ("of", sandbox.resource_path.to_string().into()),
        ("base", sandbox.base.as_str().into()),
        ("base commit", text(&sandbox.base_commit)),
        ("node", text(&sandbox.node)),
        ("state", view::state(sandbox.state)),
        ("folder", view::folder(sandbox)),
        ("files", sandbox.path.clone().into()),
        ("size", text(&found.size)),
        ("made", ViewCell::time(sandbox.created_at, Tone::Normal)),
        ("changed", ViewCell::time(sandbox.updated_at, Tone::Normal)),
    ];
    OutputView::new().panel("Sandbox", rows)
}
