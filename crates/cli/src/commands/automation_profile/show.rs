//! `agents automation-profile show`

use clap::Args;
use cleveragents_domain::{BuiltIn, NamespacedName, ProfileName};
use cleveragents_engine::StoreError;

use super::view;
use crate::commands::Context;
use crate::failure::Failure;
use crate::nearest::nearest;
use crate::output::{Answer, Level};
use crate::wiring::Wired;

/// Show an automation profile: thresholds and what they gate, flags, guards and limits
///
/// A plan goes on alone where its actor is at least as sure as the threshold: 0.0 never asks a
/// human, 1.0 always does.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents automation-profile show supervised
  agents automation-profile show local/night-shift --format json")]
pub struct Show {
    /// The name of the profile
    #[arg(value_name = "NAME")]
    name: ProfileName,
}

impl Show {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let found = wired.wait(wired.profiles().profile(self.name.clone()));
        let profile = found.map_err(|error| match error {
            StoreError::NotFound { .. } => self.unknown(error, &wired),
            other => other.into(),
        })?;
        let mut data = view::data(&profile);
        data["groups"] = view::groups(&profile);
        Ok(
            Answer::new(data, view::panels("Automation profile", &profile))
                .say(Level::Info, "Automation profile shown"),
        )
    }

    fn unknown(&self, error: StoreError, wired: &Wired<'_>) -> Failure {
        let asked = self.name.to_string().parse::<NamespacedName>();
        let custom = wired.wait(wired.profiles().custom()).unwrap_or_default();
        let custom = custom.into_iter().map(|row| row.profile.name);
        let known = BuiltIn::ALL.iter().map(|it| ProfileName::BuiltIn(*it));
        // A built-in name has no namespace; as if it had one, it is as near as it looks.
        let known: Vec<(NamespacedName, ProfileName)> = known
            .chain(custom)
            .filter_map(|name| Some((name.to_string().parse().ok()?, name)))
            .collect();
        let mut failure = Failure::from(error).because("it is neither built in nor added");
        let near = asked.map(|asked| nearest(&asked, known.iter().map(|(name, _)| name)));
        for near in near.unwrap_or_default() {
            for (_, name) in known.iter().filter(|(name, _)| name == near) {
                failure = failure.hint(format!("agents automation-profile show {name}"));
            }
        }
        failure.hint("agents automation-profile list")
    }
}
