//! Sample actors, validations and attachments with every field set, as in
//! [`samples`](crate::samples).

#![expect(
    clippy::expect_used,
    reason = "a sample that is not legal must fail the test"
)]

use std::collections::BTreeMap;

use cleveragents_domain::id::{AttachmentId, ResourceId};
use cleveragents_domain::validation::WrappedTool;
use cleveragents_domain::{
    Actor, ActorKind, ActorStep, Attachment, AttachmentScope, ToolActor, Validation,
    ValidationMode, ValidationSource,
};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{ActorRow, Ids, StoreHandle, ValidationRow};
use serde_json::json;

use crate::lifecycle_samples::resource;
use crate::samples::{at, name};
use crate::store_access::write;

/// A text that is hard to store.
const ODD: &str = "schreibt \0 nichts \u{fdd0}0 – \"so\"\n";

/// An actor with every kind of step.
pub fn actor(text: &str) -> Actor {
    Actor {
        name: name(text),
        description: ODD.to_owned(),
        kind: ActorKind::Tool(ToolActor {
            steps: vec![
                ActorStep {
                    tool: name("builtin/file-write"),
                    input: json!({"path": "a", "content": ODD, "deep": [1, 0.1, null, {"b": true}]}),
                    id: Some("write".to_owned()),
                    when: Some("args.x > 1".to_owned()),
                    resource: Some(name("prod:team/shop")),
                },
                ActorStep {
                    tool: name("builtin/git-status"),
                    input: json!({}),
                    id: None,
                    when: None,
                    resource: None,
                },
            ],
            fix: Vec::new(),
        }),
    }
}

/// The row of [`actor`], created at [`at`]`(seconds)`.
///
/// # Panics
///
/// Never: an actor is valid JSON.
pub fn actor_row(text: &str, seconds: i64) -> ActorRow {
    ActorRow::new(actor(text), at(seconds)).expect("a row")
}

/// A required validation that uses a tool.
pub fn validation(text: &str) -> Validation {
    Validation {
        name: name(text),
        description: ODD.to_owned(),
        mode: ValidationMode::Required,
        source: ValidationSource::Wraps(WrappedTool {
            tool: name("builtin/file-search"),
            input: json!({"pattern": "{{ args.pattern | default('TODO') }}"}),
            transform: "output.count == 0".to_owned(),
        }),
        timeout: 7,
    }
}

/// The row of [`validation`], created at [`at`]`(seconds)`.
///
/// # Panics
///
/// Never: a validation is valid JSON.
pub fn validation_row(text: &str, seconds: i64) -> ValidationRow {
    ValidationRow::new(validation(text), at(seconds)).expect("a row")
}

pub async fn store_validation(store: &StoreHandle, text: &str) {
    let row = validation_row(text, 0);
    write(store, move |tx| tx.insert_validation(&row)).await;
}

pub async fn store_resource(store: &StoreHandle, text: &str) -> ResourceId {
    let sample = resource(text, format!("/srv/{text}").as_bytes(), 0);
    let id = sample.id;
    write(store, move |tx| tx.insert_resource(&sample)).await;
    id
}

/// An attachment of a validation.
pub fn attachment(
    text: &str,
    resource: ResourceId,
    scope: AttachmentScope,
    seconds: i64,
) -> Attachment {
    Attachment {
        id: AttachmentId::new(SystemIds.next()),
        validation: name(text),
        resource,
        scope,
        args: BTreeMap::from([("pattern".to_owned(), json!(ODD))]),
        created_at: at(seconds),
    }
}
