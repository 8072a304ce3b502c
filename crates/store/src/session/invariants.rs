//! Store operations on invariants.

use cleveragents_domain::id::{IdFragment, InvariantId, PlanId};
use cleveragents_domain::{Invariant, InvariantScope, NamespacedName};
use cleveragents_engine::ports::{Invariants, Projects, Result, StoreError};

use super::StoreSession;
use super::rows::{IdLookup, decode_entity, hash_text, not_found_error, reverse_id, to_json_body};
use crate::value::{SqlRow, params};

impl Invariants for StoreSession<'_> {
    fn insert_invariant(&mut self, invariant: &Invariant) -> Result<()> {
        self.lock_scope(&invariant.scope)?;
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
            what: "the invariant",
            name: invariant.text.clone(),
            holder: match holder {
                Some(row) => row.text(0)?,
                None => "another row with the same id".to_owned(),
            },
        })
    }

    fn find_invariant(&mut self, fragment: &IdFragment) -> Result<Invariant> {
        let lookup = IdLookup {
            what: "invariant",
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
            .unwrap_or_else(|| Err(not_found_error("invariant", id)))
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
}

impl StoreSession<'_> {
    /// Prevents the deletion of the scope's target until the transaction ends. An action need not
    /// be registered.
    fn lock_scope(&mut self, scope: &InvariantScope) -> Result<()> {
        match scope {
            InvariantScope::Global | InvariantScope::Action(_) => Ok(()),
            InvariantScope::Project(name) => self.lock_project(name).map(drop),
            InvariantScope::Plan(plan) => self.lock_plan(*plan),
        }
    }
}

/// Scope and target as stored.
fn scope_key(scope: &InvariantScope) -> (&'static str, String) {
    (scope.kind().as_str(), scope.target().unwrap_or_default())
}

fn invariant_from_row(row: &SqlRow) -> Result<Invariant> {
    decode_entity(row, 0)
}
