//! Validations that users define, and the resources they are attached to. A change and its event
//! are one commit (law 2); nothing is cached.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cleveragents_domain::id::{AttachmentId, IdFragment, PlanId, ResourceId};
use cleveragents_domain::validation::{
    Applicable, PlanResource, UnknownValidation, ValidationError, ValidationTarget, applicable,
};
use cleveragents_domain::{
    Attachment, AttachmentScope, EventKind, NamespacedName, NewEvent, StreamId, Validation,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::judging::{ArgumentsError, check_arguments};
use crate::actors::registry::repeated;
use crate::actors::{Change, Update};
use crate::lifecycle::until_undisturbed;
use crate::ports::{Ids, Operation, StoreError, StoreHandle, Unit, ValidationRow};

/// Why a request about validations was refused.
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
    #[error("the validation `{validation}` is attached there already, as {attachment}")]
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

/// A validation to be attached.
#[derive(Debug, Clone)]
pub struct AttachmentRequest {
    pub validation: NamespacedName,
    pub resource: NamespacedName,
    pub scope: AttachmentScope,
    pub args: BTreeMap<String, Value>,
}

/// An attachment with the names of what it binds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttachmentView {
    pub attachment: Attachment,
    pub validation: Validation,
    pub resource: NamespacedName,
}

/// The validations, for as many callers at once as there are.
#[derive(Debug, Clone)]
pub struct ValidationRegistry {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
}

impl ValidationRegistry {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>) -> Self {
        Self { store, ids }
    }

    /// Adds a validation, or replaces the one of its name if that is asked for. Of any number who
    /// add one name one has it; the others are told `Taken`, identical content included.
    pub async fn add(
        &self,
        validation: Validation,
        update: Update,
        by: &str,
    ) -> Result<(ValidationRow, Change)> {
        validation.validate()?;
        let by = by.to_owned();
        self.store
            .write(self.operation("validation.add"), move |unit| {
                let new = ValidationRow::new(validation.clone(), unit.now()?)?;
                let (row, change) = match update {
                    Update::Refuse => {
                        unit.insert_validation(&new)?;
                        (new, Change::Added)
                    }
                    Update::Replace => until_undisturbed(unit, |unit| put(unit, &new))?,
                };
                record_change(unit, &row, change, &by)?;
                Ok((row, change))
            })
            .await
    }

    /// The validation of that name, and where it is attached, newest first.
    pub async fn validation(
        &self,
        name: NamespacedName,
    ) -> Result<(ValidationRow, Vec<AttachmentView>)> {
        self.store
            .read(move |unit| {
                let row = unit.validation(&name)?;
                let mut views = views(unit)?;
                views.retain(|view| view.attachment.validation == name);
                Ok((row, views))
            })
            .await
    }

    /// All validations by name, and all attachments, newest first.
    pub async fn validations(&self) -> Result<(Vec<ValidationRow>, Vec<AttachmentView>)> {
        self.store
            .read(|unit| Ok((unit.validations()?, views(unit)?)))
            .await
    }

    /// Removes a validation; one that is attached is refused, naming the attachments.
    pub async fn remove(&self, name: NamespacedName, by: &str) -> Result<ValidationRow> {
        let by = by.to_owned();
        self.store
            .write(self.operation("validation.remove"), move |unit| {
                let removed = until_undisturbed(unit, |unit| {
                    let row = unit.validation(&name)?;
                    unit.delete_validation(&row)?;
                    Ok(row)
                });
                let row = removed.map_err(|error| attached(&name, error))?;
                let record = json!({"name": name, "hash": row.hash, "version": row.version});
                let event = event(EventKind::ValidationRemoved, &record, &by)?;
                unit.append(StreamId::System, &[event])?;
                Ok(row)
            })
            .await
    }

    /// Attaches a validation to a resource; its arguments must be those that it takes.
    pub async fn attach(&self, request: AttachmentRequest, by: &str) -> Result<AttachmentView> {
        let id = AttachmentId::new(self.ids.next());
        let by = by.to_owned();
        self.store
            .write(self.operation("validation.attach"), move |unit| {
                let attachment = Attachment {
                    id,
                    validation: request.validation.clone(),
                    resource: unit.resource(&request.resource)?.id,
                    scope: request.scope.clone(),
                    args: request.args.clone(),
                    created_at: unit.now()?,
                };
                unit.insert_attachment(&attachment)
                    .map_err(|error| named(&request, error))?;
                // Read after it is held: nobody can remove it now.
                let validation = unit.validation(&request.validation)?.validation;
                check_arguments(&validation, &request.args)?;
                record_attachment(unit, EventKind::ValidationAttached, &attachment, &by)?;
                Ok(AttachmentView {
                    attachment,
                    validation,
                    resource: request.resource.clone(),
                })
            })
            .await
    }

    /// Detaches the one attachment whose id begins or ends with `fragment`.
    pub async fn detach(&self, fragment: IdFragment, by: &str) -> Result<AttachmentView> {
        let by = by.to_owned();
        self.store
            .write(self.operation("validation.detach"), move |unit| {
                let found = unit.find_attachment(&fragment)?;
                if let AttachmentScope::Plan(plan) = found.scope {
                    // The plan before its stream, as everybody locks them.
                    unit.plan_for_update(plan)?;
                }
                let view = view(unit, found.clone())?;
                let removed = unit.remove_attachment(found.id)?;
                record_attachment(unit, EventKind::ValidationDetached, &removed, &by)?;
                Ok(view)
            })
            .await
    }

    /// The validations to be run for a plan on these resources, in their order.
    pub async fn applicable_to(
        &self,
        plan: PlanId,
        resources: Vec<PlanResource>,
    ) -> Result<Vec<Applicable>> {
        self.store
            .read(move |unit| Ok(collect(unit, plan, &resources)?))
            .await
    }

    fn operation(&self, label: &'static str) -> Operation {
        Operation::new(&*self.ids, label)
    }
}

/// The validations to be run for a plan on these resources, within a transaction of the caller's.
pub fn collect(
    unit: &mut dyn Unit,
    plan: PlanId,
    resources: &[PlanResource],
) -> Result<Vec<Applicable>, StoreError> {
    let projects = unit.plan(plan)?.brief.projects;
    let ids: Vec<ResourceId> = resources.iter().map(|resource| resource.id).collect();
    let attachments = unit.attachments_to(&ids)?;
    let rows = unit.validations()?;
    let validations: Vec<Validation> = rows.into_iter().map(|row| row.validation).collect();
    let target = ValidationTarget {
        plan,
        projects: &projects,
        resources,
    };
    // None leads nowhere: the store keeps what is attached.
    applicable(target, &attachments, &validations)
        .map_err(|error: UnknownValidation| StoreError::internal(error))
}

fn put(unit: &mut dyn Unit, new: &ValidationRow) -> Result<(ValidationRow, Change), StoreError> {
    match unit.insert_validation(new) {
        Ok(()) => return Ok((new.clone(), Change::Added)),
        Err(StoreError::Taken { .. }) => {}
        Err(error) => return Err(error),
    }
    let known = unit.validation(&new.validation.name).map_err(repeated)?;
    let mut row = ValidationRow {
        created_at: known.created_at,
        version: known.version,
        ..new.clone()
    };
    row.version = unit.replace_validation(&row).map_err(repeated)?;
    Ok((row, Change::Updated))
}

fn views(unit: &mut dyn Unit) -> Result<Vec<AttachmentView>, StoreError> {
    let resources: HashMap<ResourceId, NamespacedName> = unit
        .resources()?
        .into_iter()
        .map(|resource| (resource.id, resource.name))
        .collect();
    let validations: HashMap<NamespacedName, Validation> = unit
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
            _ => Err(leads_nowhere(&attachment)),
        }
    };
    unit.attachments()?.into_iter().map(view).collect()
}

fn view(unit: &mut dyn Unit, attachment: Attachment) -> Result<AttachmentView, StoreError> {
    let resources = unit.resources()?;
    let resource = resources
        .into_iter()
        .find(|resource| resource.id == attachment.resource)
        .ok_or_else(|| leads_nowhere(&attachment))?;
    Ok(AttachmentView {
        validation: unit.validation(&attachment.validation)?.validation,
        resource: resource.name,
        attachment,
    })
}

fn leads_nowhere(attachment: &Attachment) -> StoreError {
    let id = attachment.id;
    StoreError::internal(format!("the attachment {id} leads nowhere"))
}

/// What is missing by its name, not by its id, which nobody gave; what is there by its id.
fn named(request: &AttachmentRequest, error: StoreError) -> ValidationRegistryError {
    match error {
        StoreError::Taken { holder, .. } => ValidationRegistryError::AttachedAlready {
            validation: request.validation.clone(),
            attachment: holder,
        },
        StoreError::NotFound {
            what: "resource", ..
        } => StoreError::NotFound {
            what: "resource",
            id: request.resource.to_string(),
        }
        .into(),
        error => error.into(),
    }
}

fn attached(name: &NamespacedName, error: StoreError) -> ValidationRegistryError {
    match error {
        StoreError::Taken { holder, .. } => ValidationRegistryError::Attached {
            name: name.clone(),
            attachments: holder.split(", ").map(str::to_owned).collect(),
        },
        error => error.into(),
    }
}

fn record_change(
    unit: &mut dyn Unit,
    row: &ValidationRow,
    change: Change,
    by: &str,
) -> Result<(), StoreError> {
    let kind = match change {
        Change::Added => EventKind::ValidationAdded,
        Change::Updated => EventKind::ValidationUpdated,
    };
    let record = json!({
        "name": row.validation.name,
        "mode": row.validation.mode,
        "hash": row.hash,
        "version": row.version,
    });
    let event = event(kind, &record, by)?;
    unit.append(StreamId::System, &[event])?;
    Ok(())
}

/// In the plan's stream if it is for one plan, else in the system's.
fn record_attachment(
    unit: &mut dyn Unit,
    kind: EventKind,
    attachment: &Attachment,
    by: &str,
) -> Result<(), StoreError> {
    let stream = match attachment.scope {
        AttachmentScope::Plan(plan) => StreamId::Plan(plan),
        AttachmentScope::Direct | AttachmentScope::Project(_) => StreamId::System,
    };
    unit.append(stream, &[event(kind, attachment, by)?])?;
    Ok(())
}

fn event(kind: EventKind, payload: &impl Serialize, by: &str) -> Result<NewEvent, StoreError> {
    NewEvent::new(kind, by, payload).map_err(StoreError::internal)
}
