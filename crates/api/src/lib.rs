//! Typed requests, answers and failures, one request per use case.
//!
//! A front end builds a [`Request`], the `app` crate handles it, and the front end displays the
//! [`Reply`] or the [`Failure`]. The types say nothing about commands, terminals or HTTP: a next
//! step is a request too ([`NextStep`]), which each front end displays in its own way. Files,
//! standard input and the working directory of the caller are values in a request.
//!
//! Requests are grouped by noun, one module each. Start reading at [`request`], then [`action`].

pub mod action;
pub mod actor;
pub mod automation_profile;
pub mod blame;
pub mod definition_change;
pub mod definition_text;
pub mod failure;
pub mod failure_facts;
pub mod failure_kind;
pub mod gc;
pub mod info;
pub mod invariant;
pub mod next_step;
pub mod plan;
pub mod project;
pub mod registry;
pub mod reply;
pub mod request;
pub mod resource;
pub mod sandbox;
pub mod time_span;
pub mod tool;
pub mod uncommitted;
pub mod validation;
pub mod verify_commit;
pub mod watch;

pub use definition_text::DefinitionText;
pub use failure::{ExitClass, Failure};
pub use failure_facts::FailureFacts;
pub use failure_kind::FailureKind;
pub use next_step::NextStep;
pub use registry::{RequestInfo, all_requests, failure_schema};
pub use reply::{Message, MessageLevel, Reply};
pub use request::{Request, RequestKind};
pub use time_span::TimeSpan;
pub use watch::WatchItem;
