//! Progress of long tasks, on stderr and only on a terminal.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::arguments::GlobalArguments;
use crate::bootstrap::ProgressCallback;
use crate::environment::{Environment, Terminal};

const TICK: Duration = Duration::from_millis(100);

/// A line with the current step; removed on drop.
#[derive(Debug)]
pub struct ProgressLine {
    bar: ProgressBar,
}

/// A line with the current step, and above it a text that is not complete yet. Both are removed on
/// drop.
#[derive(Debug)]
pub struct ProgressText {
    bar: ProgressBar,
}

/// Several lines, one per task.
#[derive(Debug)]
pub struct ProgressLines<'a> {
    all: MultiProgress,
    environment: &'a Environment,
}

impl<'a> ProgressLines<'a> {
    pub fn new(arguments: &GlobalArguments, environment: &'a Environment) -> Self {
        let target = draw_target(arguments, environment);
        Self {
            all: MultiProgress::with_draw_target(target),
            environment,
        }
    }

    /// Adds a line below the others.
    pub fn line(&self, task: &str) -> ProgressLine {
        let bar = self.all.add(ProgressBar::no_length());
        ProgressLine::with_style(bar, task, self.environment)
    }
}

impl ProgressText {
    pub fn new(task: &str, arguments: &GlobalArguments, environment: &Environment) -> Self {
        let target = draw_target(arguments, environment);
        let bar = ProgressBar::with_draw_target(None, target);
        // The prefix is the text, with a line end unless it is empty.
        let template = if environment.no_color() {
            format!("{{prefix}}{{spinner}} {task}: {{msg}} ({{elapsed}})")
        } else {
            format!("{{prefix:.dim}}{{spinner:.cyan}} {task}: {{msg:.dim}} ({{elapsed}})")
        };
        start(&bar, &template);
        Self { bar }
    }

    /// Sets the current step.
    pub fn set_message(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    /// Sets the text above the current step; its line is removed if it is empty.
    pub fn set_text(&self, text: &str) {
        let line_end = if text.is_empty() { "" } else { "\n" };
        self.bar.set_prefix(format!("{text}{line_end}"));
    }

    /// Hides both lines while `show` prints or asks something.
    pub fn suspend<T>(&self, show: impl FnOnce() -> T) -> T {
        self.bar.suspend(show)
    }
}

impl Drop for ProgressText {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl ProgressLine {
    pub fn new(task: &str, arguments: &GlobalArguments, environment: &Environment) -> Self {
        let target = draw_target(arguments, environment);
        let bar = ProgressBar::with_draw_target(None, target);
        Self::with_style(bar, task, environment)
    }

    fn with_style(bar: ProgressBar, task: &str, environment: &Environment) -> Self {
        let template = if environment.no_color() {
            "{spinner} {prefix}: {msg} ({elapsed})"
        } else {
            "{spinner:.cyan} {prefix}: {msg:.dim} ({elapsed})"
        };
        start(&bar, template);
        bar.set_prefix(task.to_owned());
        Self { bar }
    }

    /// Sets the current step.
    pub fn set_message(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    /// Returns the callback with which the task reports its progress.
    pub fn listener(&self) -> ProgressCallback {
        let bar = self.bar.clone();
        Arc::new(move |what, number| bar.set_message(format!("{number} {what}")))
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn start(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    if !bar.is_hidden() {
        bar.enable_steady_tick(TICK);
    }
}

/// Returns where lines are drawn: hidden unless stderr is a terminal and `--quiet` is off.
fn draw_target(arguments: &GlobalArguments, environment: &Environment) -> ProgressDrawTarget {
    if environment.stderr == Terminal::Capable && !arguments.quiet {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    }
}
