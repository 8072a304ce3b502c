//! `agents actor show`

use clap::Args;
use cleveragents_api::actor::ActorShow;

use super::view;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::CommandAnswer;

/// Show an actor: its steps or model, its tools, and the actions that use it
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents actor show local/greeter
  agents actor show builtin/direct --format json")]
pub struct ActorShowArgs {
    /// The name of the actor
    #[arg(value_name = "NAME")]
    name: String,
}

impl ActorShowArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = names::parse_name("actor", &self.name)?;
        let reply = context.call(ActorShow { name })?;
        CommandAnswer::from_reply(reply, view::panels)
    }
}
