//! Store operations on custom automation profiles.

use cleveragents_domain::{AutomationProfile, NamespacedName, ProfileName};
use cleveragents_engine::ports::{ProfileRow, Profiles, Result, StoreError};

use super::StoreSession;
use super::rows::{VersionCheck, decode_entity, not_found_error, to_json_body};
use crate::value::{SqlRow, params};

impl Profiles for StoreSession<'_> {
    fn insert_profile(&mut self, profile: &AutomationProfile) -> Result<()> {
        let name = custom_name(profile)?;
        let inserted = self.execute(
            "INSERT INTO automation_profiles (name, body, version) VALUES (?1, ?2, 1) \
             ON CONFLICT (name) DO NOTHING",
            params![&name, to_json_body(profile)?],
        )?;
        if inserted == 1 {
            return Ok(());
        }
        Err(name_taken_error(name, "another profile"))
    }

    fn replace_profile(&mut self, row: &ProfileRow) -> Result<i64> {
        let name = custom_name(&row.profile)?;
        let updated = self.execute(
            "UPDATE automation_profiles SET body = ?3, version = version + 1 \
             WHERE name = ?1 AND version = ?2",
            params![&name, row.version, to_json_body(&row.profile)?],
        )?;
        let check = VersionCheck {
            what: "automation profile",
            id: name,
            version: row.version,
            sql: "SELECT version FROM automation_profiles WHERE name = ?1",
        };
        self.check_updated(updated, check)
    }

    fn profile(&mut self, name: &NamespacedName) -> Result<ProfileRow> {
        let row = self.find(
            "SELECT body, version FROM automation_profiles WHERE name = ?1",
            params![name.to_string()],
        )?;
        row.map(|row| profile_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error("automation profile", name)))
    }

    fn profiles(&mut self) -> Result<Vec<ProfileRow>> {
        let rows = self.query("SELECT body, version FROM automation_profiles", &[])?;
        let mut profiles: Vec<ProfileRow> =
            rows.iter().map(profile_from_row).collect::<Result<_>>()?;
        // Not sorted by the database, whose collation depends on its locale.
        profiles.sort_by_key(|row| row.profile.name.to_string());
        Ok(profiles)
    }
}

fn custom_name(profile: &AutomationProfile) -> Result<String> {
    match &profile.name {
        ProfileName::Custom(name) => Ok(name.to_string()),
        ProfileName::BuiltIn(built_in) => {
            Err(name_taken_error(built_in.to_string(), "a built-in profile"))
        }
    }
}

fn name_taken_error(name: String, holder: &str) -> StoreError {
    StoreError::Taken {
        what: "the profile name",
        name,
        holder: holder.to_owned(),
    }
}

fn profile_from_row(row: &SqlRow) -> Result<ProfileRow> {
    Ok(ProfileRow {
        profile: decode_entity(row, 0)?,
        version: row.integer(1)?,
    })
}
