//! `automation_profile.show`

use cleveragents_api::automation_profile::{
    AutomationProfileList, AutomationProfileShow, ExplainedThreshold, GroupedProfile,
};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::automation::{ThresholdGroup, ThresholdName, Thresholds};
use cleveragents_domain::{BuiltInProfile, NamespacedName, ProfileName};
use cleveragents_ports::StoreError;

use super::{details, show_step};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::nearest::nearest;
use crate::services::Services;

impl Handler<AutomationProfileShow> for App {
    async fn handle(
        &self,
        request: AutomationProfileShow,
        _: &Caller,
    ) -> Result<Reply<GroupedProfile>, RequestError> {
        let profile = match self.services.profiles().profile(request.name.clone()).await {
            Err(error @ StoreError::NotFound { .. }) => {
                return Err(unknown_profile_failure(&self.services, error, &request.name).await);
            }
            found => found?,
        };
        let thresholds = profile.thresholds;
        let group = |group: ThresholdGroup| {
            let explained = |name| (name, explain(name, &thresholds));
            (group, group.thresholds().map(explained).collect())
        };
        Ok(Reply::new(GroupedProfile {
            profile: details(profile),
            groups: ThresholdGroup::ALL.iter().copied().map(group).collect(),
        }))
    }
}

/// Returns the failure for a profile that does not exist, with the most similar names.
async fn unknown_profile_failure(
    services: &Services,
    error: StoreError,
    requested: &ProfileName,
) -> RequestError {
    let custom = services
        .profiles()
        .custom_profiles()
        .await
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
        RequestError::from(error).because("no built-in or added profile has this name");
    let requested = requested.to_string().parse::<NamespacedName>();
    let near = requested.map(|name| nearest(&name, known.iter().map(|(name, _)| name)));
    for near in near.unwrap_or_default() {
        for (_, name) in known.iter().filter(|(name, _)| name == near) {
            failure = failure.hint(show_step(name));
        }
    }
    failure.hint(NextStep::send(&AutomationProfileList::default()))
}

fn explain(name: ThresholdName, thresholds: &Thresholds) -> ExplainedThreshold {
    let value = thresholds.get(name);
    let means = match value.value() {
        value if value >= 1.0 => "always asks",
        value if value <= 0.0 => "never asks",
        _ => "asks unless sure enough",
    };
    ExplainedThreshold {
        value,
        gates: name.description().to_owned(),
        means: means.to_owned(),
    }
}
