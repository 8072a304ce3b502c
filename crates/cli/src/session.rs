//! One run of the program: parses the arguments, loads the settings, runs the command and displays
//! its answer.

mod usage;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use clap::{ArgMatches, FromArgMatches};
use cleveragents_engine::secrets::Redactor;

use crate::arguments::{CliArguments, Format};
use crate::bootstrap::{NoWatcher, Watcher};
use crate::commands::{CommandContext, CommandRequirements, OutputMode};
use crate::environment::Environment;
use crate::failure::{CommandFailure, ExitCode};
use crate::next_step::RepeatedOptions;
use crate::output::{self, CommandAnswer, CommandReport, OutputLines, RenderOptions, Verbosity};
use crate::settings::{Locations, Settings, resolve, secrets};
use crate::{bootstrap, command, logging};

/// The maximum width of help texts.
const HELP_WIDTH: u16 = 100;

/// Runs the typed command and returns the exit code. A panic is reported like any other error: with
/// secrets masked and exit code 1.
pub fn run(environment: &Environment) -> u8 {
    let unwatched: Arc<dyn Watcher> = Arc::new(NoWatcher);
    run_with_watcher(environment, &unwatched)
}

/// Like [`run`], with a watcher that is notified of each durable step of an apply.
pub fn run_with_watcher(environment: &Environment, watcher: &Arc<dyn Watcher>) -> u8 {
    // Handled before everything else: starting a confined command must read no settings and create
    // nothing.
    if let Some([word, rest @ ..]) = environment.arguments.get(1..)
        && word == bootstrap::RUN_COMMAND
    {
        return bootstrap::run_command(rest, environment);
    }
    let mut redactor = Redactor::from_variables(
        environment
            .variables
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str()?))),
    );
    // Before the arguments are parsed, because an error message may repeat a secret from them.
    secrets::learn_from_process(&mut redactor, environment);
    logging::report_panics(redactor.clone());
    let run = AssertUnwindSafe(|| run_command(environment, redactor, watcher));
    // The panic hook has already printed the message.
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
        .and_then(|matches| Ok((CliArguments::from_arg_matches(&matches)?, matches)));
    let (arguments, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage::show(&error, environment, &redactor),
    };
    let command = command_path(&matches);
    let (outcome, options) = execute(&arguments, &command, environment, watcher, &mut redactor);
    let outcome = RepeatedOptions::from_arguments(&arguments.global).add_to(outcome);
    let report = CommandReport {
        command,
        started: environment.started,
        duration: environment.started_instant.elapsed(),
        outcome,
    };
    write_report(&report, &options, &redactor)
}

/// Runs the command and returns its outcome and how to display it.
fn execute(
    arguments: &CliArguments,
    command: &str,
    environment: &Environment,
    watcher: &Arc<dyn Watcher>,
    redactor: &mut Redactor,
) -> (Result<CommandAnswer, CommandFailure>, RenderOptions) {
    let global = &arguments.global;
    // Errors need a format too, so it is determined before any file is read. An invalid value is
    // reported below, in the format that the other sources give.
    let quick = resolve::format_without_files(global, environment);
    let settings = match arguments.command.requirements() {
        CommandRequirements::Nothing => Err(CommandFailure::new(
            ExitCode::Error,
            "this command works without settings",
        )),
        CommandRequirements::Settings | CommandRequirements::Store => {
            Locations::find(global, environment).and_then(|locations| {
                if !arguments.command.creates_settings() {
                    locations.require_named_file(global)?;
                }
                Settings::load(locations, global, environment)
            })
        }
    };
    let mut format = quick.as_ref().ok().copied().flatten();
    if let Ok(settings) = &settings {
        settings.register_secrets(redactor);
        format = format.or(settings.chosen_format());
        logging::start(&settings.log_level(), global, environment, redactor.clone());
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
    }
    let choose = |format| {
        let options = RenderOptions::new(format, environment, Verbosity::new(global));
        match arguments.command.output_mode(options.format) {
            OutputMode::Answer => options,
            OutputMode::Events => options.with_event_lines(),
        }
    };
    if let Err(failure) = quick {
        return (Err(failure), choose(format.or(global.format)));
    }
    let options = choose(format);
    let context = CommandContext {
        command: format!("agents {command}"),
        environment,
        watcher: Arc::clone(watcher),
        arguments: global,
        settings,
        lines: OutputLines::new(redactor.clone(), &options),
        format: options.format,
    };
    (arguments.command.run(&context), options)
}

/// Writes the report. If stdout fails (full disk), the work is done but the answer is lost; the
/// error goes to stderr.
fn write_report(report: &CommandReport, options: &RenderOptions, redactor: &Redactor) -> u8 {
    match output::write(&report.render(options, redactor)) {
        Ok(()) => report.exit_code(),
        Err(error) => {
            let failure = CommandFailure::new(ExitCode::Error, "cannot write the answer to stdout")
                .caused_by(&error);
            let report = CommandReport {
                command: report.command.clone(),
                started: report.started,
                duration: report.duration,
                outcome: Err(failure),
            };
            let mut options = options.clone();
            options.format = Format::Plain;
            let _ = output::write(&report.render(&options, redactor));
            report.exit_code().max(ExitCode::Error.code())
        }
    }
}

/// Returns the subcommand as typed, for example `config get`.
fn command_path(matches: &ArgMatches) -> String {
    let mut words = Vec::new();
    let mut current = matches;
    while let Some((name, next)) = current.subcommand() {
        words.push(name);
        current = next;
    }
    words.join(" ")
}
