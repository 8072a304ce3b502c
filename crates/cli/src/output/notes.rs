//! Messages for people on stderr: notes beside the answer, and failures with their causes
//! and hints.

use anstyle::{AnsiColor, Style};
use cleveragents_domain::id::PlanId;
use cleveragents_engine::secrets::Redactor;

use super::MessageLevel;
use super::model::CommandAnswer;
use super::render_options::{ColourMode, RenderOptions, Verbosity};
use super::text::{escape_cell, escape_line};
use crate::arguments::Format;
use crate::failure::CommandFailure;
use crate::next_step;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const DOUBTFUL: Style = AnsiColor::Yellow.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();
const NEXT: Style = AnsiColor::Cyan.on_default();

/// Renders the messages of an answer, including the footer of `rich`.
pub(super) fn render_messages(answer: &CommandAnswer, options: &RenderOptions) -> String {
    let mut output = String::new();
    for message in &answer.messages {
        if is_hidden(message.level, options.verbosity) {
            continue;
        }
        let (style, rich, plain) = match message.level {
            MessageLevel::Info => (GOOD, "✓ OK", ""),
            MessageLevel::Detail => (FAINT, "  Why:", "why:"),
            MessageLevel::Hint => (NEXT, "→ Next:", "next:"),
            MessageLevel::Warn => (DOUBTFUL, "! Warning:", "warning:"),
            MessageLevel::Error => (BAD, "✗ Error:", "error:"),
        };
        let mark = LineMark { style, rich, plain };
        match message.level {
            MessageLevel::Hint => {
                push(&mut output, options, mark, &with_short_ids(&message.text));
            }
            _ => push(&mut output, options, mark, &message.text),
        }
    }
    output
}

fn is_hidden(level: MessageLevel, verbosity: Verbosity) -> bool {
    match level {
        MessageLevel::Info | MessageLevel::Hint => verbosity == Verbosity::Quiet,
        MessageLevel::Detail => verbosity != Verbosity::Verbose,
        MessageLevel::Warn | MessageLevel::Error => false,
    }
}

/// Renders a failure: message, causes and hints.
pub(super) fn render_failure(
    failure: &CommandFailure,
    options: &RenderOptions,
    redactor: &Redactor,
) -> String {
    let mut output = String::new();
    let what = redactor.redact(&failure.message);
    let error = LineMark {
        style: BAD,
        rich: "✗ Error:",
        plain: "error:",
    };
    push(&mut output, options, error, &what);
    for cause in &failure.causes {
        let cause = redactor.redact(cause);
        let why = LineMark {
            style: FAINT,
            rich: "  Why:",
            plain: "  why:",
        };
        push(&mut output, options, why, &cause);
    }
    for step in &failure.next_steps {
        let hint = redactor.redact(&next_step::render(step));
        let next = LineMark {
            style: NEXT,
            rich: "  → Next:",
            plain: "  next:",
        };
        push(&mut output, options, next, &with_short_ids(&hint));
    }
    output
}

/// Commands that also take the journal of a deleted plan, which only its whole id names. Global
/// options may come before them.
const WHOLE_ID_COMMANDS: [&str; 3] = [" plan log ", " plan purge ", " plan verify "];

/// Shortens the ids in a command as tables do. Any command takes this part of an id.
fn with_short_ids(hint: &str) -> String {
    if WHOLE_ID_COMMANDS.iter().any(|it| hint.contains(it)) {
        return hint.to_owned();
    }
    let words = hint.split(' ').map(|word| match word.parse::<PlanId>() {
        Ok(id) if id.to_string() == word => id.short(),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The mark in front of a line, for terminals and for plain text.
struct LineMark<'a> {
    style: Style,
    rich: &'a str,
    plain: &'a str,
}

/// Appends a line with a mark in front, in the style of the format.
fn push(output: &mut String, options: &RenderOptions, mark: LineMark<'_>, text: &str) {
    let LineMark { style, rich, plain } = mark;
    let (mark, text) = match options.format {
        Format::Rich | Format::Color => (rich, escape_cell(text)),
        _ => (plain, escape_line(text)),
    };
    match options.stderr {
        _ if mark.is_empty() => {}
        ColourMode::Yes => output.push_str(&format!("{style}{mark}{style:#} ")),
        ColourMode::No => output.push_str(&format!("{mark} ")),
    }
    output.push_str(text.trim_end());
    output.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_hints_are_short_where_the_command_takes_a_part() {
        let id = "01JZZZZZZZ0000000000ABCDEF";
        for (hint, shown) in [
            (
                "agents plan apply ID --to branch x",
                "agents plan apply 00abcdef --to branch x",
            ),
            (
                "on that machine: agents plan cancel ID",
                "on that machine: agents plan cancel 00abcdef",
            ),
            ("agents plan verify ID", "agents plan verify ID"),
            (
                "when it ends: agents --data-dir 'a b' --config-path c plan verify ID",
                "when it ends: agents --data-dir 'a b' --config-path c plan verify ID",
            ),
            (
                "agents --data-dir 'a b' plan cancel ID",
                "agents --data-dir 'a b' plan cancel 00abcdef",
            ),
            ("agents plan purge ID --yes", "agents plan purge ID --yes"),
            ("agents plan log ID --follow", "agents plan log ID --follow"),
            ("ls /data/ID/tree", "ls /data/ID/tree"),
        ] {
            let (hint, shown) = (hint.replace("ID", id), shown.replace("ID", id));
            assert_eq!(with_short_ids(&hint), shown);
        }
    }
}
