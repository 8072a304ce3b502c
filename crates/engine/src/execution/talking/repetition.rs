//! Notices a model that does the same again and again, or nothing new at all.

use std::collections::HashMap;

/// So often may the same call give the same result before the model is told.
const TOLD_AT: u32 = 3;

/// So often before the work is stopped.
const STOPPED_AT: u32 = 6;

/// So many turns in a row may bring nothing new.
const IDLE_TURNS: u32 = 20;

/// What was done so far, by what it was and gave.
#[derive(Debug, Default)]
pub(super) struct Repetition {
    seen: HashMap<blake3::Hash, u32>,
    idle: u32,
    fresh: bool,
}

/// What is to be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    GoOn,
    /// The model should know.
    Tell(String),
    Stop(String),
}

impl Repetition {
    /// Takes note of a call and what it gave.
    pub(super) fn note(&mut self, tool: &str, arguments: &str, result: &str) -> Verdict {
        let mut hasher = blake3::Hasher::new();
        for part in [tool, arguments, result] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let count = self.seen.entry(hasher.finalize()).or_insert(0);
        *count += 1;
        match *count {
            1 => {
                self.fresh = true;
                Verdict::GoOn
            }
            TOLD_AT => Verdict::Tell(format!(
                "You have made this same call of {tool} {TOLD_AT} times with the same result. \
                 Do something else, or finish."
            )),
            STOPPED_AT.. => Verdict::Stop(format!(
                "the model made the same call of {tool} {STOPPED_AT} times with the same result"
            )),
            _ => Verdict::GoOn,
        }
    }

    /// Whoever takes the work up again gives the model another chance: it is told once more.
    pub(super) fn forgive(&mut self) {
        for count in self.seen.values_mut() {
            *count = (*count).min(TOLD_AT - 1);
        }
    }

    /// Takes note of the end of a turn.
    pub(super) fn turn(&mut self) -> Verdict {
        self.idle = match std::mem::take(&mut self.fresh) {
            true => 0,
            false => self.idle + 1,
        };
        match self.idle >= IDLE_TURNS {
            true => Verdict::Stop(format!("{IDLE_TURNS} turns in a row brought nothing new")),
            false => Verdict::GoOn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_call_with_the_same_result_is_told_once_and_then_stopped() {
        let mut repetition = Repetition::default();
        let verdicts: Vec<Verdict> = (0..7)
            .map(|_| repetition.note("builtin/file-read", "{\"path\":\"a\"}", "x"))
            .collect();
        let shapes: Vec<&str> = verdicts
            .iter()
            .map(|it| match it {
                Verdict::GoOn => "on",
                Verdict::Tell(_) => "tell",
                Verdict::Stop(_) => "stop",
            })
            .collect();
        assert_eq!(shapes, ["on", "on", "tell", "on", "on", "stop", "stop"]);
    }

    #[test]
    fn who_is_forgiven_is_told_once_more() {
        let mut repetition = Repetition::default();
        let note = |repetition: &mut Repetition| repetition.note("a/b", "{}", "x");
        (0..6).for_each(|_| drop(note(&mut repetition)));
        repetition.forgive();
        assert!(matches!(note(&mut repetition), Verdict::Tell(_)));
        assert_eq!(note(&mut repetition), Verdict::GoOn);
        assert_eq!(note(&mut repetition), Verdict::GoOn);
        assert!(matches!(note(&mut repetition), Verdict::Stop(_)));
    }

    #[test]
    fn another_result_or_other_arguments_are_something_else() {
        let mut repetition = Repetition::default();
        for number in 0..20 {
            let result = number.to_string();
            assert_eq!(repetition.note("a/b", "{}", &result), Verdict::GoOn);
            assert_eq!(repetition.note("a/b", &result, ""), Verdict::GoOn);
        }
        // Where one part ends and the next begins matters.
        assert_eq!(repetition.note("ab", "c", ""), Verdict::GoOn);
        assert_eq!(repetition.note("a", "bc", ""), Verdict::GoOn);
        assert_eq!(repetition.seen.len(), 42);
    }

    #[test]
    fn turns_that_bring_nothing_new_end_the_work() {
        let mut repetition = Repetition::default();
        for _ in 0..IDLE_TURNS - 1 {
            assert_eq!(repetition.turn(), Verdict::GoOn);
        }
        repetition.note("a/b", "{}", "");
        assert_eq!(repetition.turn(), Verdict::GoOn, "something was new");
        for _ in 0..IDLE_TURNS - 1 {
            assert_eq!(repetition.turn(), Verdict::GoOn);
        }
        assert!(matches!(repetition.turn(), Verdict::Stop(_)));
    }
}
