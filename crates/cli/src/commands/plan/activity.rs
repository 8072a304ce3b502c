//! What a running plan does, as lines for people: a state machine from events and progress to
//! lines. It reads no clock and prints nothing; `progress` shows its lines.
//!
//! A line is final when it is returned. Text of a model that has no line end yet is kept apart, see
//! [`PlanActivity::open_text`].

use std::collections::BTreeMap;

use cleveragents_api::plan::log::JournalEvent;
use cleveragents_domain::EventBody;
use cleveragents_domain::event::payloads::{StrategyStored, ToolCompleted, ToolInvoked};
use cleveragents_domain::id::ToolCallId;
use cleveragents_domain::progress::Progress;
use cleveragents_domain::tool::control::{ControlTool, SubmittedStrategy};

use super::call_text::{call_text, duration_text, one_line, result_text};
use super::event_text::{describe, step_text};
use crate::output::Tone;

/// Spaces before what belongs to a step or a phase.
pub(super) const INDENT: usize = 2;

/// Stands for a question that is too long for an event.
const LONG_QUESTION: &str = "The question of the model is too long to be shown here.";

/// The maximum length of a line of a model's text, in characters. Longer ones are broken: the text of
/// a line is processed again with each part that arrives.
const LINE_MAXIMUM: usize = 1000;

/// A line about something that has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActivityLine {
    pub(crate) indent: usize,
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

/// The activity of one plan.
#[derive(Debug, Default)]
pub(super) struct PlanActivity {
    /// Lines of a model's text are broken at this width, because the rest of a line is shown before
    /// it is complete.
    width: Option<usize>,
    phase: String,
    calls: u32,
    /// The cost of models so far.
    usd: f64,
    current: String,
    open_calls: BTreeMap<ToolCallId, OpenCall>,
    /// The number of the model call whose text is shown.
    model_call: i64,
    text: String,
    question: String,
}

/// A call that has begun and not ended.
#[derive(Debug)]
struct OpenCall {
    text: String,
    changed: Vec<String>,
}

impl ActivityLine {
    pub(crate) fn new(indent: usize, text: impl Into<String>, tone: Tone) -> Self {
        let text = text.into();
        Self { indent, text, tone }
    }
}

impl PlanActivity {
    pub(super) fn new(width: Option<usize>) -> Self {
        // The last column stays free: some terminals break a full line.
        let width = width.map(|it| it.saturating_sub(INDENT + 1).max(1));
        Self {
            width,
            ..Self::default()
        }
    }

    /// Returns the status line.
    pub(super) fn status(&self) -> String {
        let calls = match self.calls {
            0 => String::new(),
            1 => "1 call".to_owned(),
            calls => format!("{calls} calls"),
        };
        let usd = if self.usd > 0.0 {
            format!("{:.4} USD", self.usd)
        } else {
            String::new()
        };
        let parts = [self.phase.as_str(), &calls, &usd, &self.current];
        let parts: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
        parts.join(" · ")
    }

    /// Returns the text of a model after the last complete line.
    pub(super) fn open_text(&self) -> &str {
        &self.text
    }

    /// Returns the last question of a model.
    pub(super) fn question(&self) -> &str {
        &self.question
    }

    /// Whether the events up to the begin of this model call were shown.
    pub(super) fn has_seen_model_call(&self, number: i64) -> bool {
        self.model_call >= number
    }

    /// Takes in the question of an event that is not shown.
    pub(super) fn read_question(&mut self, event: &JournalEvent) {
        if let Some(EventBody::ToolInvoked(it)) = event.known_body() {
            self.update_question(&it);
        }
    }

    fn update_question(&mut self, invoked: &ToolInvoked) {
        if ControlTool::from_name(&invoked.tool) != Some(ControlTool::AskUser) {
            return;
        }
        // A very long input is not in the event.
        let question = invoked.input.get("question").and_then(|it| it.as_str());
        question
            .unwrap_or(LONG_QUESTION)
            .clone_into(&mut self.question);
    }

    /// Returns the lines about an event.
    pub(super) fn event(&mut self, event: &JournalEvent) -> Vec<ActivityLine> {
        let Some(body) = event.known_body() else {
            return Vec::new();
        };
        self.update(&body);
        let lines = self.event_lines(&body);
        let ends_text = matches!(
            body,
            EventBody::ModelAnswered(_)
                | EventBody::ModelFailed(_)
                | EventBody::ModelInterrupted(_)
        );
        if lines.is_empty() && !ends_text {
            return lines;
        }
        let rest = self.end_text();
        rest.into_iter().chain(lines).collect()
    }

    /// Returns the lines about progress between two events.
    pub(super) fn progress(&mut self, progress: &Progress) -> Vec<ActivityLine> {
        match progress {
            Progress::WaitingForSlot { running } => {
                self.current = format!("waiting for one of {running} other plans to end");
                Vec::new()
            }
            Progress::CallStarted { tool } => {
                self.current = tool.to_string();
                Vec::new()
            }
            Progress::ModelText { text, .. } => self.push_text(text),
            Progress::ModelRetry {
                attempt,
                max_attempts,
                delay_ms,
                error,
            } => {
                let delay = duration_text(i64::try_from(*delay_ms).unwrap_or(i64::MAX));
                let retries = max_attempts.saturating_sub(1);
                let error = one_line(error);
                let text = format!("retry {attempt}/{retries} in {delay}: {error}");
                self.current.clone_from(&text);
                let line = ActivityLine::new(INDENT, text, Tone::Doubtful);
                self.end_text().into_iter().chain([line]).collect()
            }
        }
    }

    /// Returns the rest of a text as a line, at the end of the work.
    pub(super) fn end_text(&mut self) -> Option<ActivityLine> {
        let text = std::mem::take(&mut self.text);
        text_line(&text)
    }

    fn update(&mut self, body: &EventBody) {
        match body {
            EventBody::PlanPhaseChanged(it) => self.phase = it.0.to.to_string(),
            EventBody::ExecuteRequested(it) => self.phase = it.0.phase.to_string(),
            EventBody::ResumeRequested(it) => self.phase = it.0.phase.to_string(),
            EventBody::ToolInvoked(it) => {
                self.update_question(it);
                self.calls += 1;
                self.current = call_text(&it.tool, &it.input);
                let call = OpenCall {
                    text: self.current.clone(),
                    changed: Vec::new(),
                };
                self.open_calls.insert(it.tool_call_id, call);
            }
            EventBody::ChangeRecorded(it) => {
                if let Some(call) = self.open_calls.get_mut(&it.entry.tool_call_id) {
                    call.changed.push(it.entry.path.to_string());
                }
            }
            EventBody::ModelAsked(it) => {
                self.current = format!("waiting for {}", it.model);
                self.model_call = it.number.unwrap_or(self.model_call);
            }
            EventBody::ModelAnswered(it) => self.usd += it.usd.unwrap_or(0.0),
            EventBody::ModelFailed(it) => {
                self.usd += it.spent.and_then(|it| it.usd).unwrap_or(0.0);
            }
            EventBody::ModelInterrupted(it) => self.usd += it.spent.usd.unwrap_or(0.0),
            EventBody::ActorInvoked(it) => self.current.clone_from(&it.title),
            _ => {}
        }
    }

    fn event_lines(&mut self, body: &EventBody) -> Vec<ActivityLine> {
        let line = |tone| vec![ActivityLine::new(INDENT, describe(body), tone)];
        match body {
            EventBody::StrategyStored(it) => strategy_lines(it),
            EventBody::ActorInvoked(it) => {
                let step = step_text(it.step, it.steps);
                let text = format!("{step}  {}", one_line(&it.title));
                vec![ActivityLine::new(0, text, Tone::Strong)]
            }
            EventBody::ToolInvoked(it) => control_lines(it),
            EventBody::ToolCompleted(it) => self.completed_lines(it),
            EventBody::ToolErrored(it) => {
                self.failed_lines(it.tool_call_id, it.error.as_deref(), "failed")
            }
            EventBody::ToolInterrupted(it) => {
                self.failed_lines(it.tool_call_id, it.error.as_deref(), "interrupted")
            }
            EventBody::ToolRefused(_)
            | EventBody::ActorErrored(_)
            | EventBody::PlanErrored(_)
            | EventBody::BudgetExceeded(_)
            | EventBody::ApplyStopped(_) => line(Tone::Bad),
            EventBody::ModelInterrupted(_)
            | EventBody::RunEvicted(_)
            | EventBody::BudgetWarning(_)
            | EventBody::CheckpointRestored(_)
            | EventBody::PlanWaiting(_)
            | EventBody::PlanReverted(_)
            | EventBody::PlanCorrected(_)
            | EventBody::PlanCancelled(_) => line(Tone::Doubtful),
            EventBody::ValidationsCompleted(it) => match it.required_failed {
                0 if it.required_passed + it.informational_passed + it.informational_failed
                    == 0 =>
                {
                    Vec::new()
                }
                0 => line(Tone::Good),
                _ => line(Tone::Bad),
            },
            EventBody::InstructionsRead(it) if !it.instructions.is_empty() => line(Tone::Faint),
            EventBody::ConversationCompacted(_) => line(Tone::Faint),
            EventBody::PlanPrompted(_) | EventBody::PlanRebased(_) => line(Tone::Normal),
            _ => Vec::new(),
        }
    }

    fn completed_lines(&mut self, completed: &ToolCompleted) -> Vec<ActivityLine> {
        let call = self.open_calls.remove(&completed.tool_call_id);
        // Shown when they began.
        if ControlTool::from_name(&completed.tool).is_some() {
            return Vec::new();
        }
        let result = result_text(completed);
        let failed = completed.exit_code.is_some_and(|code| code != 0);
        let tone = if failed { Tone::Bad } else { Tone::Normal };
        let (mut text, changed) = match call {
            Some(call) => (call.text, call.changed),
            None => (completed.tool.to_string(), Vec::new()),
        };
        if !result.is_empty() {
            // A command may end in anything, so two spaces separate it from its result.
            let space = if completed.exit_code.is_some() {
                "  "
            } else {
                " "
            };
            text = format!("{text}{space}{result}");
        }
        // A command does not name the files that it changes.
        if completed.exit_code.is_some() && !changed.is_empty() {
            text = format!("{text}, changed {}", list_text(&changed));
        }
        vec![ActivityLine::new(INDENT, text, tone)]
    }

    fn failed_lines(
        &mut self,
        call: ToolCallId,
        error: Option<&str>,
        what: &str,
    ) -> Vec<ActivityLine> {
        let call = self.open_calls.remove(&call);
        let text = call.map_or("a call".to_owned(), |call| call.text);
        let text = match error {
            Some(error) => format!("{text}  {what}: {}", one_line(error)),
            None => format!("{text}  {what}"),
        };
        vec![ActivityLine::new(INDENT, text, Tone::Bad)]
    }

    /// Adds text of a model and returns its complete lines.
    fn push_text(&mut self, text: &str) -> Vec<ActivityLine> {
        self.current = "the model answers".to_owned();
        self.text.push_str(text);
        let mut lines = Vec::new();
        while let Some(end) = line_end(&self.text, self.width) {
            let rest = self.text.split_off(end);
            let line = std::mem::replace(&mut self.text, rest);
            lines.extend(text_line(&line));
        }
        lines
    }
}

/// Returns the end of the first complete line: after a line end, or after the last word that fits
/// the width. A word that is longer than a line is not broken before the maximum.
fn line_end(text: &str, width: Option<usize>) -> Option<usize> {
    let maximum = text.char_indices().nth(LINE_MAXIMUM).map(|(end, _)| end);
    let line = text.find('\n').map(|end| end + 1);
    let line = match (line, maximum) {
        (Some(line), Some(maximum)) => Some(line.min(maximum)),
        (line, maximum) => line.or(maximum),
    };
    let first = &text[..line.unwrap_or(text.len())];
    let Some(width) = width else {
        return line;
    };
    let overflow = first.trim_end().char_indices().nth(width);
    let Some((overflow, _)) = overflow else {
        return line;
    };
    let indent = first.len() - first.trim_start().len();
    let fitting = first[indent..overflow.max(indent)].rfind(' ');
    match fitting {
        Some(space) => Some(indent + space + 1),
        None => match first[overflow..].find(' ') {
            Some(space) => Some(overflow + space + 1),
            None => line,
        },
    }
}

/// Returns a line of a model's text; none for a blank one.
fn text_line(line: &str) -> Option<ActivityLine> {
    let line = line.trim_end();
    (!line.trim().is_empty()).then(|| ActivityLine::new(INDENT, line, Tone::Faint))
}

fn strategy_lines(stored: &StrategyStored) -> Vec<ActivityLine> {
    let mut lines = vec![ActivityLine::new(0, "strategy", Tone::Strong)];
    let steps = stored.titles.iter().zip(1..);
    lines.extend(steps.map(|(title, number)| {
        ActivityLine::new(
            INDENT,
            format!("{number}. {}", one_line(title)),
            Tone::Normal,
        )
    }));
    if stored.titles.is_empty() {
        let text = format!("{} steps", stored.steps);
        lines.push(ActivityLine::new(INDENT, text, Tone::Normal));
    }
    lines
}

/// Returns the lines about calls that are for people themselves: their input is what they say.
fn control_lines(invoked: &ToolInvoked) -> Vec<ActivityLine> {
    let Some(tool) = ControlTool::from_name(&invoked.tool) else {
        return Vec::new();
    };
    let text = match tool {
        // Its steps follow when it is stored.
        ControlTool::SubmitStrategy => {
            let Ok(strategy) = serde_json::from_value::<SubmittedStrategy>(invoked.input.clone())
            else {
                return Vec::new();
            };
            format!(
                "{} (confidence {})",
                one_line(&strategy.summary),
                strategy.confidence
            )
        }
        ControlTool::Finish => return finish_lines(invoked),
        ControlTool::AskUser | ControlTool::RecordDecision => {
            call_text(&invoked.tool, &invoked.input)
        }
    };
    vec![ActivityLine::new(INDENT, text, Tone::Normal)]
}

fn finish_lines(invoked: &ToolInvoked) -> Vec<ActivityLine> {
    let summary = invoked.input.get("summary").and_then(|it| it.as_str());
    let lines = summary.unwrap_or_default().lines();
    let lines = lines.map(str::trim_end).filter(|line| !line.is_empty());
    let line = |text: &str| ActivityLine::new(INDENT, text, Tone::Normal);
    lines.map(line).collect()
}

/// Returns the first paths, and how many more there are.
fn list_text(paths: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = paths[..paths.len().min(SHOWN)].join(", ");
    match paths.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests;
