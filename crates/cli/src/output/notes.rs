//! What is said to people on stderr: messages beside the answer, and failures with their reasons
//! and what to do next.

use anstyle::{AnsiColor, Style};

use super::choice::{Choice, Colour};
use super::model::{Answer, Level};
use super::text::{one_line, visible};
use crate::arguments::Format;
use crate::failure::Failure;
use crate::redact::Redactor;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const DOUBTFUL: Style = AnsiColor::Yellow.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();
const NEXT: Style = AnsiColor::Cyan.on_default();

/// The messages of an answer, the footer of `rich` among them.
pub(super) fn messages(answer: &Answer, choice: &Choice) -> String {
    let mut output = String::new();
    for message in &answer.messages {
        if choice.quiet && matches!(message.level, Level::Info | Level::Hint) {
            continue;
        }
        let (style, rich, plain) = match message.level {
            Level::Info => (GOOD, "✓ OK", ""),
            Level::Hint => (NEXT, "→ Next:", "next:"),
            Level::Warn => (DOUBTFUL, "! Warning:", "warning:"),
            Level::Error => (BAD, "✗ Error:", "error:"),
        };
        push(&mut output, choice, (style, rich, plain), &message.text);
    }
    output
}

/// What happened, why, and what to do next.
pub(super) fn failure(failure: &Failure, choice: &Choice, redactor: &Redactor) -> String {
    let mut output = String::new();
    let what = redactor.redact(&failure.what);
    push(&mut output, choice, (BAD, "✗ Error:", "error:"), &what);
    for cause in &failure.causes {
        let cause = redactor.redact(cause);
        push(&mut output, choice, (FAINT, "  Why:", "  why:"), &cause);
    }
    for hint in &failure.hints {
        let hint = redactor.redact(hint);
        push(&mut output, choice, (NEXT, "  → Next:", "  next:"), &hint);
    }
    output
}

/// Adds a line that begins with a mark, in the words of the format.
fn push(output: &mut String, choice: &Choice, mark: (Style, &str, &str), text: &str) {
    let (style, rich, plain) = mark;
    let (mark, text) = match choice.format {
        Format::Rich | Format::Color => (rich, visible(text)),
        _ => (plain, one_line(text)),
    };
    match choice.stderr {
        _ if mark.is_empty() => {}
        Colour::Yes => output.push_str(&format!("{style}{mark}{style:#} ")),
        Colour::No => output.push_str(&format!("{mark} ")),
    }
    output.push_str(text.trim_end());
    output.push('\n');
}
