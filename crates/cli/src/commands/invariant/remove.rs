//! `agents invariant remove`

use clap::Args;
use cleveragents_domain::id::IdFragment;

use super::view;
use crate::commands::Context;
use crate::failure::{ExitCode, Failure};
use crate::output::{Answer, Level, View};

/// Remove a rule
///
/// Plans that entered a phase under it keep the record that they did.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents invariant remove 7XK2M9QD
  agents invariant remove 01JZZZZZZZ0000000000ABCDEF")]
pub struct Remove {
    /// Its id, or at least four characters of either end of it
    #[arg(value_name = "ID")]
    id: IdFragment,
}

impl Remove {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let service = wired.invariants();
        let removed = wired.wait(service.remove(self.id.clone(), wired.actor()));
        let removed = removed.map_err(|error| {
            let failure = Failure::from(error);
            match failure.exit {
                ExitCode::NotFound => failure
                    .because("it was never there, or somebody removed it")
                    .hint("agents invariant list"),
                _ => failure,
            }
        })?;
        let rows = [view::row(&removed)];
        let view = View::new().table("Removed", &view::HEADERS, rows);
        Ok(Answer::new(view::data(&removed), view).say(Level::Info, "Invariant removed"))
    }
}
