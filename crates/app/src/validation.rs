//! Handlers of validations and their attachments, one file per verb.

mod add;
mod attach;
mod detach;
mod list;
mod remove;
mod show;

use cleveragents_api::NextStep;
use cleveragents_api::tool::ToolType;
use cleveragents_api::validation::{
    AttachmentDetails, ValidationAttach, ValidationCapability, ValidationDetails,
};
use cleveragents_definitions::FORMAT_VERSION;
use cleveragents_domain::{NamespacedName, ValidationSource};
use cleveragents_engine::validations::{AttachmentView, ValidationRegistryError};
use cleveragents_ports::{Entity, StoreError, ValidationRow};

pub use add::read_validation_to_add;

use crate::failure::{RequestError, unknown_name_failure};
use crate::services::Services;

/// Converts an error about the validation `name`; if it does not exist, adds similar names.
async fn validation_failure(
    services: &Services,
    error: ValidationRegistryError,
    name: &NamespacedName,
) -> RequestError {
    match error {
        ValidationRegistryError::Store(StoreError::NotFound {
            entity: Entity::Validation,
            ..
        }) => {
            let all = services.validations().validations().await;
            let known: Vec<NamespacedName> = all.map_or_else(
                |_| Vec::new(),
                |(rows, _)| rows.into_iter().map(|row| row.validation.name).collect(),
            );
            unknown_name_failure(Entity::Validation, name, &known)
        }
        other => other.into(),
    }
}

/// Returns the step of attaching a validation to a resource that the user has to name.
fn attach_step(name: &NamespacedName) -> NextStep {
    NextStep::fill_in::<ValidationAttach>(&[
        ("resource", "RESOURCE"),
        ("validation", &name.to_string()),
    ])
}

fn details(row: ValidationRow) -> ValidationDetails {
    let validation = row.validation;
    let (run, wrapped) = match validation.source {
        ValidationSource::Run(command) => (Some(command), None),
        ValidationSource::Wraps(wrapped) => (None, Some(wrapped)),
    };
    let (wraps, input, transform) = match wrapped {
        Some(it) => (Some(it.tool), Some(it.input), Some(it.transform)),
        None => (None, None, None),
    };
    ValidationDetails {
        name: validation.name,
        description: validation.description,
        tool_type: ToolType::Validation,
        mode: validation.mode,
        run,
        wraps,
        input,
        transform,
        timeout: validation.timeout,
        capability: ValidationCapability {
            read_only: true,
            writes: false,
            checkpointable: false,
        },
        hash: row.hash,
        schema_version: FORMAT_VERSION,
        version: row.version,
        created: row.created_at,
        updated: row.updated_at,
    }
}

fn attachment_details(view: AttachmentView) -> AttachmentDetails {
    let attachment = view.attachment;
    AttachmentDetails {
        attachment_id: attachment.id,
        validation: attachment.validation,
        mode: view.validation.mode,
        resource: view.resource,
        resource_id: attachment.resource,
        scope: attachment.scope.kind(),
        scope_target: attachment.scope.target(),
        args: attachment.args,
        created_at: attachment.created_at,
    }
}
