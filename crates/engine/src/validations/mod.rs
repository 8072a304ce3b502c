//! Validations: which exist, what to run for them, and how to evaluate their results.
//!
//! [`ValidationRegistry`] stores validations defined by users and their attachments. [`prepare`]
//! returns what to run for an attachment. [`evaluate_output`] evaluates the output of a wrapped
//! tool; the domain's `ValidationVerdict::from_command` evaluates a command. Nothing is run here.

mod evaluation;
mod registry;

pub use evaluation::{
    ArgumentsError, PreparedValidation, check_arguments, evaluate_output, prepare, read_arguments,
};
pub use registry::{
    AttachmentRequest, AttachmentView, ValidationRegistry, ValidationRegistryError,
    collect_validations,
};
