//! `automation_profile.list`

use cleveragents_api::Reply;
use cleveragents_api::automation_profile::{
    AutomationProfileList, ListedProfile, ProfileCounts, ProfileFilters, ProfilePage,
};
use cleveragents_domain::{AutomationProfile, BuiltInProfile, ProfileName};

use super::details;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::name_pattern::NamePattern;
use crate::text::format_length;

impl Handler<AutomationProfileList> for App {
    async fn handle(
        &self,
        request: AutomationProfileList,
        _: &Caller,
    ) -> Result<Reply<ProfilePage>, RequestError> {
        let custom = self.services.profiles().custom_profiles().await?;
        let custom = custom.into_iter().map(|row| row.profile);
        let built_in = BuiltInProfile::ALL
            .iter()
            .map(|built_in| built_in.profile());
        let setting = request.default_profile.as_deref();
        let chosen = setting.and_then(|setting| setting.parse::<ProfileName>().ok());
        let pattern = request.pattern.as_deref().map(NamePattern::parse);
        let pattern = pattern.transpose()?;
        let matching: Vec<AutomationProfile> = built_in
            .chain(custom)
            .filter(|it| pattern.as_ref().is_none_or(|one| one.matches(&it.name)))
            .collect();
        let is_built_in = |it: &&AutomationProfile| matches!(it.name, ProfileName::BuiltIn(_));
        let built_in = matching.iter().filter(is_built_in).count();
        let summary = ProfileCounts {
            total: matching.len(),
            built_in,
            custom: matching.len() - built_in,
        };
        let profiles: Vec<ListedProfile> = matching
            .into_iter()
            .take(request.limit.unwrap_or(usize::MAX))
            .map(|profile| ListedProfile {
                default: Some(&profile.name) == chosen.as_ref(),
                profile: details(profile),
            })
            .collect();
        let said = format!(
            "{} listed",
            format_length(profiles.len(), "automation profile")
        );
        let page = ProfilePage {
            profiles,
            default: request.default_profile,
            filters: ProfileFilters {
                pattern: request.pattern,
            },
            summary,
        };
        Ok(Reply::new(page).info(said))
    }
}
