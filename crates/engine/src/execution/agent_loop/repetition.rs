//! Detects a model that repeats itself or makes no progress.

use std::collections::HashMap;

/// Number of identical calls with identical results at which the model is warned.
const WARN_AT: u32 = 3;

/// Number of identical calls with identical results at which the work is stopped.
const STOP_AT: u32 = 6;

/// Maximum number of consecutive turns without anything new.
const IDLE_TURNS: u32 = 20;

/// Counts past calls by tool, input and result.
#[derive(Debug, Default)]
pub(super) struct RepetitionDetector {
    counts: HashMap<blake3::Hash, u32>,
    idle_turns: u32,
    has_new_result: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RepetitionVerdict {
    Continue,
    /// The model should be warned.
    Warn(String),
    Stop(String),
}

impl RepetitionDetector {
    /// Records a call and its result.
    pub(super) fn record_call(
        &mut self,
        tool: &str,
        arguments: &str,
        result: &str,
    ) -> RepetitionVerdict {
        let mut hasher = blake3::Hasher::new();
        for part in [tool, arguments, result] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let count = self.counts.entry(hasher.finalize()).or_insert(0);
        *count += 1;
        match *count {
            1 => {
                self.has_new_result = true;
                RepetitionVerdict::Continue
            }
            WARN_AT => RepetitionVerdict::Warn(format!(
                "You have made this same call of {tool} {WARN_AT} times with the same result. \
                 Do something else, or finish."
            )),
            STOP_AT.. => RepetitionVerdict::Stop(format!(
                "the model made the same call of {tool} {STOP_AT} times with the same result"
            )),
            _ => RepetitionVerdict::Continue,
        }
    }

    /// Gives the model another chance after a resume: it is warned again before the work is
    /// stopped.
    pub(super) fn reset_warnings(&mut self) {
        for count in self.counts.values_mut() {
            *count = (*count).min(WARN_AT - 1);
        }
    }

    /// Records the end of a turn.
    pub(super) fn end_turn(&mut self) -> RepetitionVerdict {
        self.idle_turns = if std::mem::take(&mut self.has_new_result) {
            0
        } else {
            self.idle_turns + 1
        };
        if self.idle_turns >= IDLE_TURNS {
            RepetitionVerdict::Stop(format!("{IDLE_TURNS} turns in a row made no progress"))
        } else {
            RepetitionVerdict::Continue
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_call_is_warned_once_then_stopped() {
        let mut repetition = RepetitionDetector::default();
        let verdicts: Vec<RepetitionVerdict> = (0..7)
            .map(|_| repetition.record_call("builtin/file-read", "{\"path\":\"a\"}", "x"))
            .collect();
        let shapes: Vec<&str> = verdicts
            .iter()
            .map(|it| match it {
                RepetitionVerdict::Continue => "on",
                RepetitionVerdict::Warn(_) => "tell",
                RepetitionVerdict::Stop(_) => "stop",
            })
            .collect();
        assert_eq!(shapes, ["on", "on", "tell", "on", "on", "stop", "stop"]);
    }

    #[test]
    fn a_reset_allows_one_more_warning() {
        let mut repetition = RepetitionDetector::default();
        let note = |repetition: &mut RepetitionDetector| repetition.record_call("a/b", "{}", "x");
        (0..6).for_each(|_| drop(note(&mut repetition)));
        repetition.reset_warnings();
        assert!(matches!(note(&mut repetition), RepetitionVerdict::Warn(_)));
        assert_eq!(note(&mut repetition), RepetitionVerdict::Continue);
        assert_eq!(note(&mut repetition), RepetitionVerdict::Continue);
        assert!(matches!(note(&mut repetition), RepetitionVerdict::Stop(_)));
    }

    #[test]
    fn different_results_or_arguments_are_no_repetition() {
        let mut repetition = RepetitionDetector::default();
        for number in 0..20 {
            let result = number.to_string();
            assert_eq!(
                repetition.record_call("a/b", "{}", &result),
                RepetitionVerdict::Continue
            );
            assert_eq!(
                repetition.record_call("a/b", &result, ""),
                RepetitionVerdict::Continue
            );
        }
        // The boundary between parts matters.
        assert_eq!(
            repetition.record_call("ab", "c", ""),
            RepetitionVerdict::Continue
        );
        assert_eq!(
            repetition.record_call("a", "bc", ""),
            RepetitionVerdict::Continue
        );
        assert_eq!(repetition.counts.len(), 42);
    }

    #[test]
    fn idle_turns_end_the_work() {
        let mut repetition = RepetitionDetector::default();
        for _ in 0..IDLE_TURNS - 1 {
            assert_eq!(repetition.end_turn(), RepetitionVerdict::Continue);
        }
        repetition.record_call("a/b", "{}", "");
        assert_eq!(
            repetition.end_turn(),
            RepetitionVerdict::Continue,
            "something was new"
        );
        for _ in 0..IDLE_TURNS - 1 {
            assert_eq!(repetition.end_turn(), RepetitionVerdict::Continue);
        }
        assert!(matches!(repetition.end_turn(), RepetitionVerdict::Stop(_)));
    }
}
