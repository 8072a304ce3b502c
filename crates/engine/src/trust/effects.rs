//! Describes the effects of a repository's action to the user who is asked to trust it.

use cleveragents_definitions::ActionDraft;

/// Maximum length of a line, in characters; the rest is cut.
const LINE_MAXIMUM: usize = 200;
/// Maximum number of checks listed; the rest is counted.
const CHECKS_MAXIMUM: usize = 10;

/// Returns the action's description, its actors, its commands and its settings. The texts come from
/// the repository, so everything that could change how a terminal displays them is escaped.
pub fn describe(draft: &ActionDraft) -> Vec<String> {
    let mut lines = vec![
        format!("action {}: {}", draft.name, draft.description),
        format!("strategy by {}", draft.actors.strategy_actor),
        format!("execution by {}", draft.actors.execution_actor),
    ];
    let checks = draft.checks.iter().take(CHECKS_MAXIMUM);
    lines.extend(checks.map(|check| format!("runs the command: {}", check.run)));
    if let Some(more @ 1..) = draft.checks.len().checked_sub(CHECKS_MAXIMUM) {
        lines.push(format!("runs {more} more commands"));
    }
    if let Some(profile) = &draft.automation_profile {
        lines.push(format!(
            "asks for the automation profile {profile}, which can only tighten yours"
        ));
    }
    if let Some(usd) = draft.budget.usd {
        lines.push(format!("may cost {usd} USD"));
    }
    lines.iter().map(|line| escape_line(line)).collect()
}

/// Returns one line of visible characters.
fn escape_line(text: &str) -> String {
    let mut line = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == LINE_MAXIMUM {
            line.push('…');
            break;
        }
        if is_misleading(character) {
            line.extend(character.escape_unicode());
        } else {
            line.push(character);
        }
    }
    line
}

/// Control characters, line breaks, and characters that change the text direction or are invisible.
fn is_misleading(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use cleveragents_definitions::{DefinitionSource, read_action};

    fn draft(more: &str) -> ActionDraft {
        let text = format!(
            "name: team/lint\ndescription: Lint\nstrategy_actor: builtin/direct\n\
             execution_actor: local/coder\ndefinition_of_done: done\n{more}"
        );
        read_action(&DefinitionSource::new("a.yaml", &text), &|_| None).unwrap()
    }

    #[test]
    fn commands_and_requests_are_listed() {
        let said = describe(&draft(
            "automation_profile: full-auto\nbudget: {usd: 2.5}\nchecks: [{run: make test}]\n",
        ));
        assert_eq!(
            said,
            [
                "action team/lint: Lint",
                "strategy by builtin/direct",
                "execution by local/coder",
                "runs the command: make test",
                "asks for the automation profile full-auto, which can only tighten yours",
                "may cost 2.5 USD",
            ]
        );
    }

    #[test]
    fn misleading_text_is_escaped() {
        let said = describe(&draft("checks: [{run: \"a\\nb \u{202e}c\u{200b}\"}]\n"));
        assert_eq!(said[3], "runs the command: a\\u{a}b \\u{202e}c\\u{200b}");
        let many = "checks: [".to_owned() + &"{run: x},".repeat(12) + "]\n";
        let said = describe(&draft(&many));
        assert_eq!(said.last().unwrap(), "runs 2 more commands");
        let long = describe(&draft(&format!("checks: [{{run: {}}}]\n", "y".repeat(500))));
        assert_eq!(long[3].chars().count(), LINE_MAXIMUM + 1);
    }
}
