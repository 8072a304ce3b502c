//! `agents invariant remove`

use clap::Args;
use cleveragents_domain::id::IdFragment;

use super::view;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, MessageLevel, OutputView};

/// Remove a rule
///
/// Plans that started a phase with the rule keep a record of it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents invariant remove 7XK2M9QD
  agents invariant remove 01JZZZZZZZ0000000000ABCDEF")]
pub struct InvariantRemoveArgs {
    /// Its id, or at least four characters of either end of it
    #[arg(value_name = "ID")]
    id: IdFragment,
}

impl InvariantRemoveArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let service = app.invariants();
        let removed = app.block_on(service.remove(self.id.clone(), app.actor()));
        let removed = removed.map_err(|error| {
            let failure = CommandFailure::from(error);
            match failure.exit {
                ExitCode::NotFound => failure
                    .because("it never existed or was removed")
                    .hint("agents invariant list"),
                _ => failure,
            }
        })?;
        let rows = [view::row(&removed)];
        let view = OutputView::new().table("Removed", &view::HEADERS, rows);
        Ok(CommandAnswer::new(view::data(&removed), view)
            .with_message(MessageLevel::Info, "Invariant removed"))
    }
}
