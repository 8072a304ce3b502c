//! The limit for the rows of a table.

use cleveragents_api::MessageLevel;

use super::CommandAnswer;
use crate::argument_types::DEFAULT_ROWS;

/// Number of entries that a table displays. JSON and YAML contain all entries of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowLimit {
    /// The number of rows to display.
    pub displayed: usize,
    hidden: usize,
}

impl RowLimit {
    /// Displays all `listed` entries if the user chose a limit, otherwise the default number.
    pub fn new<N>(chosen: Option<N>, listed: usize) -> Self {
        let displayed = match chosen {
            Some(_) => listed,
            None => listed.min(DEFAULT_ROWS as usize),
        };
        Self {
            displayed,
            hidden: listed - displayed,
        }
    }

    /// Adds how to see the hidden rows, if any. `total` is the number of entries that match.
    pub fn add_hint(self, answer: CommandAnswer, total: usize) -> CommandAnswer {
        match self.hidden {
            0 => answer,
            more => answer.with_message(
                MessageLevel::Hint,
                format!("{more} more: use --limit {total}"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_hidden_only_without_a_chosen_limit() {
        let hidden = |chosen: Option<u32>, listed| {
            let limit = RowLimit::new(chosen, listed);
            (limit.displayed, limit.hidden)
        };
        assert_eq!(hidden(None, 3), (3, 0));
        assert_eq!(hidden(None, 102), (100, 2));
        assert_eq!(hidden(Some(102), 102), (102, 0));
    }
}
