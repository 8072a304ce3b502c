//! How far a long task has come, for a person who watches: on stderr, on a terminal only.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::arguments::GlobalArguments;
use crate::environment::{Environment, Terminal};
use crate::wiring::Progress;

const TICK: Duration = Duration::from_millis(100);

/// A line that says what is being done; gone when dropped.
#[derive(Debug)]
pub struct ProgressLine {
    bar: ProgressBar,
}

impl ProgressLine {
    pub fn new(task: &str, arguments: &GlobalArguments, environment: &Environment) -> Self {
        let watched = environment.stderr == Terminal::Capable && !arguments.quiet;
        let target = match watched {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let template = match environment.no_color() {
            true => "{spinner} {prefix}: {msg}",
            false => "{spinner:.cyan} {prefix}: {msg:.dim}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(task.to_owned());
        if watched {
            bar.enable_steady_tick(TICK);
        }
        Self { bar }
    }

    /// What is being done now.
    pub fn say(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    /// What the task calls with how far it is.
    pub fn listener(&self) -> Progress {
        let bar = self.bar.clone();
        Arc::new(move |what, number| bar.set_message(format!("{number} {what}")))
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
