//! Validations that users have defined, and the resources they are attached to. An attachment and
//! the removal of what it names exclude each other, so none leads nowhere.

use cleveragents_domain::id::{AttachmentId, IdFragment, ResourceId};
use cleveragents_domain::{Attachment, NamespacedName, Timestamp, Validation};
use serde::{Deserialize, Serialize};

use super::Result;
use super::actors::content_hash;

/// A stored validation and the version that guards it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValidationRow {
    pub validation: Validation,
    /// What the definition says, as a hash: another that says the same has the same.
    pub hash: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub version: i64,
}

impl ValidationRow {
    /// The row of a validation that is new at `at`.
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
    /// Stores a new validation; a taken name is `Taken`, saying since when.
    fn insert_validation(&mut self, row: &ValidationRow) -> Result<()>;

    /// Replaces the validation of the same name if `row.version` is still the newest; answers with
    /// the next version. When it was made, and where it is attached, stays.
    fn replace_validation(&mut self, row: &ValidationRow) -> Result<i64>;

    fn validation(&mut self, name: &NamespacedName) -> Result<ValidationRow>;

    /// All validations, by name.
    fn validations(&mut self) -> Result<Vec<ValidationRow>>;

    /// Removes the validation if `row.version` is still the newest; one that is attached is
    /// `Taken`, naming the attachments.
    fn delete_validation(&mut self, row: &ValidationRow) -> Result<()>;
}

pub trait Attachments {
    /// Attaches a validation; the same one with the same arguments, resource and scope is `Taken`,
    /// naming the attachment. Whatever it names that is not there is `NotFound`.
    fn insert_attachment(&mut self, attachment: &Attachment) -> Result<()>;

    /// The one attachment whose id begins or ends with `fragment`; several are `Ambiguous`.
    fn find_attachment(&mut self, fragment: &IdFragment) -> Result<Attachment>;

    /// Takes an attachment away and answers with it; of several who try, one has it.
    fn remove_attachment(&mut self, id: AttachmentId) -> Result<Attachment>;

    /// All attachments, newest first.
    fn attachments(&mut self) -> Result<Vec<Attachment>>;

    /// The attachments to any of these resources, newest first.
    fn attachments_to(&mut self, resources: &[ResourceId]) -> Result<Vec<Attachment>>;
}
