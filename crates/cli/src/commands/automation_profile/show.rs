//! `agents automation-profile show`

use clap::Args;
use cleveragents_domain::{BuiltInProfile, NamespacedName, ProfileName};
use cleveragents_ports::StoreError;

use super::view;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;
use cleveragents_app::nearest::nearest;

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
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let found = app.block_on(app.profiles().profile(self.name.clone()));
        let profile = found.map_err(|error| match error {
            StoreError::NotFound { .. } => self.unknown_profile_failure(error, &app),
            other => other.into(),
        })?;
        let mut data = view::data(&profile);
        data["groups"] = view::groups(&profile);
        Ok(CommandAnswer::new(
            data,
            view::panels("Automation profile", &profile),
        ))
    }

    fn unknown_profile_failure(&self, error: StoreError, app: &AppContext<'_>) -> CommandFailure {
        let asked = self.name.to_string().parse::<NamespacedName>();
        let custom = app
            .block_on(app.profiles().custom_profiles())
            .unwrap_or_default();
        let custom = custom.into_iter().map(|row| row.profile.name);
        let known = BuiltInProfile::ALL
            .iter()
            .map(|it| ProfileName::BuiltIn(*it));
        // A built-in name has no namespace. Parsing it as a namespaced name makes it comparable to
        // the others.
        let known: Vec<(NamespacedName, ProfileName)> = known
            .chain(custom)
            .filter_map(|name| Some((name.to_string().parse().ok()?, name)))
            .collect();
        let mut failure =
            CommandFailure::from(error).because("no built-in or added profile has this name");
        let near = asked.map(|asked| nearest(&asked, known.iter().map(|(name, _)| name)));
        for near in near.unwrap_or_default() {
            for (_, name) in known.iter().filter(|(name, _)| name == near) {
                failure = failure.hint(format!("agents automation-profile show {name}"));
            }
        }
        failure.hint("agents automation-profile list")
    }
}
