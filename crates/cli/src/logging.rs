//! Logs for people on stderr, with secrets masked.

use std::io::{self, Write};

use cleveragents_engine::secrets::Redactor;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::arguments::GlobalArguments;
use crate::environment::{Environment, Terminal};

/// Starts logging at the configured `level`; `-v` raises it and `-q` leaves only errors.
pub fn start(
    level: &str,
    arguments: &GlobalArguments,
    environment: &Environment,
    redactor: Redactor,
) {
    let coloured = environment.stderr == Terminal::Capable && !environment.no_color();
    // A second start in one process is ignored; it happens only in tests.
    let _ = tracing_subscriber::fmt()
        .with_max_level(filter(level, arguments))
        .with_ansi(coloured)
        .with_target(false)
        .with_writer(RedactingWriter { redactor })
        .try_init();
}

/// Installs a panic hook that prints a readable message with secrets masked.
pub fn report_panics(redactor: Redactor) {
    std::panic::set_hook(Box::new(move |panic| {
        let text = format!("error: a bug in agents, please report it: {panic}\n");
        let _ = io::stderr().write_all(redactor.redact(&text).as_bytes());
    }));
}

fn filter(level: &str, arguments: &GlobalArguments) -> LevelFilter {
    if arguments.quiet {
        return LevelFilter::ERROR;
    }
    let set = level.parse().unwrap_or(LevelFilter::WARN);
    let asked = match arguments.verbose {
        0 => LevelFilter::OFF,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    set.max(asked)
}

#[derive(Clone)]
struct RedactingWriter {
    redactor: Redactor,
}

impl<'a> MakeWriter<'a> for RedactingWriter {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

impl Write for &RedactingWriter {
    /// The subscriber passes each event in one call, so a secret is never split between two.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        io::stderr().write_all(self.redactor.redact(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_raises_the_level_and_quiet_lowers_it() {
        let arguments = |verbose, quiet| GlobalArguments {
            verbose,
            quiet,
            ..GlobalArguments::default()
        };
        assert_eq!(filter("warn", &arguments(0, false)), LevelFilter::WARN);
        assert_eq!(filter("warn", &arguments(1, false)), LevelFilter::INFO);
        assert_eq!(filter("trace", &arguments(1, false)), LevelFilter::TRACE);
        assert_eq!(filter("warn", &arguments(9, false)), LevelFilter::TRACE);
        assert_eq!(filter("trace", &arguments(0, true)), LevelFilter::ERROR);
    }
}
