//! A model that answers from a script file: one turn per request, including faults.
//!
//! It waits only as long as its script says and uses the runtime's clock, so that tests can pause
//! that clock.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::model::{FinishReason, ModelChoice, ModelRequest, Usage};
use cleveragents_domain::script::{FaultKind, ModelScript, ScriptFault, ScriptTurn};
use cleveragents_ports::models::{
    Delta, Model, ModelError, ModelErrorKind, ModelFacts, ModelStream,
};
use futures_util::stream::unfold;

use crate::settings::ScriptSettings;
use crate::tokens::Vocabulary;

/// The number of characters per part of an answer.
const PART_CHARACTERS: usize = 24;
/// The default delay of each part of a slow answer.
const SLOW_PART_DELAY: Duration = Duration::from_millis(100);
/// The text of a slow turn that has no text.
const SLOW_TEXT: &str = "This answer takes its time, and then it is there.";

/// A parsed and validated script.
#[derive(Debug)]
pub(crate) struct ScriptedModel {
    facts: ModelFacts,
    script: Arc<ModelScript>,
}

/// One step of a stream: wait, then yield a part or fail.
type ScriptStep = (Duration, Result<Delta, ModelError>);

impl ScriptedModel {
    /// Opens the script that `choice` names.
    pub(crate) fn open(
        choice: &ModelChoice,
        settings: &ScriptSettings,
    ) -> Result<Self, ModelError> {
        let path = settings.folder.join(&choice.model);
        let bytes = read_script_bytes(&path, settings.size_maximum).map_err(|error| {
            let what = format!("the script {} cannot be read: {error}", choice.model);
            model_error(ModelErrorKind::Unavailable, what)
        })?;
        let script = (settings.parse)(&choice.model, &bytes)
            .map_err(|reason| model_error(ModelErrorKind::Unavailable, reason))?;
        Ok(Self {
            facts: ModelFacts {
                choice: choice.clone(),
                price: Some(script.price),
                context_tokens: script.context_tokens,
                answer_tokens: script.answer_tokens,
            },
            script: Arc::new(script),
        })
    }

    fn steps(&self, request: &ModelRequest, ordinal: u64) -> VecDeque<ScriptStep> {
        let turns = &self.script.turns;
        let place = usize::try_from(ordinal).unwrap_or(usize::MAX);
        let Some(turn) = turns.get(place) else {
            let what = format!(
                "the script {} has {} and was asked for turn {}",
                self.facts.choice.model,
                format_turn_count(turns.len()),
                ordinal.saturating_add(1),
            );
            let error = model_error(ModelErrorKind::InvalidRequest, what);
            return VecDeque::from([(Duration::ZERO, Err(error))]);
        };
        match turn.fault {
            None => self.answer_steps(request, turn),
            Some(fault) => self.fault_steps(request, turn, fault),
        }
    }

    fn answer_steps(&self, request: &ModelRequest, turn: &ScriptTurn) -> VecDeque<ScriptStep> {
        let calls = turn
            .tool_calls
            .iter()
            .enumerate()
            .flat_map(|(index, call)| {
                let parts = split_text(&call.arguments);
                let name = Delta::ToolCall {
                    index,
                    tool: Some(call.tool.clone()),
                    arguments: String::new(),
                };
                let part = move |arguments| Delta::ToolCall {
                    index,
                    tool: None,
                    arguments,
                };
                std::iter::once(name).chain(parts.into_iter().map(part))
            });
        let finish = if turn.tool_calls.is_empty() {
            FinishReason::Stop
        } else {
            FinishReason::ToolCalls
        };
        let deltas = split_text(&turn.text)
            .into_iter()
            .map(Delta::Text)
            .chain(calls)
            .chain([
                Delta::Usage(self.usage(request, turn)),
                Delta::Finished(finish),
            ]);
        let mut steps: VecDeque<ScriptStep> = deltas.map(|it| (Duration::ZERO, Ok(it))).collect();
        if let Some(first) = steps.front_mut() {
            first.0 = turn.delay;
        }
        steps
    }

    fn fault_steps(
        &self,
        request: &ModelRequest,
        turn: &ScriptTurn,
        fault: ScriptFault,
    ) -> VecDeque<ScriptStep> {
        let (kind, what) = match fault.kind {
            FaultKind::RateLimit => (ModelErrorKind::RateLimit, "too many requests"),
            FaultKind::Timeout => (ModelErrorKind::Timeout, "no answer in time"),
            FaultKind::ServerError => (ModelErrorKind::Server, "the server failed"),
            FaultKind::Truncated => (
                ModelErrorKind::Truncated,
                "the stream ended before the answer did",
            ),
            FaultKind::MalformedJson => (
                ModelErrorKind::Malformed,
                "an event of the stream cannot be read",
            ),
            FaultKind::Slow => return self.slow_steps(request, turn, fault),
        };
        let error = ModelError {
            retry_after: fault.retry_after,
            answer_began: fault.kind.has_parts(),
            ..model_error(kind, format!("scripted: {what}"))
        };
        let mut steps = VecDeque::new();
        if fault.kind.has_parts() {
            steps = self.answer_steps(request, &with_text(turn));
            // The last part of an answer is its end, and the one before is the usage: half of the
            // remaining parts arrive.
            steps.truncate(steps.len().saturating_sub(2).div_ceil(2));
        }
        let delay = if steps.is_empty() {
            turn.delay
        } else {
            Duration::ZERO
        };
        steps.push_back((delay, Err(error)));
        steps
    }

    /// The whole answer, with a pause before every part.
    fn slow_steps(
        &self,
        request: &ModelRequest,
        turn: &ScriptTurn,
        fault: ScriptFault,
    ) -> VecDeque<ScriptStep> {
        let delay = Some(turn.delay).filter(|delay| !delay.is_zero());
        let pause = fault.retry_after.or(delay).unwrap_or(SLOW_PART_DELAY);
        let mut steps = self.answer_steps(request, &with_text(turn));
        for (wait, _) in &mut steps {
            *wait = pause;
        }
        steps
    }

    fn usage(&self, request: &ModelRequest, turn: &ScriptTurn) -> Usage {
        turn.usage.unwrap_or_else(|| {
            let count = |text: &str| Vocabulary::Rough.count(text);
            let calls = turn.tool_calls.iter();
            let calls: u64 = calls.map(|it| count(&it.tool) + count(&it.arguments)).sum();
            Usage {
                input_tokens: self.count_tokens(request),
                output_tokens: count(&turn.text) + calls,
                ..Usage::default()
            }
        })
    }
}

impl Model for ScriptedModel {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn count_tokens(&self, request: &ModelRequest) -> u64 {
        Vocabulary::Rough.count_request(request)
    }

    fn stream(&self, request: &ModelRequest, ordinal: u64) -> ModelStream {
        let steps = self.steps(request, ordinal);
        Box::pin(unfold(steps, |mut steps| async move {
            let (wait, part) = steps.pop_front()?;
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            Some((part, steps))
        }))
    }
}

/// Returns the turn, with a default text if it had none.
fn with_text(turn: &ScriptTurn) -> ScriptTurn {
    let mut turn = turn.clone();
    if turn.text.is_empty() && turn.tool_calls.is_empty() {
        SLOW_TEXT.clone_into(&mut turn.text);
    }
    turn
}

/// Splits a text into parts, as models send it.
fn split_text(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters
        .chunks(PART_CHARACTERS)
        .map(String::from_iter)
        .collect()
}

/// Reads at most one byte more than a script may have, so that the parser can report that it is too
/// long.
fn read_script_bytes(path: &Path, size_maximum: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = size_maximum.saturating_add(1);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn model_error(kind: ModelErrorKind, message: String) -> ModelError {
    ModelError {
        kind,
        message,
        retry_after: None,
        answer_began: false,
    }
}

fn format_turn_count(turns: usize) -> String {
    match turns {
        1 => "1 turn".to_owned(),
        turns => format!("{turns} turns"),
    }
}

#[cfg(test)]
mod tests;
