//! The verbs of custom automation profiles.

use cleveragents_domain::{AutomationProfile, NamespacedName, ProfileName};
use cleveragents_engine::ports::{ProfileRow, Profiles, Result, StoreError};

use super::Session;
use super::rows::{Stale, body_of, entity_in, not_found};
use crate::value::{Row, params};

impl Profiles for Session<'_> {
    fn insert_profile(&mut self, profile: &AutomationProfile) -> Result<()> {
        let name = custom_name(profile)?;
        let inserted = self.execute(
            "INSERT INTO automation_profiles (name, body, version) VALUES (?1, ?2, 1) \
             ON CONFLICT (name) DO NOTHING",
            params![&name, body_of(profile)?],
        )?;
        if inserted == 1 {
            return Ok(());
        }
        Err(taken(name, "another profile"))
    }

    fn replace_profile(&mut self, row: &ProfileRow) -> Result<i64> {
        let name = custom_name(&row.profile)?;
        let updated = self.execute(
            "UPDATE automation_profiles SET body = ?3, version = version + 1 \
             WHERE name = ?1 AND version = ?2",
            params![&name, row.version, body_of(&row.profile)?],
        )?;
        let stale = Stale {
            what: "automation profile",
            id: name,
            version: row.version,
            sql: "SELECT version FROM automation_profiles WHERE name = ?1",
        };
        self.updated_or_stale(updated, stale)
    }

    fn profile(&mut self, name: &NamespacedName) -> Result<ProfileRow> {
        let row = self.find(
            "SELECT body, version FROM automation_profiles WHERE name = ?1",
            params![name.to_string()],
        )?;
        row.map(|row| profile_of(&row))
            .unwrap_or_else(|| Err(not_found("automation profile", name)))
    }

    fn profiles(&mut self) -> Result<Vec<ProfileRow>> {
        let rows = self.query("SELECT body, version FROM automation_profiles", &[])?;
        let mut profiles: Vec<ProfileRow> = rows.iter().map(profile_of).collect::<Result<_>>()?;
        // Not by the database, whose order of letters depends on its language.
        profiles.sort_by_key(|row| row.profile.name.to_string());
        Ok(profiles)
    }
}

fn custom_name(profile: &AutomationProfile) -> Result<String> {
    match &profile.name {
        ProfileName::Custom(name) => Ok(name.to_string()),
        ProfileName::BuiltIn(built_in) => Err(taken(built_in.to_string(), "a built-in profile")),
    }
}

fn taken(name: String, holder: &str) -> StoreError {
    StoreError::Taken {
        what: "the profile name",
        name,
        holder: holder.to_owned(),
    }
}

fn profile_of(row: &Row) -> Result<ProfileRow> {
    Ok(ProfileRow {
        profile: entity_in(row, 0)?,
        version: row.integer(1)?,
    })
}
