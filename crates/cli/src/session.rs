//! One run of the program: parse, prepare what the command needs, run it, show its answer.

mod usage;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use clap::{ArgMatches, FromArgMatches};

use crate::arguments::{Arguments, Format};
use crate::commands::{Context, Needs, Output};
use crate::environment::Environment;
use crate::failure::{ExitCode, Failure};
use crate::output::{self, Answer, Choice, Lines, Report};
use crate::redact::Redactor;
use crate::settings::{Locations, Settings, resolve, secrets};
use crate::wiring::{Unwatched, Watcher};
use crate::{command, logging, wiring};

/// Help is not wider than this, however wide the terminal.
const HELP_WIDTH: u16 = 100;

/// Runs the command that was typed and returns the exit code. A bug that panics is an error like
/// any other: told without secrets, exit code 1.
pub fn run(environment: &Environment) -> u8 {
    let nobody: Arc<dyn Watcher> = Arc::new(Unwatched);
    run_watched(environment, &nobody)
}

/// The same with somebody who is told of each durable step of an apply.
pub fn run_watched(environment: &Environment, watcher: &Arc<dyn Watcher>) -> u8 {
    // How commands of plans are started; nothing is read or created for it.
    if let Some([word, rest @ ..]) = environment.arguments.get(1..)
        && word == wiring::RUN
    {
        return wiring::run_command(rest, environment);
    }
    let mut redactor = Redactor::of_variables(
        environment
            .variables
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str()?))),
    );
    secrets::learn_from_process(&mut redactor, environment);
    logging::tell_panics(redactor.clone());
    let run = AssertUnwindSafe(|| run_command(environment, redactor, watcher));
    catch_unwind(run).unwrap_or(ExitCode::Error.code())
}

fn run_command(
    environment: &Environment,
    mut redactor: Redactor,
    watcher: &Arc<dyn Watcher>,
) -> u8 {
    let width = usize::from(environment.width.min(HELP_WIDTH));
    let parsed = command()
        .term_width(width)
        .try_get_matches_from(&environment.arguments)
        .and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    let (arguments, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage::show(&error, environment, &redactor),
    };
    let command = words(&matches);
    let (outcome, choice) = answer(&arguments, &command, (environment, watcher), &mut redactor);
    let report = Report {
        command,
        started: environment.started,
        duration: environment.started_instant.elapsed(),
        outcome,
    };
    finish(&report, &choice, &redactor)
}

/// The outcome of the command, and how to show it.
fn answer(
    arguments: &Arguments,
    command: &str,
    (environment, watcher): (&Environment, &Arc<dyn Watcher>),
    redactor: &mut Redactor,
) -> (Result<Answer, Failure>, Choice) {
    let global = &arguments.global;
    // Known without files; a wrong value is reported below in the format that is left.
    let quick = resolve::format_without_files(global, environment);
    let settings = match arguments.command.needs() {
        Needs::Nothing => Err(Failure::new(
            ExitCode::Error,
            "this command works without settings",
        )),
        Needs::Settings | Needs::Store => Locations::find(global, environment)
            .and_then(|locations| Settings::load(locations, global, environment)),
    };
    let mut format = quick.as_ref().ok().copied().flatten();
    if let Ok(settings) = &settings {
        settings.teach(redactor);
        format = format.or(settings.chosen_format());
        logging::start(&settings.log_level(), global, environment, redactor.clone());
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
    }
    let choose = |format| {
        let choice = Choice::new(format, environment, global.quiet);
        match arguments.command.output(choice.format) {
            Output::Answer => choice,
            Output::Events => choice.below_events(),
        }
    };
    if let Err(failure) = quick {
        return (Err(failure), choose(format.or(global.format)));
    }
    let choice = choose(format);
    let context = Context {
        command: format!("agents {command}"),
        environment,
        watcher: Arc::clone(watcher),
        arguments: global,
        settings,
        lines: Lines::new(redactor.clone(), choice.stdout),
        format: choice.format,
    };
    (arguments.command.run(&context), choice)
}

/// Shows the report. When stdout cannot take it (a full disk), the work is done but not told.
fn finish(report: &Report, choice: &Choice, redactor: &Redactor) -> u8 {
    match output::write(&report.render(choice, redactor)) {
        Ok(()) => report.exit_code(),
        Err(error) => {
            let failure = Failure::new(ExitCode::Error, "cannot write the answer to stdout")
                .caused_by(&error);
            let report = Report {
                command: report.command.clone(),
                started: report.started,
                duration: report.duration,
                outcome: Err(failure),
            };
            let mut choice = choice.clone();
            choice.format = Format::Plain;
            let _ = output::write(&report.render(&choice, redactor));
            report.exit_code().max(ExitCode::Error.code())
        }
    }
}

/// The words of the command that was typed: `config get`.
fn words(matches: &ArgMatches) -> String {
    let mut words = Vec::new();
    let mut current = matches;
    while let Some((name, next)) = current.subcommand() {
        words.push(name);
        current = next;
    }
    words.join(" ")
}
