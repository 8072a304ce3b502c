//! `automation_profile.list`

use cleveragents_api::Reply;
use cleveragents_api::automation_profile::{
    AutomationProfileList, ListedProfile, ProfileCounts, ProfilePage,
};
use cleveragents_domain::{BuiltInProfile, ProfileName};

use super::details;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

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
        let profiles: Vec<ListedProfile> = built_in
            .chain(custom)
            .map(|profile| ListedProfile {
                default: Some(&profile.name) == chosen.as_ref(),
                profile: details(profile),
            })
            .collect();
        let summary = ProfileCounts {
            total: profiles.len(),
            built_in: BuiltInProfile::ALL.len(),
            custom: profiles.len() - BuiltInProfile::ALL.len(),
        };
        let said = format!("{} automation profiles listed", summary.total);
        let page = ProfilePage {
            profiles,
            default: request.default_profile,
            summary,
        };
        Ok(Reply::new(page).info(said))
    }
}
