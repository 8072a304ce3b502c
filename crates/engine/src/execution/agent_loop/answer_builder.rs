//! Assembles a model's answer from its streamed parts.

use cleveragents_domain::model::{AnswerToolCall, FinishReason, ModelAnswer};

use cleveragents_ports::models::{Delta, ModelError, ModelErrorKind};

/// Maximum number of calls in one answer.
const CALLS_MAXIMUM: usize = 64;

/// Maximum size of an answer in bytes. No legitimate answer reaches it.
const BYTES_MAXIMUM: usize = 4 << 20;

/// An answer that is not complete yet.
#[derive(Debug, Default)]
pub(super) struct ModelAnswerBuilder {
    answer: ModelAnswer,
    bytes: usize,
    finished: bool,
}

impl ModelAnswerBuilder {
    /// Adds the next part. Fails on a part that no valid answer can have.
    pub(super) fn push(&mut self, delta: Delta) -> Result<(), ModelError> {
        match delta {
            Delta::Text(text) => {
                self.count_bytes(text.len())?;
                self.answer.text.push_str(&text);
            }
            Delta::ToolCall {
                index,
                tool,
                arguments,
            } => {
                self.count_bytes(arguments.len() + tool.as_ref().map_or(0, String::len))?;
                let calls = &mut self.answer.tool_calls;
                if index > calls.len() || index >= CALLS_MAXIMUM {
                    let reason = format!("call {index} after {} calls", calls.len());
                    return Err(malformed(reason));
                }
                if index == calls.len() {
                    calls.push(AnswerToolCall::default());
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

    pub(super) fn into_answer(self) -> ModelAnswer {
        self.answer
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Fails if the answer is incomplete or withheld.
    pub(super) fn check(&self) -> Result<(), ModelError> {
        match (self.finished, self.answer.finish) {
            (true, FinishReason::Refused) => Err(ModelError {
                kind: ModelErrorKind::InvalidRequest,
                message: "the provider withheld the answer".to_owned(),
                retry_after: None,
                answer_began: true,
            }),
            (true, _) => Ok(()),
            (false, _) => Err(ModelError {
                kind: ModelErrorKind::Truncated,
                message: "the answer ended before it was complete".to_owned(),
                retry_after: None,
                answer_began: true,
            }),
        }
    }

    /// Returns the parts received so far, for an answer that failed.
    pub(super) fn partial(&self) -> &ModelAnswer {
        &self.answer
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > BYTES_MAXIMUM {
            Err(malformed(format!(
                "the answer has more than {BYTES_MAXIMUM} bytes"
            )))
        } else {
            Ok(())
        }
    }
}

fn malformed(message: String) -> ModelError {
    ModelError {
        kind: ModelErrorKind::Malformed,
        message,
        retry_after: None,
        answer_began: true,
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
    fn interleaved_call_parts_are_joined() {
        let mut builder = ModelAnswerBuilder::default();
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
            builder.push(delta).unwrap();
        }
        builder.check().unwrap();
        let answer = builder.into_answer();
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
    fn a_withheld_answer_is_an_error() {
        let mut builder = ModelAnswerBuilder::default();
        builder
            .push(Delta::Finished(FinishReason::Refused))
            .unwrap();
        let error = builder.check().unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
    }

    #[test]
    fn an_answer_without_an_end_is_an_error() {
        let mut builder = ModelAnswerBuilder::default();
        builder.push(Delta::Text("Let".to_owned())).unwrap();
        assert_eq!(builder.partial().text, "Let");
        let error = builder.check().unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Truncated);
    }

    #[test]
    fn malformed_parts_are_refused() {
        let mut builder = ModelAnswerBuilder::default();
        let far = builder.push(call(2, Some("a/b"), "")).unwrap_err();
        assert_eq!(far.kind, ModelErrorKind::Malformed);
        let mut builder = ModelAnswerBuilder::default();
        let part = "x".repeat(BYTES_MAXIMUM / 2);
        builder.push(Delta::Text(part.clone())).unwrap();
        builder.push(Delta::Text(part)).unwrap();
        let more = builder.push(Delta::Text("x".to_owned())).unwrap_err();
        assert!(more.message.contains("more than 4194304 bytes"));
        let mut builder = ModelAnswerBuilder::default();
        for index in 0..CALLS_MAXIMUM {
            builder.push(call(index, Some("a/b"), "")).unwrap();
        }
        assert!(builder.push(call(CALLS_MAXIMUM, None, "")).is_err());
    }
}
