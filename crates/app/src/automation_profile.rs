//! Handlers of automation profiles, one file per verb.

mod add;
mod list;
mod show;

use cleveragents_api::NextStep;
use cleveragents_api::automation_profile::{AutomationProfileShow, ProfileDetails, ProfileFlags};
use cleveragents_domain::{AutomationProfile, ProfileName};

pub use add::read_profile_to_add;

fn show_step(name: &ProfileName) -> NextStep {
    NextStep::send(&AutomationProfileShow { name: name.clone() })
}

fn details(profile: AutomationProfile) -> ProfileDetails {
    ProfileDetails {
        built_in: matches!(profile.name, ProfileName::BuiltIn(_)),
        name: profile.name,
        description: profile.description,
        thresholds: profile.thresholds,
        flags: ProfileFlags {
            require_sandbox: profile.require_sandbox,
            require_checkpoints: profile.require_checkpoints,
            allow_unsafe_tools: profile.allow_unsafe_tools,
            allow_forced_checks: profile.allow_forced_checks,
        },
        guards: profile.guards,
        limits: profile.limits,
    }
}
