//! `agents automation-profile list`

use clap::Args;
use cleveragents_api::automation_profile::{AutomationProfileList, ListedProfile};

use crate::argument_types::parse_limit;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// List automation profiles: the built-in ones from strictest to least strict, then yours
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents automation-profile list
  agents automation-profile list '^local/'
  agents automation-profile list --format json")]
pub struct AutomationProfileListArgs {
    /// Only names that match this regular expression, ignoring case
    #[arg(value_name = "REGEX")]
    pattern: Option<String>,

    /// List at most this many
    #[arg(long, value_name = "NUMBER", value_parser = parse_limit)]
    limit: Option<usize>,
}

impl AutomationProfileListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let setting = context.settings()?.automation_profile();
        let reply = context.call(AutomationProfileList {
            pattern: self.pattern.clone(),
            limit: self.limit,
            default_profile: Some(setting),
        })?;
        CommandAnswer::from_reply(reply, |page| {
            let headers = ["name", "kind", "default", "description"];
            let rows = page.profiles.iter().map(row);
            OutputView::new().table("Automation profiles", &headers, rows)
        })
    }
}

fn row(listed: &ListedProfile) -> Vec<ViewCell> {
    let profile = &listed.profile;
    let kind = if profile.built_in {
        ViewCell::new("built in", Tone::Faint)
    } else {
        ViewCell::from("custom")
    };
    let default = if listed.default {
        ViewCell::new("default", Tone::Good)
    } else {
        ViewCell::from("")
    };
    vec![
        ViewCell::new(profile.name.to_string(), Tone::Strong),
        kind,
        default,
        profile.description.clone().into(),
    ]
}
