//! Notices: messages of a request about other work, such as an interrupted apply that it finished.
//!
//! [`App::call`](crate::App::call) puts them into the reply. If the request fails they are only
//! logged, because a failure has no messages.

use std::sync::{Mutex, PoisonError};

use cleveragents_api::{Message, MessageLevel, NextStep};

use crate::services::Services;

/// The notices of one request, until its reply is complete.
#[derive(Debug, Default)]
pub(crate) struct RequestNotices {
    messages: Mutex<Vec<Message>>,
}

impl RequestNotices {
    pub(crate) fn add(&self, notices: Vec<Message>) {
        // A list of messages is valid at every moment, so a panic of another holder does not
        // matter.
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.extend(notices);
    }

    pub(crate) fn take(&self) -> Vec<Message> {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *messages)
    }
}

/// Returns a warning and the next steps that belong to it.
pub(crate) fn warning(text: String, steps: impl IntoIterator<Item = NextStep>) -> Vec<Message> {
    let warning = Message {
        level: MessageLevel::Warn,
        content: text.into(),
    };
    let hint = |content| Message {
        level: MessageLevel::Hint,
        content,
    };
    let hints = steps.into_iter().map(hint);
    [warning].into_iter().chain(hints).collect()
}

/// Logs notices that no reply contains.
pub(crate) fn log_notices(services: &Services, notices: &[Message]) {
    for message in notices {
        let text = services.adapters().next_step_text(&message.content);
        match message.level {
            MessageLevel::Hint => tracing::warn!("next: {text}"),
            _ => tracing::warn!("{text}"),
        }
    }
}
