//! The reply to a request: the answer, and messages besides it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failure::ExitClass;
use crate::next_step::NextStep;

/// The reply to a request that succeeded, at least in part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reply<A> {
    pub answer: A,
    /// In the order in which they should be displayed.
    pub messages: Vec<Message>,
    /// Anything but `Ok` means that the request stopped short of what it was asked to do.
    pub exit: ExitClass,
}

/// A message besides the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    pub level: MessageLevel,
    pub content: NextStep,
}

/// The meaning of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageLevel {
    Info,
    /// A reason that people see only on request.
    Detail,
    /// Something to do next.
    Hint,
    Warn,
    Error,
}

impl<A> Reply<A> {
    pub fn new(answer: A) -> Self {
        Self {
            answer,
            messages: Vec::new(),
            exit: ExitClass::Ok,
        }
    }

    /// Converts the answer and keeps the rest.
    pub fn map<B>(self, convert: impl FnOnce(A) -> B) -> Reply<B> {
        Reply {
            answer: convert(self.answer),
            messages: self.messages,
            exit: self.exit,
        }
    }

    #[must_use]
    pub fn info(self, text: impl Into<String>) -> Self {
        self.with_message(MessageLevel::Info, text.into())
    }

    #[must_use]
    pub fn detail(self, text: impl Into<String>) -> Self {
        self.with_message(MessageLevel::Detail, text.into())
    }

    #[must_use]
    pub fn warn(self, text: impl Into<String>) -> Self {
        self.with_message(MessageLevel::Warn, text.into())
    }

    #[must_use]
    pub fn error(self, text: impl Into<String>) -> Self {
        self.with_message(MessageLevel::Error, text.into())
    }

    #[must_use]
    pub fn hint(self, step: impl Into<NextStep>) -> Self {
        self.with_message(MessageLevel::Hint, step)
    }

    #[must_use]
    pub fn with_message(mut self, level: MessageLevel, content: impl Into<NextStep>) -> Self {
        let content = content.into();
        self.messages.push(Message { level, content });
        self
    }

    /// Puts `earlier` messages before those of the reply.
    #[must_use]
    pub fn after(mut self, earlier: Vec<Message>) -> Self {
        self.messages.splice(0..0, earlier);
        self
    }

    #[must_use]
    pub fn with_exit(mut self, exit: ExitClass) -> Self {
        self.exit = exit;
        self
    }
}
