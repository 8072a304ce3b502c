//! `agents automation-profile list`

use clap::Args;
use cleveragents_domain::{AutomationProfile, BuiltIn, ProfileName};
use serde_json::{Value, json};

use super::view;
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Level, Tone, View, counted};

/// List the automation profiles: the built-in ones, from the most careful to the least, then yours
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents automation-profile list
  agents automation-profile list --format json")]
pub struct List {}

impl List {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let setting = context.settings()?.automation_profile();
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let custom = wired.wait(wired.profiles().custom())?;
        let custom = custom.into_iter().map(|row| row.profile);
        let built_in = BuiltIn::ALL.iter().map(|built_in| built_in.profile());
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
        let view = View::new().table("Automation profiles", &headers, rows);
        let data = json!({
            "profiles": data,
            "default": setting,
            "summary": {
                "total": all.len(),
                "built_in": BuiltIn::ALL.len(),
                "custom": all.len() - BuiltIn::ALL.len(),
            },
        });
        let number = i64::try_from(all.len()).unwrap_or(i64::MAX);
        let said = format!("{} listed", counted(number, "automation profile"));
        Ok(Answer::new(data, view).say(Level::Info, said))
    }
}

fn row(profile: &AutomationProfile, is_default: bool) -> Vec<Cell> {
    let kind = match view::is_built_in(profile) {
        true => Cell::new("built in", Tone::Faint),
        false => Cell::from("custom"),
    };
    let default = match is_default {
        true => Cell::new("default", Tone::Good),
        false => Cell::from(""),
    };
    vec![
        Cell::new(profile.name.to_string(), Tone::Strong),
        kind,
        default,
        profile.description.clone().into(),
    ]
}
