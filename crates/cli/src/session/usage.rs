//! Handles arguments that cannot be parsed, and `--help`.

use std::ffi::OsString;

use clap::error::ErrorKind;
use cleveragents_engine::secrets::Redactor;

use crate::arguments::{Format, GlobalArguments};
use crate::command;
use crate::environment::{Environment, Terminal};
use crate::failure::CommandFailure;
use crate::output::{self, CommandReport, RenderOptions, RenderedOutput, Verbosity};
use crate::settings::{Locations, Settings, resolve};

/// Prints clap's help or error and returns the exit code.
pub(super) fn show(error: &clap::Error, environment: &Environment, redactor: &Redactor) -> u8 {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if !is_help {
        let choice = RenderOptions::new(format(environment), environment, Verbosity::Normal);
        if choice.format.is_envelope() {
            return super::write_report(&report(error, environment), &choice, redactor);
        }
    }
    let terminal = if is_help {
        environment.stdout
    } else {
        environment.stderr
    };
    let text = redactor.redact(&render(error, terminal, environment));
    let mut rendered = RenderedOutput::default();
    if is_help {
        rendered.stdout = text.into_bytes();
    } else {
        rendered.stderr = text;
    }
    match output::write(&rendered) {
        Ok(()) => u8::try_from(error.exit_code()).unwrap_or(2),
        Err(_) => 1,
    }
}

/// Renders clap's text. Colour is used only if the user's input contains no control characters that
/// could imitate it.
fn render(error: &clap::Error, terminal: Terminal, environment: &Environment) -> String {
    let text = error.render().to_string();
    let hostile = text.chars().any(|c| c.is_control() && c != '\n');
    if hostile {
        let visible = |line: &str| line.escape_debug().to_string();
        return text.lines().map(visible).collect::<Vec<_>>().join("\n") + "\n";
    }
    if terminal == Terminal::Capable && !environment.no_color() {
        error.render().ansi().to_string()
    } else {
        text
    }
}

fn report(error: &clap::Error, environment: &Environment) -> CommandReport {
    let text = error.render().to_string();
    let paragraphs: Vec<&str> = text.split("\n\n").map(str::trim).collect();
    let what = paragraphs.first().copied().unwrap_or_default();
    let what = what.strip_prefix("error: ").unwrap_or(what);
    let words = typed_command(&environment.arguments);
    let tips = paragraphs
        .iter()
        .filter_map(|paragraph| paragraph.strip_prefix("tip: "));
    let mut failure = CommandFailure::usage(what);
    for tip in tips {
        failure = failure.hint(tip);
    }
    let help = [
        &["agents".to_owned()],
        words.as_slice(),
        &["--help".to_owned()],
    ]
    .concat();
    CommandReport {
        command: words.join(" "),
        started: environment.started,
        duration: environment.started_instant.elapsed(),
        outcome: Err(failure.hint(help.join(" "))),
    }
}

/// Returns the arguments that name commands; all others are skipped.
fn typed_command(arguments: &[OsString]) -> Vec<String> {
    let mut current = command();
    let mut words = Vec::new();
    for argument in arguments.iter().skip(1).filter_map(|one| one.to_str()) {
        if let Some(next) = current.find_subcommand(argument).cloned() {
            words.push(next.get_name().to_owned());
            current = next;
        }
    }
    words
}

/// Returns the output format as far as it can be determined: from the arguments, the environment,
/// or the settings if they can be read.
fn format(environment: &Environment) -> Option<Format> {
    let global = GlobalArguments {
        format: typed_format(&environment.arguments),
        ..GlobalArguments::default()
    };
    match resolve::format_without_files(&global, environment) {
        Ok(Some(format)) => Some(format),
        Ok(None) => {
            let locations = Locations::find(&global, environment).ok()?;
            let settings = Settings::load(locations, &global, environment).ok()?;
            settings.chosen_format()
        }
        Err(_) => global.format,
    }
}

fn typed_format(arguments: &[OsString]) -> Option<Format> {
    let mut arguments = arguments.iter().skip(1).filter_map(|one| one.to_str());
    let mut found = None;
    while let Some(argument) = arguments.next() {
        let value = match argument {
            "--" => break,
            "-f" | "--format" => arguments.next(),
            _ => argument
                .strip_prefix("--format=")
                .or_else(|| argument.strip_prefix("-f="))
                .or_else(|| argument.strip_prefix("-f")),
        };
        found = value.and_then(Format::from_name).or(found);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(typed: &[&str]) -> Vec<OsString> {
        typed.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_format_is_found_in_arguments_that_are_wrong() {
        for (typed, format) in [
            (&["agents", "--format", "json", "x"][..], Some(Format::Json)),
            (&["agents", "x", "--format=yaml"], Some(Format::Yaml)),
            (&["agents", "-fjson"], Some(Format::Json)),
            (&["agents", "-f=json"], Some(Format::Json)),
            (&["agents", "--", "-fjson"], None),
            (&["agents", "-f"], None),
        ] {
            assert_eq!(typed_format(&arguments(typed)), format, "{typed:?}");
        }
    }

    #[test]
    fn the_command_is_named_as_far_as_it_was_understood() {
        let typed = arguments(&["agents", "-f", "json", "config", "get", "--nope"]);
        assert_eq!(typed_command(&typed), ["config", "get"]);
        assert!(typed_command(&arguments(&["agents", "confg"])).is_empty());
    }
}
