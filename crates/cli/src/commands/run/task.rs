//! The task: an action by name, or a description in free text.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cleveragents_app::project_actions::{FoundAction, shadowed_warning};
use cleveragents_definitions::built_in_do_action;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::lifecycle::ActionChoice;

use super::target_folder::TargetFolder;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, display_path};

/// The size limit for a task, in bytes.
const TASK_MAXIMUM: usize = 64 << 10;

/// The maximum length of a task's title, in characters.
const TITLE_MAXIMUM: usize = 100;

/// The task as entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskText {
    text: String,
    /// Whether the text can be the name of an action: only if it was typed on the command line.
    may_be_name: bool,
}

#[derive(Debug)]
pub(super) enum RunTask {
    Action(ActionChoice),
    Text(TaskText),
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
                .kind("no_task")
                .hint("agents run \"what to do\"")
                .hint("agents run ACTION")
                .hint("agents action list"));
        }
    };
    if text.trim().is_empty() {
        return Err(CommandFailure::usage("the task is empty")
            .kind("no_task")
            .hint("agents run \"what to do\""));
    }
    if text.contains('\0') {
        return Err(CommandFailure::usage("the task has a NUL character in it")
            .kind("no_task")
            .because("a task is text, and becomes part of a commit's message"));
    }
    if text.len() > TASK_MAXIMUM {
        let what = format!("a task may be {TASK_MAXIMUM} bytes long, this one has more");
        return Err(CommandFailure::usage(what)
            .kind("too_long")
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

impl RunTask {
    /// Resolves the text to an existing action, or to a free-text task. A text in the form of a
    /// full name that matches no action is an error, not a task. Also returns a warning if a file
    /// of the repository defines the action too.
    pub(super) fn resolve(
        task_text: &TaskText,
        target: &TargetFolder,
        context: &CommandContext<'_>,
        app: &AppContext<'_>,
    ) -> Result<(Self, Option<String>), CommandFailure> {
        let Some(name) = task_text.action_name() else {
            return Ok((Self::Text(task_text.clone()), None));
        };
        let mut folders: Vec<PathBuf> = vec![target.folder.clone()];
        let handlers = app.app();
        let here = context.environment.working_directory.as_deref();
        let enclosing = handlers.enclosing_projects(here).into_iter();
        folders.extend(enclosing.filter(|folder| *folder != target.folder));
        let mut warning = None;
        let task = match app.block_on(handlers.find_action(&name, &folders))? {
            Ok(FoundAction::Registered { shadowed, .. }) => {
                warning = shadowed.map(|file| shadowed_warning(&name, &file));
                Self::Action(ActionChoice::Registered(name))
            }
            Ok(FoundAction::File(local)) => {
                let action = Box::new(local.into_action());
                Self::Action(ActionChoice::Repository(action))
            }
            Err(unknown) if task_text.text.contains('/') => {
                return Err(app.block_on(handlers.unknown_action_failure(&unknown)));
            }
            Err(_) => Self::Text(task_text.clone()),
        };
        Ok((task, warning))
    }
}

impl TaskText {
    /// Returns the action that the text may name.
    fn action_name(&self) -> Option<NamespacedName> {
        let text = self.text.trim();
        if self.may_be_name && !text.contains(char::is_whitespace) {
            text.parse().ok()
        } else {
            None
        }
    }

    /// Returns the built-in action for free text, with its arguments.
    pub(super) fn action(&self) -> (ActionChoice, Vec<String>) {
        let text = self.text.trim();
        let first = text.lines().next().unwrap_or_default();
        let mut title: String = first.chars().take(TITLE_MAXIMUM).collect();
        if first.chars().count() > TITLE_MAXIMUM {
            title.push('…');
        }
        let arguments = vec![format!("title={title}"), format!("task={text}")];
        (
            ActionChoice::Given(Box::new(built_in_do_action())),
            arguments,
        )
    }
}
