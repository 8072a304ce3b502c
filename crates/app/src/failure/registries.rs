//! Converts errors about actors and validations into failures with hints.

use cleveragents_api::action::ActionArchive;
use cleveragents_api::actor::{ActorRemove, ActorValidate};
use cleveragents_api::validation::{ValidationAttach, ValidationDetach, ValidationList};
use cleveragents_api::{ExitClass, FailureKind, NextStep};
use cleveragents_domain::id::AttachmentId;
use cleveragents_domain::{NamespacedName, Timestamp};
use cleveragents_engine::actors::ActorRegistryError;
use cleveragents_engine::validations::ValidationRegistryError;
use cleveragents_ports::{Entity, StoreError};

use super::RequestError;
use crate::nearest::nearest;
use crate::next_steps::{actors_step, list_step, show_record_step};

/// Number of names that a message lists; JSON output lists all.
const NAMED_MAXIMUM: usize = 10;

impl From<ActorRegistryError> for RequestError {
    fn from(error: ActorRegistryError) -> Self {
        let shown = error.to_string();
        match error {
            ActorRegistryError::Store(error) => error.into(),
            ActorRegistryError::Invalid(_) => Self::usage(shown)
                .kind(FailureKind::Invalid)
                .hint(NextStep::fill_in::<ActorValidate>(&[("config", "FILE")])),
            ActorRegistryError::BuiltIn { .. } => Self::new(ExitClass::Conflict, shown)
                .kind(FailureKind::BuiltIn)
                .because("it is a part of the program")
                .hint(actors_step()),
            ActorRegistryError::ReservedForModel { .. } => Self::new(ExitClass::Conflict, shown)
                .kind(FailureKind::BuiltIn)
                .because("names of models that are configured cannot be taken")
                .hint("give the actor another name, such as one in `local/`"),
            ActorRegistryError::InUse { name, actions } => {
                let shown: Vec<String> = actions.iter().map(ToString::to_string).collect();
                Self::new(ExitClass::Conflict, format!("the actor {name} is in use"))
                    .kind(FailureKind::InUse)
                    .because(format!("used by {}", join_few(&shown)))
                    .because("their plans could not start without it")
                    .hint(NextStep::send(&ActionArchive {
                        name: actions[0].clone(),
                        folder: None,
                    }))
                    .hint(NextStep::send(&ActorRemove { name, force: true }))
                    .with_facts(|facts| facts.actions = Some(actions))
            }
        }
    }
}

impl From<ValidationRegistryError> for RequestError {
    fn from(error: ValidationRegistryError) -> Self {
        let shown = error.to_string();
        match error {
            ValidationRegistryError::Store(error) => error.into(),
            ValidationRegistryError::Invalid(_) => Self::usage(shown)
                .kind(FailureKind::Invalid)
                .hint("agents validation add --help"),
            ValidationRegistryError::Arguments(_) => Self::usage("the arguments do not match")
                .kind(FailureKind::Argument)
                .because(shown)
                .hint(NextStep::fill_in::<ValidationAttach>(&[
                    ("resource", "RESOURCE"),
                    ("validation", "VALIDATION"),
                    ("args", "NAME=VALUE"),
                ])),
            ValidationRegistryError::Attached { name, attachments } => {
                let what = format!("the validation {name} is attached");
                let shorts: Vec<String> = attachments.iter().map(|id| short_id(id)).collect();
                let mut failure = Self::new(ExitClass::Conflict, what)
                    .kind(FailureKind::Attached)
                    .because(format!("as {}", join_few(&shorts)));
                let hints = shorts.iter().take(NAMED_MAXIMUM);
                failure.next_steps.extend(hints.map(|id| detach_step(id)));
                let ids = attachments.iter().filter_map(|it| it.parse().ok());
                failure.with_facts(|facts| facts.attachments = Some(ids.collect()))
            }
            ValidationRegistryError::AttachedAlready {
                validation,
                attachment,
            } => {
                let what = format!("the validation {validation} is already attached there");
                Self::new(ExitClass::Conflict, what)
                    .kind(FailureKind::Taken)
                    .because(
                        "in one scope it is attached to a resource once for the same arguments",
                    )
                    .hint(NextStep::send(&ValidationList::default()))
                    .hint(detach_step(&short_id(&attachment)))
                    .with_facts(|facts| facts.attachment_id = attachment.parse().ok())
            }
        }
    }
}

fn detach_step(short_id: &str) -> NextStep {
    NextStep::fill_in::<ValidationDetach>(&[("attachment", short_id)])
}

/// Returns the short form of an attachment id.
fn short_id(id: &str) -> String {
    id.parse::<AttachmentId>()
        .map_or_else(|_| id.to_owned(), |id| id.short())
}

fn join_few(names: &[String]) -> String {
    match names.len().saturating_sub(NAMED_MAXIMUM) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..NAMED_MAXIMUM].join(", ")),
    }
}

/// Returns the failure for a `what` whose name is already taken since `since`.
pub fn name_taken_failure(what: &str, name: &str, since: Option<Timestamp>) -> RequestError {
    let failure = RequestError::new(
        ExitClass::Conflict,
        format!("the {what} {name} already exists"),
    );
    let since = since.map(|since| format_minute(&since));
    let cause = match &since {
        Some(minute) => format!("it was added on {minute}"),
        None => "it was added before".to_owned(),
    };
    failure
        .kind(FailureKind::Taken)
        .because(cause)
        .because("use --update to replace it")
        .with_facts(|facts| facts.since = Some(since))
}

/// Formats as `2026-01-31 12:00`, precise enough for the user to recognise the entry.
fn format_minute(time: &Timestamp) -> String {
    let text: String = time.to_string().chars().take(16).collect();
    text.replace('T', " ")
}

/// Returns the failure for an entity that does not exist, with the most similar names.
pub fn unknown_name_failure(
    entity: Entity,
    name: &NamespacedName,
    known: &[NamespacedName],
) -> RequestError {
    let missing = StoreError::NotFound {
        entity,
        id: name.to_string(),
    };
    let mut failure =
        RequestError::from(missing).because("it was never added under this name, or was removed");
    for near in nearest(name, known) {
        failure = failure.hints(show_record_step(entity, &near.to_string()));
    }
    failure.hints(list_step(entity))
}
