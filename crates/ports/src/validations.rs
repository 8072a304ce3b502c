//! Validations defined by users, their attachments to resources, and their results in plans.
//! Attaching and deleting the attached items exclude each other, so there are no dangling
//! attachments.

use cleveragents_domain::id::{AttachmentId, IdFragment, PlanId, ResourceId};
use cleveragents_domain::{Attachment, NamespacedName, Timestamp, Validation, ValidationSummary};
use serde::{Deserialize, Serialize};

use super::Result;
use super::actors::content_hash;

/// A stored validation with its version for optimistic locking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValidationRow {
    pub validation: Validation,
    /// Hash of the definition's content; equal content has an equal hash.
    pub hash: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub version: i64,
}

impl ValidationRow {
    /// Creates the row of a new validation.
    pub fn new(validation: Validation, at: Timestamp) -> Result<Self> {
        Ok(Self {
            hash: content_hash(&validation)?,
            validation,
            created_at: at,
            updated_at: at,
            version: 1,
        })
    }
}

pub trait Validations {
    /// Stores a new validation. Fails with `Taken`, which says since when, if the name is taken.
    fn insert_validation(&mut self, row: &ValidationRow) -> Result<()>;

    /// Replaces the validation of the same name if `row.version` is the newest; returns the next
    /// version. Keeps the creation time and the attachments.
    fn replace_validation(&mut self, row: &ValidationRow) -> Result<i64>;

    fn validation(&mut self, name: &NamespacedName) -> Result<ValidationRow>;

    /// Returns all validations, ordered by name.
    fn validations(&mut self) -> Result<Vec<ValidationRow>>;

    /// Deletes the validation if `row.version` is the newest. Fails with `Referenced`, which names
    /// the attachments, if it is attached.
    fn delete_validation(&mut self, row: &ValidationRow) -> Result<()>;

    /// Attaches a validation. Fails with `Taken`, which names the attachment, if the same
    /// validation is attached with the same arguments, resource and scope. Fails with `NotFound` if
    /// a named item does not exist.
    fn insert_attachment(&mut self, attachment: &Attachment) -> Result<()>;

    /// Returns the attachment whose id starts or ends with `fragment`. Fails with `Ambiguous` if
    /// several match.
    fn find_attachment(&mut self, fragment: &IdFragment) -> Result<Attachment>;

    /// Removes an attachment and returns it. Of several concurrent callers one succeeds.
    fn remove_attachment(&mut self, id: AttachmentId) -> Result<Attachment>;

    /// Returns all attachments, newest first.
    fn attachments(&mut self) -> Result<Vec<Attachment>>;

    /// Returns the attachments to any of these resources, newest first.
    fn attachments_to(&mut self, resources: &[ResourceId]) -> Result<Vec<Attachment>>;

    /// Stores the summary of a validation round of a plan's attempt. Replaces one of the same
    /// round.
    fn put_validation_run(
        &mut self,
        plan: PlanId,
        attempt: u32,
        round: u32,
        summary: &ValidationSummary,
    ) -> Result<()>;

    /// Returns the newest summary of the plan's attempt.
    fn newest_validation_run(
        &mut self,
        plan: PlanId,
        attempt: u32,
    ) -> Result<Option<ValidationSummary>>;
}
