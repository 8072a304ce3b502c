//! Validations: which there are, what is run for them, and what their answers mean.
//!
//! [`ValidationRegistry`] keeps what users define and where it is attached. [`prepare`] says what an attachment asks to be run, [`evaluate_output`] what the output of a wrapped
//! tool means; a command's is judged by the domain's `Verdict::of_command`. Nothing is run here.

mod evaluation;
mod registry;

pub use evaluation::{
    ArgumentsError, PreparedValidation, check_arguments, evaluate_output, prepare, read_arguments,
};
pub use registry::{
    AttachmentRequest, AttachmentView, ValidationRegistry, ValidationRegistryError,
    collect_validations,
};
