//! `automation_profile.add`

use cleveragents_api::automation_profile::{AddedProfile, AutomationProfileAdd};
use cleveragents_api::{ExitClass, FailureKind, NextStep, Reply};
use cleveragents_definitions::read_profile;
use cleveragents_domain::{AutomationProfile, ProfileName};
use cleveragents_ports::StoreError;

use super::{details, show_step};
use crate::app::{App, Caller, Handler};
use crate::definition::parse;
use crate::failure::RequestError;
use crate::next_steps::use_step;

impl Handler<AutomationProfileAdd> for App {
    async fn handle(
        &self,
        request: AutomationProfileAdd,
        caller: &Caller,
    ) -> Result<Reply<AddedProfile>, RequestError> {
        let profile = read_profile_to_add(&request)?;
        let profiles = self.services.profiles();
        let put = if request.update {
            profiles.update(profile, &caller.who).await
        } else {
            profiles.add(profile, &caller.who).await
        };
        let row = put.map_err(|error| add_failure(error, &request.config.argument))?;
        let said = match row.version {
            1 => "Automation profile added",
            _ => "Automation profile updated",
        };
        let name = row.profile.name.clone();
        let profile = name.to_string();
        let use_it = use_step("ACTION").with_argument("automation_profile", profile);
        let answer = AddedProfile {
            profile: details(row.profile),
            version: row.version,
        };
        let reply = Reply::new(answer).info(said);
        Ok(reply.hint(show_step(&name)).hint(use_it))
    }
}

/// Parses the definition to add. Needs no database, so a front end can refuse an invalid one before
/// it opens the database.
pub fn read_profile_to_add(
    request: &AutomationProfileAdd,
) -> Result<AutomationProfile, RequestError> {
    let profile = parse(&request.config, read_profile).map_err(|errors| {
        RequestError::from(errors).hint("agents automation-profile add --help")
    })?;
    match profile.name {
        ProfileName::BuiltIn(_) => Err(built_in_failure(&profile.name)),
        ProfileName::Custom(_) => Ok(profile),
    }
}

/// Adds the request that replaces the existing profile to the failure for a taken name.
fn add_failure(error: StoreError, file: &str) -> RequestError {
    let StoreError::Taken { name, .. } = error else {
        return error.into();
    };
    let what = format!("the automation profile {name} already exists");
    let failure = RequestError::new(ExitClass::Conflict, what)
        .kind(FailureKind::Taken)
        .because("use --update to replace it")
        .hint(NextStep::fill_in::<AutomationProfileAdd>(&[("config", file)]).with_flag("update"));
    match name.parse() {
        Ok(name) => failure.hint(show_step(&name)),
        Err(_) => failure,
    }
}

fn built_in_failure(name: &ProfileName) -> RequestError {
    RequestError::new(ExitClass::Conflict, format!("{name} is a built-in profile"))
        .kind(FailureKind::Taken)
        .because("the built-in profiles cannot be added or replaced")
        .hint("choose another name")
        .hint(show_step(name))
}
