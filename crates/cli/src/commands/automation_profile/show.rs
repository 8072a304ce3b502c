//! `agents automation-profile show`

use clap::Args;
use cleveragents_api::automation_profile::AutomationProfileShow;
use cleveragents_domain::ProfileName;

use super::view;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;

/// Show an automation profile: thresholds and what they gate, flags, guards and limits
///
/// A plan continues without approval where the confidence reaches the threshold: 0.0 never asks
/// you, 1.0 always does.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents automation-profile show supervised
  agents automation-profile show local/night-shift --format json")]
pub struct AutomationProfileShowArgs {
    /// The name of the profile
    #[arg(value_name = "NAME")]
    name: ProfileName,
}

impl AutomationProfileShowArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(AutomationProfileShow {
            name: self.name.clone(),
        })?;
        CommandAnswer::from_reply(reply, |shown| {
            view::panels("Automation profile", &shown.profile)
        })
    }
}
