//! Validations defined by users, and their attachments to resources. A change and its event are one
//! commit (law 2). Nothing is cached.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cleveragents_domain::event::payloads::{
    ValidationAdded, ValidationAttached, ValidationDefinition, ValidationDetached,
    ValidationRemoved, ValidationUpdated,
};
use cleveragents_domain::id::{AttachmentId, IdFragment, PlanId, ResourceId};
use cleveragents_domain::validation::{
    ApplicableValidation, PlanResource, UnknownValidation, ValidationError, ValidationTarget,
    applicable_validations,
};
use cleveragents_domain::{
    Attachment, AttachmentScope, EventPayload, NamespacedName, StreamId, Validation,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::evaluation::{ArgumentsError, check_arguments};
use crate::actors::registry::not_found_as_conflict;
use crate::actors::{DuplicatePolicy, RegistryChange};
use crate::journal::new_event;
use crate::lifecycle::retry_on_conflict;
use cleveragents_ports::{
    Entity, Ids, StoreError, StoreHandle, StoreOperation, Transaction, ValidationRow,
};

#[derive(Debug, Clone, thiserror::Error)]
pub enum ValidationRegistryError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    #[error(transparent)]
    Arguments(Box<ArgumentsError>),
    #[error("the validation `{name}` is attached as {}", .attachments.join(", "))]
    Attached {
        name: NamespacedName,
        attachments: Vec<String>,
    },
    #[error("the validation `{validation}` is already attached there, as {attachment}")]
    AttachedAlready {
        validation: NamespacedName,
        attachment: String,
    },
}

impl From<ArgumentsError> for ValidationRegistryError {
    fn from(error: ArgumentsError) -> Self {
        Self::Arguments(Box::new(error))
    }
}

type Result<T, E = ValidationRegistryError> = std::result::Result<T, E>;

/// A validation to attach.
#[derive(Debug, Clone)]
pub struct AttachmentRequest {
    pub validation: NamespacedName,
    pub resource: NamespacedName,
    pub scope: AttachmentScope,
    pub args: BTreeMap<String, Value>,
}

/// An attachment with the names of its validation and resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttachmentView {
    pub attachment: Attachment,
    pub validation: Validation,
    pub resource: NamespacedName,
}

/// Service for validations. Safe for concurrent callers.
#[derive(Debug, Clone)]
pub struct ValidationRegistry {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
}

impl ValidationRegistry {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>) -> Self {
        Self { store, ids }
    }

    /// Adds a validation, or replaces the one of the same name if requested. Of several concurrent
    /// adds of one name one succeeds; the others fail with `Taken`, even with identical content.
    pub async fn add(
        &self,
        validation: Validation,
        update: DuplicatePolicy,
        by: &str,
    ) -> Result<(ValidationRow, RegistryChange)> {
        validation.validate()?;
        let by = by.to_owned();
        self.store
            .write(self.operation("validation.add"), move |tx| {
                let new = ValidationRow::new(validation.clone(), tx.now()?)?;
                let (row, change) = match update {
                    DuplicatePolicy::Refuse => {
                        tx.insert_validation(&new)?;
                        (new, RegistryChange::Added)
                    }
                    DuplicatePolicy::Replace => {
                        retry_on_conflict(tx, |tx| upsert_validation(tx, &new))?
                    }
                };
                record_change(tx, &row, change, &by)?;
                Ok((row, change))
            })
            .await
    }

    /// Returns the validation of that name, and its attachments, newest first.
    pub async fn validation(
        &self,
        name: NamespacedName,
    ) -> Result<(ValidationRow, Vec<AttachmentView>)> {
        self.store
            .read(move |tx| {
                let row = tx.validation(&name)?;
                let mut views = load_views(tx)?;
                views.retain(|view| view.attachment.validation == name);
                Ok((row, views))
            })
            .await
    }

    /// Returns all validations ordered by name, and all attachments, newest first.
    pub async fn validations(&self) -> Result<(Vec<ValidationRow>, Vec<AttachmentView>)> {
        self.store
            .read(|tx| Ok((tx.validations()?, load_views(tx)?)))
            .await
    }

    /// Removes a validation. Fails with its attachments if it is attached.
    pub async fn remove(&self, name: NamespacedName, by: &str) -> Result<ValidationRow> {
        let by = by.to_owned();
        self.store
            .write(self.operation("validation.remove"), move |tx| {
                let removed = retry_on_conflict(tx, |tx| {
                    let row = tx.validation(&name)?;
                    tx.delete_validation(&row)?;
                    Ok(row)
                });
                let row = removed.map_err(|error| remove_error(&name, error))?;
                let record = ValidationRemoved {
                    name: name.clone(),
                    hash: row.hash.clone(),
                    version: row.version,
                };
                tx.append(StreamId::System, &[new_event(&by, &record)?])?;
                Ok(row)
            })
            .await
    }

    /// Attaches a validation to a resource. Fails if the arguments do not match.
    pub async fn attach(&self, request: AttachmentRequest, by: &str) -> Result<AttachmentView> {
        let id = AttachmentId::new(self.ids.next());
        let by = by.to_owned();
        self.store
            .write(self.operation("validation.attach"), move |tx| {
                let attachment = Attachment {
                    id,
                    validation: request.validation.clone(),
                    resource: tx.resource(&request.resource)?.id,
                    scope: request.scope.clone(),
                    args: request.args.clone(),
                    created_at: tx.now()?,
                };
                tx.insert_attachment(&attachment)
                    .map_err(|error| attach_error(&request, error))?;
                // Read it after the insert, which locks it against removal.
                let validation = tx.validation(&request.validation)?.validation;
                check_arguments(&validation, &request.args)?;
                let attached = ValidationAttached(attachment.clone());
                record_attachment(tx, &attachment.scope, &attached, &by)?;
                Ok(AttachmentView {
                    attachment,
                    validation,
                    resource: request.resource.clone(),
                })
            })
            .await
    }

    /// Detaches the attachment whose id starts or ends with `fragment`.
    pub async fn detach(&self, fragment: IdFragment, by: &str) -> Result<AttachmentView> {
        let by = by.to_owned();
        self.store
            .write(self.operation("validation.detach"), move |tx| {
                let found = tx.find_attachment(&fragment)?;
                if let AttachmentScope::Plan(plan) = found.scope {
                    // Lock order: the plan before its stream.
                    tx.plan_for_update(plan)?;
                }
                let view = load_view(tx, found.clone())?;
                let removed = tx.remove_attachment(found.id)?;
                let detached = ValidationDetached(removed.clone());
                record_attachment(tx, &removed.scope, &detached, &by)?;
                Ok(view)
            })
            .await
    }

    /// Returns the validations to run for a plan on these resources, in order.
    pub async fn applicable_to(
        &self,
        plan: PlanId,
        resources: Vec<PlanResource>,
    ) -> Result<Vec<ApplicableValidation>> {
        self.store
            .read(move |tx| Ok(collect_validations(tx, plan, &resources)?))
            .await
    }

    fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}

/// Returns the validations to run for a plan on these resources, inside the caller's transaction.
pub fn collect_validations(
    tx: &mut dyn Transaction,
    plan: PlanId,
    resources: &[PlanResource],
) -> Result<Vec<ApplicableValidation>, StoreError> {
    let projects = tx.plan(plan)?.brief.projects;
    let ids: Vec<ResourceId> = resources.iter().map(|resource| resource.id).collect();
    let attachments = tx.attachments_to(&ids)?;
    let rows = tx.validations()?;
    let validations: Vec<Validation> = rows.into_iter().map(|row| row.validation).collect();
    let target = ValidationTarget {
        plan,
        projects: &projects,
        resources,
    };
    // The store guarantees that every attachment's validation exists.
    applicable_validations(target, &attachments, &validations)
        .map_err(|error: UnknownValidation| StoreError::internal(error))
}

fn upsert_validation(
    tx: &mut dyn Transaction,
    new: &ValidationRow,
) -> Result<(ValidationRow, RegistryChange), StoreError> {
    match tx.insert_validation(new) {
        Ok(()) => return Ok((new.clone(), RegistryChange::Added)),
        Err(StoreError::Taken { .. }) => {}
        Err(error) => return Err(error),
    }
    let known = tx
        .validation(&new.validation.name)
        .map_err(not_found_as_conflict)?;
    let mut row = ValidationRow {
        created_at: known.created_at,
        version: known.version,
        ..new.clone()
    };
    row.version = tx.replace_validation(&row).map_err(not_found_as_conflict)?;
    Ok((row, RegistryChange::Updated))
}

fn load_views(tx: &mut dyn Transaction) -> Result<Vec<AttachmentView>, StoreError> {
    let resources: HashMap<ResourceId, NamespacedName> = tx
        .resources()?
        .into_iter()
        .map(|resource| (resource.id, resource.name))
        .collect();
    let validations: HashMap<NamespacedName, Validation> = tx
        .validations()?
        .into_iter()
        .map(|row| (row.validation.name.clone(), row.validation))
        .collect();
    let view = |attachment: Attachment| {
        let resource = resources.get(&attachment.resource);
        let validation = validations.get(&attachment.validation);
        match (resource, validation) {
            (Some(resource), Some(validation)) => Ok(AttachmentView {
                resource: resource.clone(),
                validation: validation.clone(),
                attachment,
            }),
            _ => Err(dangling_attachment_error(&attachment)),
        }
    };
    tx.attachments()?.into_iter().map(view).collect()
}

fn load_view(
    tx: &mut dyn Transaction,
    attachment: Attachment,
) -> Result<AttachmentView, StoreError> {
    let resources = tx.resources()?;
    let resource = resources
        .into_iter()
        .find(|resource| resource.id == attachment.resource)
        .ok_or_else(|| dangling_attachment_error(&attachment))?;
    Ok(AttachmentView {
        validation: tx.validation(&attachment.validation)?.validation,
        resource: resource.name,
        attachment,
    })
}

fn dangling_attachment_error(attachment: &Attachment) -> StoreError {
    let id = attachment.id;
    StoreError::internal(format!("the attachment {id} has no resource"))
}

/// Reports a missing item by its name, because the caller did not give an id, and an existing
/// attachment by its id.
fn attach_error(request: &AttachmentRequest, error: StoreError) -> ValidationRegistryError {
    match error {
        StoreError::Taken { holder, .. } => ValidationRegistryError::AttachedAlready {
            validation: request.validation.clone(),
            attachment: holder,
        },
        StoreError::NotFound {
            entity: Entity::Resource,
            ..
        } => StoreError::NotFound {
            entity: Entity::Resource,
            id: request.resource.to_string(),
        }
        .into(),
        error => error.into(),
    }
}

fn remove_error(name: &NamespacedName, error: StoreError) -> ValidationRegistryError {
    match error {
        StoreError::Referenced { referrers, .. } => ValidationRegistryError::Attached {
            name: name.clone(),
            attachments: referrers,
        },
        error => error.into(),
    }
}

fn record_change(
    tx: &mut dyn Transaction,
    row: &ValidationRow,
    change: RegistryChange,
    by: &str,
) -> Result<(), StoreError> {
    let definition = ValidationDefinition {
        name: row.validation.name.clone(),
        mode: row.validation.mode,
        hash: row.hash.clone(),
        version: row.version,
    };
    let event = match change {
        RegistryChange::Added => new_event(by, &ValidationAdded(definition))?,
        RegistryChange::Updated => new_event(by, &ValidationUpdated(definition))?,
    };
    tx.append(StreamId::System, &[event])?;
    Ok(())
}

/// Appends to the plan's stream if the attachment is for one plan, else to the system stream.
fn record_attachment(
    tx: &mut dyn Transaction,
    scope: &AttachmentScope,
    payload: &impl EventPayload,
    by: &str,
) -> Result<(), StoreError> {
    let stream = match scope {
        AttachmentScope::Plan(plan) => StreamId::Plan(*plan),
        AttachmentScope::Direct | AttachmentScope::Project(_) => StreamId::System,
    };
    tx.append(stream, &[new_event(by, payload)?])?;
    Ok(())
}
