//! An answer, put together from its parts as they arrive.

use cleveragents_domain::model::{AnsweredCall, FinishReason, ModelAnswer};

use crate::ports::models::{Delta, ModelError, ModelErrorKind};

/// How many calls one answer may ask for.
const CALLS_MAXIMUM: usize = 64;

/// How many bytes an answer may have: what no model writes on purpose.
const BYTES_MAXIMUM: usize = 4 << 20;

/// An answer that has not ended yet.
#[derive(Debug, Default)]
pub(super) struct Answering {
    answer: ModelAnswer,
    bytes: usize,
    finished: bool,
}

impl Answering {
    /// Takes the next part. One that no answer can have ends it with an error.
    pub(super) fn take(&mut self, delta: Delta) -> Result<(), ModelError> {
        match delta {
            Delta::Text(text) => {
                self.grow(text.len())?;
                self.answer.text.push_str(&text);
            }
            Delta::ToolCall {
                index,
                tool,
                arguments,
            } => {
                self.grow(arguments.len() + tool.as_ref().map_or(0, String::len))?;
                let calls = &mut self.answer.tool_calls;
                if index > calls.len() || index >= CALLS_MAXIMUM {
                    let reason = format!("call {index} after {} calls", calls.len());
                    return Err(malformed(reason));
                }
                if index == calls.len() {
                    calls.push(AnsweredCall::default());
                }
                let call = &mut calls[index];
                if let Some(tool) = tool {
                    call.tool = tool;
                }
                call.arguments.push_str(&arguments);
            }
            Delta::Usage(usage) => self.answer.usage = usage,
            Delta::Finished(reason) => {
                self.answer.finish = reason;
                self.finished = true;
            }
        }
        Ok(())
    }

    /// The answer, if it has come to its end.
    pub(super) fn whole(self) -> Result<ModelAnswer, ModelError> {
        match (self.finished, self.answer.finish) {
            (true, FinishReason::Refused) => Err(ModelError {
                kind: ModelErrorKind::InvalidRequest,
                message: "the model's vendor held the answer back".to_owned(),
                retry_after: None,
            }),
            (true, _) => Ok(self.answer),
            (false, _) => Err(ModelError {
                kind: ModelErrorKind::Truncated,
                message: "the answer ended before it was complete".to_owned(),
                retry_after: None,
            }),
        }
    }

    /// What has come so far, for an answer that never ends well.
    pub(super) fn so_far(&self) -> &ModelAnswer {
        &self.answer
    }

    fn grow(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes > BYTES_MAXIMUM {
            true => Err(malformed(format!(
                "the answer has more than {BYTES_MAXIMUM} bytes"
            ))),
            false => Ok(()),
        }
    }
}

fn malformed(message: String) -> ModelError {
    ModelError {
        kind: ModelErrorKind::Malformed,
        message,
        retry_after: None,
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::model::Usage;

    use super::*;

    fn call(index: usize, tool: Option<&str>, arguments: &str) -> Delta {
        Delta::ToolCall {
            index,
            tool: tool.map(str::to_owned),
            arguments: arguments.to_owned(),
        }
    }

    #[test]
    fn parts_of_calls_that_interleave_come_together() {
        let mut answering = Answering::default();
        let deltas = [
            Delta::Text("Let me ".to_owned()),
            call(0, Some("a/b"), ""),
            call(1, Some("c/d"), "{\"x\""),
            Delta::Text("look".to_owned()),
            call(0, None, "{}"),
            call(1, None, ":1}"),
            Delta::Usage(Usage {
                output_tokens: 1,
                ..Usage::default()
            }),
            Delta::Usage(Usage {
                output_tokens: 9,
                ..Usage::default()
            }),
            Delta::Finished(FinishReason::ToolCalls),
        ];
        for delta in deltas {
            answering.take(delta).unwrap();
        }
        let answer = answering.whole().unwrap();
        assert_eq!(answer.text, "Let me look");
        let calls: Vec<(&str, &str)> = answer
            .tool_calls
            .iter()
            .map(|it| (it.tool.as_str(), it.arguments.as_str()))
            .collect();
        assert_eq!(calls, [("a/b", "{}"), ("c/d", "{\"x\":1}")]);
        assert_eq!(answer.usage.output_tokens, 9);
    }

    #[test]
    fn an_answer_that_was_held_back_is_none() {
        let mut answering = Answering::default();
        answering
            .take(Delta::Finished(FinishReason::Refused))
            .unwrap();
        let error = answering.whole().unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
    }

    #[test]
    fn an_answer_without_an_end_is_none() {
        let mut answering = Answering::default();
        answering.take(Delta::Text("Let".to_owned())).unwrap();
        assert_eq!(answering.so_far().text, "Let");
        let error = answering.whole().unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Truncated);
    }

    #[test]
    fn what_no_answer_can_have_ends_it() {
        let mut answering = Answering::default();
        let far = answering.take(call(2, Some("a/b"), "")).unwrap_err();
        assert_eq!(far.kind, ModelErrorKind::Malformed);
        let mut answering = Answering::default();
        let part = "x".repeat(BYTES_MAXIMUM / 2);
        answering.take(Delta::Text(part.clone())).unwrap();
        answering.take(Delta::Text(part)).unwrap();
        let more = answering.take(Delta::Text("x".to_owned())).unwrap_err();
        assert!(more.message.contains("more than 4194304 bytes"));
        let mut answering = Answering::default();
        for index in 0..CALLS_MAXIMUM {
            answering.take(call(index, Some("a/b"), "")).unwrap();
        }
        assert!(answering.take(call(CALLS_MAXIMUM, None, "")).is_err());
    }
}
