//! Reads the task: an action by name, or a description in free text.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use cleveragents_api::NextStep;
use cleveragents_api::action::ActionList;
use cleveragents_api::plan::PlanStart;

use crate::commands::CommandContext;
use crate::failure::{CommandFailure, FailureKind, display_path};

/// The size limit for a task, in bytes.
const TASK_MAXIMUM: usize = 64 << 10;

/// The task as entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskText {
    pub(super) text: String,
    /// Whether the text can be the name of an action: only if it was typed on the command line.
    pub(super) may_be_name: bool,
}

fn run_step(task: &str) -> NextStep {
    NextStep::fill_in::<PlanStart>(&[("task", task)])
}

/// Reads the task from the command line or the file.
pub(super) fn read_task(
    typed: Option<&str>,
    file: Option<&Path>,
    context: &CommandContext<'_>,
) -> Result<TaskText, CommandFailure> {
    let (text, may_name) = match (typed, file) {
        (Some("-"), _) => (read_text("standard input", io::stdin().lock())?, false),
        (Some(typed), _) => (typed.to_owned(), true),
        (None, Some(path)) => {
            let name = display_path(path);
            let opened = File::open(context.absolute(path)).map_err(|error| {
                CommandFailure::usage(format!("{name} cannot be read")).caused_by(&error)
            })?;
            (read_text(&name, opened)?, false)
        }
        (None, None) => {
            return Err(CommandFailure::usage("no action or task given")
                .kind(FailureKind::NoTask)
                .hint(run_step("what to do"))
                .hint(run_step("ACTION"))
                .hint(NextStep::send(&ActionList::default())));
        }
    };
    if text.trim().is_empty() {
        return Err(CommandFailure::usage("the task is empty")
            .kind(FailureKind::NoTask)
            .hint(run_step("what to do")));
    }
    if text.contains('\0') {
        return Err(CommandFailure::usage("the task has a NUL character in it")
            .kind(FailureKind::NoTask)
            .because("a task is text, and becomes part of a commit's message"));
    }
    if text.len() > TASK_MAXIMUM {
        let what = format!("a task may be {TASK_MAXIMUM} bytes long, this one has more");
        return Err(CommandFailure::usage(what)
            .kind(FailureKind::TooLong)
            .hint("put the details into a file of the repository and name it"));
    }
    Ok(TaskText {
        text,
        may_be_name: may_name,
    })
}

fn read_text(name: &str, input: impl Read) -> Result<String, CommandFailure> {
    let mut bytes = Vec::new();
    let limit = TASK_MAXIMUM as u64 + 1;
    input.take(limit).read_to_end(&mut bytes).map_err(|error| {
        CommandFailure::usage(format!("{name} cannot be read")).caused_by(&error)
    })?;
    String::from_utf8(bytes).map_err(|_| {
        CommandFailure::usage(format!("{name} is not text")).because("a task is written in UTF-8")
    })
}
