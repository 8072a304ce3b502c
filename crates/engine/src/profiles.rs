//! Automation profiles that users add to the built-in ones. A change and its event are one commit
//! (law 2). Nothing is cached.

use std::sync::Arc;

use cleveragents_domain::event::payloads::{ProfileAdded, ProfileUpdated, ProfileVersion};
use cleveragents_domain::{AutomationProfile, ProfileName, StreamId};

use crate::actors::RegistryChange;
use crate::journal::new_event;
use crate::lifecycle::retry_on_conflict;
use cleveragents_ports::{
    Ids, ProfileRow, Result, StoreError, StoreHandle, StoreOperation, Transaction,
};

/// Service for custom profiles. Safe for concurrent callers.
#[derive(Debug, Clone)]
pub struct ProfileRegistry {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
}

impl ProfileRegistry {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>) -> Self {
        Self { store, ids }
    }

    /// Adds a profile. Fails if the name is taken; built-in names always are.
    pub async fn add(&self, profile: AutomationProfile, actor: &str) -> Result<ProfileRow> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("profile.add"), move |tx| {
                tx.insert_profile(&profile)?;
                let row = ProfileRow {
                    profile: profile.clone(),
                    version: 1,
                };
                record_change(tx, &row, RegistryChange::Added, &actor)?;
                Ok(row)
            })
            .await
    }

    /// Replaces the profile of the same name, or adds it. Existing plans keep the profile they were
    /// created with.
    pub async fn update(&self, profile: AutomationProfile, actor: &str) -> Result<ProfileRow> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("profile.update"), move |tx| {
                let (row, change) = retry_on_conflict(tx, |tx| upsert_profile(tx, &profile))?;
                record_change(tx, &row, change, &actor)?;
                Ok(row)
            })
            .await
    }

    /// Returns the profile of that name, built-in or custom.
    pub async fn profile(&self, name: ProfileName) -> Result<AutomationProfile> {
        match name {
            ProfileName::BuiltIn(built_in) => Ok(built_in.profile()),
            ProfileName::Custom(name) => {
                let found = self.store.read(move |tx| tx.profile(&name));
                Ok(found.await?.profile)
            }
        }
    }

    /// Returns the custom profiles, ordered by name.
    pub async fn custom_profiles(&self) -> Result<Vec<ProfileRow>> {
        self.store.read(|tx| tx.profiles()).await
    }

    fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}

fn upsert_profile(
    tx: &mut dyn Transaction,
    profile: &AutomationProfile,
) -> Result<(ProfileRow, RegistryChange)> {
    match tx.insert_profile(profile) {
        Ok(()) => {
            let row = ProfileRow {
                profile: profile.clone(),
                version: 1,
            };
            return Ok((row, RegistryChange::Added));
        }
        Err(StoreError::Taken { .. }) => {}
        Err(error) => return Err(error),
    }
    let mut row = ProfileRow {
        profile: profile.clone(),
        version: version_of(tx, &profile.name)?,
    };
    row.version = tx.replace_profile(&row)?;
    Ok((row, RegistryChange::Updated))
}

/// Returns the newest version. The store refuses to replace a built-in profile.
fn version_of(tx: &mut dyn Transaction, name: &ProfileName) -> Result<i64> {
    match name {
        ProfileName::Custom(name) => Ok(tx.profile(name)?.version),
        ProfileName::BuiltIn(_) => Ok(0),
    }
}

fn record_change(
    tx: &mut dyn Transaction,
    row: &ProfileRow,
    change: RegistryChange,
    actor: &str,
) -> Result<()> {
    let version = ProfileVersion {
        name: row.profile.name.clone(),
        version: row.version,
        profile: row.profile.clone(),
    };
    let event = match change {
        RegistryChange::Added => new_event(actor, &ProfileAdded(version))?,
        RegistryChange::Updated => new_event(actor, &ProfileUpdated(version))?,
    };
    tx.append(StreamId::System, &[event])?;
    Ok(())
}
