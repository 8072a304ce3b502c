//! Store operations on validations, their attachments and their results.
//!
//! Attaching takes shared locks on the rows it references, removal an exclusive lock on its row, so
//! the second transaction sees what the first did. Locks are taken in one order (plan or project,
//! resource, validation), which prevents deadlocks.

use std::collections::BTreeMap;

use cleveragents_domain::id::{AttachmentId, IdFragment, PlanId, ResourceId};
use cleveragents_domain::validation::AttachmentScopeKind;
use cleveragents_domain::{
    Attachment, AttachmentScope, NamespacedName, Validation, ValidationSummary,
};
use cleveragents_ports::{
    Entity, Projects, Result, StoreError, UniqueKey, ValidationRow, Validations,
};

use super::StoreSession;
use super::definitions::{DefinitionTable, NewDefinition, StoredDefinition};
use super::rows::{IdLookup, decode_entity, hash_text, not_found_error, reverse_id, to_json_body};
use crate::value::{SqlRow, params};

const VALIDATIONS: DefinitionTable = DefinitionTable {
    table: "validations",
    entity: Entity::Validation,
};

const ATTACHMENT_COLUMNS: &str = "id, validation, resource_id, scope, target, args, created_at";

impl Validations for StoreSession<'_> {
    fn insert_validation(&mut self, row: &ValidationRow) -> Result<()> {
        VALIDATIONS.insert(self, &new_definition(row))
    }

    fn replace_validation(&mut self, row: &ValidationRow) -> Result<i64> {
        VALIDATIONS.replace(self, &new_definition(row))
    }

    fn validation(&mut self, name: &NamespacedName) -> Result<ValidationRow> {
        VALIDATIONS.find(self, name).map(validation_from_definition)
    }

    fn validations(&mut self) -> Result<Vec<ValidationRow>> {
        let all = VALIDATIONS.all(self)?;
        Ok(all.into_iter().map(validation_from_definition).collect())
    }

    fn delete_validation(&mut self, row: &ValidationRow) -> Result<()> {
        let name = &row.validation.name;
        VALIDATIONS.lock(self, name, row.version)?;
        let rows = self.query(
            "SELECT id FROM validation_attachments WHERE validation = ?1 ORDER BY id",
            params![name.to_string()],
        )?;
        if !rows.is_empty() {
            let attachments: Result<Vec<String>> = rows.iter().map(|row| row.text(0)).collect();
            return Err(StoreError::Referenced {
                entity: Entity::Validation,
                name: name.to_string(),
                referrers: attachments?,
            });
        }
        VALIDATIONS.delete(self, name)
    }

    fn insert_attachment(&mut self, attachment: &Attachment) -> Result<()> {
        lock_attachment_targets(self, attachment)?;
        let (id, args) = (attachment.id.to_string(), to_json_body(&attachment.args)?);
        let (scope, target) = scope_key(&attachment.scope);
        let (validation, resource) = (
            attachment.validation.to_string(),
            attachment.resource.to_string(),
        );
        let args_hash = hash_text(&args);
        let inserted = self.execute(
            "INSERT INTO validation_attachments (id, tail, validation, resource_id, scope, target, \
             args, args_hash, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
             ON CONFLICT DO NOTHING",
            params![
                &id,
                reverse_id(&id),
                &validation,
                &resource,
                scope,
                &target,
                &args,
                &args_hash,
                attachment.created_at,
            ],
        )?;
        if inserted == 1 {
            return Ok(());
        }
        let holder = self.find(
            "SELECT id FROM validation_attachments WHERE validation = ?1 AND resource_id = ?2 \
             AND scope = ?3 AND target = ?4 AND args_hash = ?5",
            params![&validation, &resource, scope, &target, &args_hash],
        )?;
        Err(StoreError::Taken {
            key: UniqueKey::Attachment,
            name: validation,
            holder: match holder {
                Some(row) => row.text(0)?,
                None => "another row with the same id".to_owned(),
            },
        })
    }

    fn find_attachment(&mut self, fragment: &IdFragment) -> Result<Attachment> {
        let lookup = IdLookup {
            entity: Entity::Attachment,
            table: "validation_attachments",
            columns: ATTACHMENT_COLUMNS,
        };
        attachment_from_row(&self.row_by_fragment(&lookup, fragment)?)
    }

    fn remove_attachment(&mut self, id: AttachmentId) -> Result<Attachment> {
        let sql = format!(
            "DELETE FROM validation_attachments WHERE id = ?1 RETURNING {ATTACHMENT_COLUMNS}"
        );
        let row = self.find(&sql, params![id.to_string()])?;
        row.map(|row| attachment_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error(Entity::Attachment, id)))
    }

    fn attachments(&mut self) -> Result<Vec<Attachment>> {
        let sql = format!(
            "SELECT {ATTACHMENT_COLUMNS} FROM validation_attachments ORDER BY created_at DESC, id DESC"
        );
        self.query(&sql, &[])?
            .iter()
            .map(attachment_from_row)
            .collect()
    }

    fn attachments_to(&mut self, resources: &[ResourceId]) -> Result<Vec<Attachment>> {
        let sql = format!(
            "SELECT {ATTACHMENT_COLUMNS} FROM validation_attachments WHERE resource_id = ?1"
        );
        let mut found: Vec<Attachment> = Vec::new();
        for resource in resources {
            for row in &self.query(&sql, params![resource.to_string()])? {
                found.push(attachment_from_row(row)?);
            }
        }
        found.sort_by_key(|attachment| (attachment.created_at, attachment.id));
        found.dedup_by_key(|attachment| attachment.id);
        found.reverse();
        Ok(found)
    }

    fn put_validation_run(
        &mut self,
        plan: PlanId,
        attempt: u32,
        round: u32,
        summary: &ValidationSummary,
    ) -> Result<()> {
        self.lock_plan(plan)?;
        // A repeated round replaces its result, so storing it twice does no harm.
        self.execute(
            "INSERT INTO validation_runs (plan_id, attempt, round, summary, stored_at) \
             VALUES (?1, ?2, ?3, ?4, now_micros()) \
             ON CONFLICT (plan_id, attempt, round) DO UPDATE \
             SET summary = excluded.summary, stored_at = excluded.stored_at",
            params![
                plan.to_string(),
                i64::from(attempt),
                i64::from(round),
                to_json_body(summary)?,
            ],
        )?;
        Ok(())
    }

    fn newest_validation_run(
        &mut self,
        plan: PlanId,
        attempt: u32,
    ) -> Result<Option<ValidationSummary>> {
        let row = self.find(
            "SELECT summary FROM validation_runs WHERE plan_id = ?1 AND attempt = ?2 \
             ORDER BY round DESC LIMIT 1",
            params![plan.to_string(), i64::from(attempt)],
        )?;
        row.map(|row| decode_entity(&row, 0)).transpose()
    }
}

/// Prevents the deletion of the attachment's targets until the transaction ends.
fn lock_attachment_targets(session: &mut StoreSession<'_>, attachment: &Attachment) -> Result<()> {
    match &attachment.scope {
        AttachmentScope::Direct => {}
        AttachmentScope::Project(name) => drop(session.lock_project(name)?),
        AttachmentScope::Plan(plan) => session.lock_plan(*plan)?,
    }
    let resource = session.find(
        "SELECT id FROM resources WHERE id = ?1 FOR KEY SHARE",
        params![attachment.resource.to_string()],
    )?;
    if resource.is_none() {
        return Err(not_found_error(Entity::Resource, attachment.resource));
    }
    let validation = session.find(
        "SELECT name FROM validations WHERE name = ?1 FOR KEY SHARE",
        params![attachment.validation.to_string()],
    )?;
    match validation {
        Some(_) => Ok(()),
        None => Err(not_found_error(Entity::Validation, &attachment.validation)),
    }
}

/// Deletes the attachments scoped to a project or plan together with it.
pub(super) fn delete_scope_attachments(
    session: &mut StoreSession<'_>,
    scope: AttachmentScopeKind,
    target: &str,
) -> Result<()> {
    session.execute(
        "DELETE FROM validation_attachments WHERE scope = ?1 AND target = ?2",
        params![scope.as_str(), target],
    )?;
    Ok(())
}

fn new_definition(row: &ValidationRow) -> NewDefinition<'_, Validation> {
    NewDefinition {
        name: &row.validation.name,
        kind: row.validation.mode.as_str(),
        definition: &row.validation,
        hash: &row.hash,
        created_at: row.created_at,
        updated_at: row.updated_at,
        version: row.version,
    }
}

fn validation_from_definition(defined: StoredDefinition<Validation>) -> ValidationRow {
    ValidationRow {
        validation: defined.definition,
        hash: defined.hash,
        created_at: defined.created_at,
        updated_at: defined.updated_at,
        version: defined.version,
    }
}

/// Scope and target as stored.
fn scope_key(scope: &AttachmentScope) -> (&'static str, String) {
    (scope.kind().as_str(), scope.target().unwrap_or_default())
}

fn attachment_from_row(row: &SqlRow) -> Result<Attachment> {
    let scope = match row.parsed::<AttachmentScopeKind>(3)? {
        AttachmentScopeKind::Direct => AttachmentScope::Direct,
        AttachmentScopeKind::Project => AttachmentScope::Project(row.parsed(4)?),
        AttachmentScopeKind::Plan => AttachmentScope::Plan(row.parsed(4)?),
    };
    let args: BTreeMap<String, serde_json::Value> = decode_entity(row, 5)?;
    Ok(Attachment {
        id: row.parsed(0)?,
        validation: row.parsed(1)?,
        resource: row.parsed(2)?,
        scope,
        args,
        created_at: row.time(6)?,
    })
}
