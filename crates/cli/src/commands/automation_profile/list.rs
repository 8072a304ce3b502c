//! `agents automation-profile list`

use clap::Args;
use cleveragents_domain::{AutomationProfile, BuiltInProfile, ProfileName};
use serde_json::{Value, json};

use super::view;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};

/// List automation profiles: the built-in ones from strictest to least strict, then yours
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents automation-profile list
  agents automation-profile list --format json")]
pub struct AutomationProfileListArgs {}

impl AutomationProfileListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let setting = context.settings()?.automation_profile();
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let custom = app.block_on(app.profiles().custom_profiles())?;
        let custom = custom.into_iter().map(|row| row.profile);
        let built_in = BuiltInProfile::ALL
            .iter()
            .map(|built_in| built_in.profile());
        let all: Vec<AutomationProfile> = built_in.chain(custom).collect();
        let chosen = setting.parse::<ProfileName>().ok();
        let is_default = |profile: &AutomationProfile| Some(&profile.name) == chosen.as_ref();
        let data: Vec<Value> = all
            .iter()
            .map(|profile| {
                let mut data = view::data(profile);
                data["default"] = is_default(profile).into();
                data
            })
            .collect();
        let rows = all.iter().map(|profile| row(profile, is_default(profile)));
        let headers = ["name", "kind", "default", "description"];
        let view = OutputView::new().table("Automation profiles", &headers, rows);
        let data = json!({
            "profiles": data,
            "default": setting,
            "summary": {
                "total": all.len(),
                "built_in": BuiltInProfile::ALL.len(),
                "custom": all.len() - BuiltInProfile::ALL.len(),
            },
        });
        let number = i64::try_from(all.len()).unwrap_or(i64::MAX);
        let said = format!("{} listed", format_count(number, "automation profile"));
        Ok(CommandAnswer::new(data, view).with_message(MessageLevel::Info, said))
    }
}

fn row(profile: &AutomationProfile, is_default: bool) -> Vec<ViewCell> {
    let kind = if view::is_built_in(profile) {
        ViewCell::new("built in", Tone::Faint)
    } else {
        ViewCell::from("custom")
    };
    let default = if is_default {
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
