//! The verbs of invariants.

use cleveragents_domain::id::{IdFragment, InvariantId, PlanId};
use cleveragents_domain::{Invariant, NamespacedName, Scope};
use cleveragents_engine::ports::{Invariants, Projects, Result, StoreError};

use super::Session;
use super::rows::{Findable, body_of, entity_in, hash_of, not_found, tail_of};
use crate::value::{Row, params};

impl Invariants for Session<'_> {
    fn insert_invariant(&mut self, invariant: &Invariant) -> Result<()> {
        self.hold_scope(&invariant.scope)?;
        let id = invariant.id.to_string();
        let (scope, target) = key_of(&invariant.scope);
        let text_hash = hash_of(&invariant.normalised_text());
        let inserted = self.execute(
            "INSERT INTO invariants (id, tail, scope, target, text_hash, body, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
            params![
                &id,
                tail_of(&id),
                scope,
                &target,
                &text_hash,
                body_of(invariant)?,
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
        let findable = Findable {
            what: "invariant",
            table: "invariants",
            columns: "id, body",
        };
        entity_in(&self.row_by_fragment(&findable, fragment)?, 1)
    }

    fn remove_invariant(&mut self, id: InvariantId) -> Result<Invariant> {
        let row = self.find(
            "DELETE FROM invariants WHERE id = ?1 RETURNING body",
            params![id.to_string()],
        )?;
        row.map(|row| invariant_of(&row))
            .unwrap_or_else(|| Err(not_found("invariant", id)))
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>> {
        let rows = self.query("SELECT body FROM invariants ORDER BY created_at, id", &[])?;
        rows.iter().map(invariant_of).collect()
    }

    fn invariants_for(
        &mut self,
        projects: &[NamespacedName],
        action: Option<&NamespacedName>,
        plan: Option<PlanId>,
    ) -> Result<Vec<Invariant>> {
        let mut scopes = vec![Scope::Global];
        scopes.extend(projects.iter().cloned().map(Scope::Project));
        scopes.extend(action.cloned().map(Scope::Action));
        scopes.extend(plan.map(Scope::Plan));
        let mut found = Vec::new();
        for scope in scopes {
            let (scope, target) = key_of(&scope);
            let rows = self.query(
                "SELECT body FROM invariants WHERE scope = ?1 AND target = ?2 \
                 ORDER BY created_at, id",
                params![scope, target],
            )?;
            for row in &rows {
                found.push(invariant_of(row)?);
            }
        }
        Ok(found)
    }
}

impl Session<'_> {
    /// Keeps whom the scope names until the transaction ends. An action need not be registered.
    fn hold_scope(&mut self, scope: &Scope) -> Result<()> {
        match scope {
            Scope::Global | Scope::Action(_) => Ok(()),
            Scope::Project(name) => self.hold_project(name).map(drop),
            Scope::Plan(plan) => self.hold_plan(*plan),
        }
    }
}

/// Scope and target as they are stored.
fn key_of(scope: &Scope) -> (&'static str, String) {
    (scope.kind().as_str(), scope.target().unwrap_or_default())
}

fn invariant_of(row: &Row) -> Result<Invariant> {
    entity_in(row, 0)
}
