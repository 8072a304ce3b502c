//! The last line of a commit that an apply made: which plan made it, and at which place of its
//! journal.

use std::fmt;

use crate::id::PlanId;

/// The key of the trailer, as `git interpret-trailers` knows it.
const KEY: &str = "Agents-Plan";

/// Links a commit to the journal of its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanTrailer {
    pub plan: PlanId,
    /// The hash of the journal's newest event when the apply was recorded.
    pub journal_hash: String,
}

impl PlanTrailer {
    /// Returns the trailer of a commit message. Only its last line counts: the lines before it may
    /// come from the text of a task.
    pub fn from_message(message: &str) -> Option<Self> {
        let last = message.trim_end().lines().next_back()?;
        let value = last.strip_prefix(KEY)?.strip_prefix(": ")?;
        let (plan, hash) = value.split_once('@')?;
        let is_hash = hash.len() == 64 && hash.bytes().all(|it| it.is_ascii_hexdigit());
        Some(Self {
            plan: plan.parse().ok()?,
            journal_hash: is_hash.then(|| hash.to_ascii_lowercase())?,
        })
    }
}

/// The line, without a line ending.
impl fmt::Display for PlanTrailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEY}: {}@{}", self.plan, self.journal_hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_line_of_a_message_is_the_trailer() {
        let trailer = PlanTrailer {
            plan: "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
            journal_hash: "0a".repeat(32),
        };
        let message = format!("Fix it\n\nPlan: local/fix\n{trailer}\n");
        assert_eq!(PlanTrailer::from_message(&message), Some(trailer.clone()));
        for other in [
            String::new(),
            "Fix it\n".to_owned(),
            format!("{trailer}\n\nFix it\n"),
            format!("Fix it\n\n{}\n", trailer.to_string().to_lowercase()),
            format!("Fix it\n\n{KEY}: {}@0a0a\n", trailer.plan),
            format!("Fix it\n\n{KEY}: abc@{}\n", trailer.journal_hash),
        ] {
            assert_eq!(PlanTrailer::from_message(&other), None, "{other}");
        }
    }
}
