//! Store operations on invariants, custom automation profiles and consents to repository files.

use cleveragents_domain::id::{IdFragment, InvariantId, PlanId};
use cleveragents_domain::{
    AbsolutePath, AutomationProfile, Consent, Invariant, InvariantScope, NamespacedName,
    ProfileName, RepositoryFile, ResourcePath,
};
use cleveragents_ports::{Entity, Policies, ProfileRow, Projects, Result, StoreError, UniqueKey};

use super::StoreSession;
use super::rows::{
    IdLookup, VersionCheck, decode_entity, hash_text, not_found_error, reverse_id, to_json_body,
};
use crate::value::{SqlRow, params};

impl Policies for StoreSession<'_> {
    fn insert_invariant(&mut self, invariant: &Invariant) -> Result<()> {
        lock_scope(self, &invariant.scope)?;
        let id = invariant.id.to_string();
        let (scope, target) = scope_key(&invariant.scope);
        let text_hash = hash_text(&invariant.normalised_text());
        let inserted = self.execute(
            "INSERT INTO invariants (id, tail, scope, target, text_hash, body, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
            params![
                &id,
                reverse_id(&id),
                scope,
                &target,
                &text_hash,
                to_json_body(invariant)?,
                invariant.created_at,
            ],
        )?;
        if inserted == 1 {
            return Ok(());
        }
        let holder = self.find(
            "SELECT id FROM invariants WHERE scope = ?1 AND target = ?2 AND text_hash = ?3",
            params![scope, &target, &text_hash],
        )?;
        Err(StoreError::Taken {
            key: UniqueKey::InvariantText,
            name: invariant.text.clone(),
            holder: match holder {
                Some(row) => row.text(0)?,
                None => "another row with the same id".to_owned(),
            },
        })
    }

    fn find_invariant(&mut self, fragment: &IdFragment) -> Result<Invariant> {
        let lookup = IdLookup {
            entity: Entity::Invariant,
            table: "invariants",
            columns: "id, body",
        };
        decode_entity(&self.row_by_fragment(&lookup, fragment)?, 1)
    }

    fn remove_invariant(&mut self, id: InvariantId) -> Result<Invariant> {
        let row = self.find(
            "DELETE FROM invariants WHERE id = ?1 RETURNING body",
            params![id.to_string()],
        )?;
        row.map(|row| invariant_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error(Entity::Invariant, id)))
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>> {
        let rows = self.query("SELECT body FROM invariants ORDER BY created_at, id", &[])?;
        rows.iter().map(invariant_from_row).collect()
    }

    fn invariants_for(
        &mut self,
        projects: &[NamespacedName],
        action: Option<&NamespacedName>,
        plan: Option<PlanId>,
    ) -> Result<Vec<Invariant>> {
        let mut scopes = vec![InvariantScope::Global];
        scopes.extend(projects.iter().cloned().map(InvariantScope::Project));
        scopes.extend(action.cloned().map(InvariantScope::Action));
        scopes.extend(plan.map(InvariantScope::Plan));
        let mut found = Vec::new();
        for scope in scopes {
            let (scope, target) = scope_key(&scope);
            let rows = self.query(
                "SELECT body FROM invariants WHERE scope = ?1 AND target = ?2 \
                 ORDER BY created_at, id",
                params![scope, target],
            )?;
            for row in &rows {
                found.push(invariant_from_row(row)?);
            }
        }
        Ok(found)
    }

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
            entity: Entity::AutomationProfile,
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
            .unwrap_or_else(|| Err(not_found_error(Entity::AutomationProfile, name)))
    }

    fn profiles(&mut self) -> Result<Vec<ProfileRow>> {
        let rows = self.query("SELECT body, version FROM automation_profiles", &[])?;
        let mut profiles: Vec<ProfileRow> =
            rows.iter().map(profile_from_row).collect::<Result<_>>()?;
        // Not sorted by the database, whose collation depends on its locale.
        profiles.sort_by_key(|row| row.profile.name.to_string());
        Ok(profiles)
    }

    fn insert_consent(&mut self, consent: &Consent) -> Result<bool> {
        let file = &consent.file;
        let inserted = self.execute(
            "INSERT INTO repository_file_consents (repository, path, hash, actor, given_at) \
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (repository, path, hash) DO NOTHING",
            params![
                file.repository.to_string(),
                file.path.to_string(),
                &file.hash,
                &consent.actor,
                consent.given_at
            ],
        )?;
        Ok(inserted == 1)
    }

    fn consents_to(
        &mut self,
        repository: &AbsolutePath,
        path: &ResourcePath,
    ) -> Result<Vec<Consent>> {
        let rows = self.query(
            "SELECT hash, actor, given_at FROM repository_file_consents \
             WHERE repository = ?1 AND path = ?2 ORDER BY given_at, hash",
            params![repository.to_string(), path.to_string()],
        )?;
        let consent = |row: &SqlRow| {
            Ok(Consent {
                file: RepositoryFile {
                    repository: repository.clone(),
                    path: path.clone(),
                    hash: row.text(0)?,
                },
                actor: row.text(1)?,
                given_at: row.time(2)?,
            })
        };
        rows.iter().map(consent).collect()
    }
}

/// Prevents the deletion of the scope's target until the transaction ends. An action need not be
/// registered.
fn lock_scope(session: &mut StoreSession<'_>, scope: &InvariantScope) -> Result<()> {
    match scope {
        InvariantScope::Global | InvariantScope::Action(_) => Ok(()),
        InvariantScope::Project(name) => session.lock_project(name).map(drop),
        InvariantScope::Plan(plan) => session.lock_plan(*plan),
    }
}

/// Scope and target as stored.
fn scope_key(scope: &InvariantScope) -> (&'static str, String) {
    (scope.kind().as_str(), scope.target().unwrap_or_default())
}

fn invariant_from_row(row: &SqlRow) -> Result<Invariant> {
    decode_entity(row, 0)
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
        key: UniqueKey::Name(Entity::AutomationProfile),
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
