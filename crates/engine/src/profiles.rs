//! Automation profiles that users add to the built-in ones. A change and its event are one
//! commit (law 2); nothing is cached.

use std::sync::Arc;

use cleveragents_domain::{AutomationProfile, EventKind, NewEvent, ProfileName, StreamId};
use serde_json::json;

use crate::lifecycle::until_undisturbed;
use crate::ports::{Ids, Operation, ProfileRow, Result, StoreError, StoreHandle, Unit};

/// The custom profiles, for as many callers at once as there are.
#[derive(Debug, Clone)]
pub struct ProfileRegistry {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
}

impl ProfileRegistry {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>) -> Self {
        Self { store, ids }
    }

    /// Adds a profile. A taken name is refused, and a built-in one always is taken.
    pub async fn add(&self, profile: AutomationProfile, actor: &str) -> Result<ProfileRow> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("profile.add"), move |unit| {
                unit.insert_profile(&profile)?;
                let row = ProfileRow {
                    profile: profile.clone(),
                    version: 1,
                };
                record(unit, EventKind::ProfileAdded, &row, &actor)?;
                Ok(row)
            })
            .await
    }

    /// Replaces the profile of the same name, or adds it. Plans made before keep what they were
    /// made with.
    pub async fn update(&self, profile: AutomationProfile, actor: &str) -> Result<ProfileRow> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("profile.update"), move |unit| {
                let (row, kind) = until_undisturbed(unit, |unit| put(unit, &profile))?;
                record(unit, kind, &row, &actor)?;
                Ok(row)
            })
            .await
    }

    /// The profile of that name, built-in or custom.
    pub async fn profile(&self, name: ProfileName) -> Result<AutomationProfile> {
        match name {
            ProfileName::BuiltIn(built_in) => Ok(built_in.profile()),
            ProfileName::Custom(name) => {
                let found = self.store.read(move |unit| unit.profile(&name));
                Ok(found.await?.profile)
            }
        }
    }

    /// The custom profiles, by name.
    pub async fn custom(&self) -> Result<Vec<ProfileRow>> {
        self.store.read(|unit| unit.profiles()).await
    }

    fn operation(&self, label: &'static str) -> Operation {
        Operation::new(&*self.ids, label)
    }
}

fn put(unit: &mut dyn Unit, profile: &AutomationProfile) -> Result<(ProfileRow, EventKind)> {
    match unit.insert_profile(profile) {
        Ok(()) => {
            let row = ProfileRow {
                profile: profile.clone(),
                version: 1,
            };
            return Ok((row, EventKind::ProfileAdded));
        }
        Err(StoreError::Taken { .. }) => {}
        Err(error) => return Err(error),
    }
    let mut row = ProfileRow {
        profile: profile.clone(),
        version: version_of(unit, &profile.name)?,
    };
    row.version = unit.replace_profile(&row)?;
    Ok((row, EventKind::ProfileUpdated))
}

/// The newest version; the store refuses whoever would replace a built-in profile.
fn version_of(unit: &mut dyn Unit, name: &ProfileName) -> Result<i64> {
    match name {
        ProfileName::Custom(name) => Ok(unit.profile(name)?.version),
        ProfileName::BuiltIn(_) => Ok(0),
    }
}

fn record(unit: &mut dyn Unit, kind: EventKind, row: &ProfileRow, actor: &str) -> Result<()> {
    let payload = json!({"name": row.profile.name, "version": row.version, "profile": row.profile});
    let event = NewEvent::new(kind, actor, &payload).map_err(StoreError::internal)?;
    unit.append(StreamId::System, &[event])?;
    Ok(())
}
