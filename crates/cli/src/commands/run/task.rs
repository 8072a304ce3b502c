//! What is to be done: an action by its name, or a task in somebody's own words.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cleveragents_domain::NamespacedName;
use cleveragents_engine::definitions::do_action;
use cleveragents_engine::lifecycle::ActionChoice;

use super::place::Place;
use crate::commands::Context;
use crate::commands::action::{is_missing, local_names, unknown};
use crate::failure::{Failure, shown_path};
use crate::local_actions::{self, Chosen};
use crate::wiring::Wired;

/// The longest a task may be, in bytes.
const TASK_MAXIMUM: usize = 64 << 10;

/// The longest title a task gets, in characters.
const TITLE_MAXIMUM: usize = 100;

/// What somebody typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    text: String,
    /// Whether it can be the name of an action: only what was typed on the line.
    may_name: bool,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Task {
    Action(ActionChoice),
    Words(Words),
}

/// What was typed, or stands in the file.
pub(super) fn words(
    typed: Option<&str>,
    file: Option<&Path>,
    context: &Context<'_>,
) -> Result<Words, Failure> {
    let (text, may_name) = match (typed, file) {
        (Some("-"), _) => (read("standard input", io::stdin().lock())?, false),
        (Some(typed), _) => (typed.to_owned(), true),
        (None, Some(path)) => {
            let name = shown_path(path);
            let opened = File::open(context.absolute(path)).map_err(|error| {
                Failure::usage(format!("{name} cannot be read")).caused_by(&error)
            })?;
            (read(&name, opened)?, false)
        }
        (None, None) => {
            return Err(Failure::usage("nothing is said to be done")
                .kind("no_task")
                .hint("agents run \"what to do\"")
                .hint("agents run ACTION")
                .hint("agents action list"));
        }
    };
    if text.trim().is_empty() {
        return Err(Failure::usage("the task is empty")
            .kind("no_task")
            .hint("agents run \"what to do\""));
    }
    if text.contains('\0') {
        return Err(Failure::usage("the task has a NUL character in it")
            .kind("no_task")
            .because("a task is text, and becomes part of a commit's message"));
    }
    if text.len() > TASK_MAXIMUM {
        let what = format!("a task may be {TASK_MAXIMUM} bytes long, this one has more");
        return Err(Failure::usage(what)
            .kind("too_long")
            .hint("put the details into a file of the repository and name it"));
    }
    Ok(Words { text, may_name })
}

fn read(name: &str, input: impl Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let limit = TASK_MAXIMUM as u64 + 1;
    input
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("{name} cannot be read")).caused_by(&error))?;
    String::from_utf8(bytes).map_err(|_| {
        Failure::usage(format!("{name} is not text")).because("a task is written in UTF-8")
    })
}

impl Task {
    /// What the words mean: an action that there is, or the words themselves. What is shaped like
    /// a whole name and names nothing is a mistake, not a task.
    pub(super) fn of(
        words: &Words,
        place: &Place,
        context: &Context<'_>,
        wired: &Wired<'_>,
    ) -> Result<Self, Failure> {
        let Some(name) = words.name() else {
            return Ok(Self::Words(words.clone()));
        };
        let mut folders: Vec<PathBuf> = vec![place.folder.clone()];
        folders.extend(
            local_actions::around_here(context.environment)
                .into_iter()
                .filter(|folder| *folder != place.folder),
        );
        let chosen = local_actions::choose(&name, &folders, || {
            let found = wired.wait(wired.lifecycle().action(name.clone()));
            match is_missing(&found) {
                true => Ok(None),
                false => Ok(Some(found?)),
            }
        })?;
        Ok(match chosen {
            Some(Chosen::Registered { .. }) => Self::Action(ActionChoice::Registered(name)),
            Some(Chosen::File(local)) => {
                let action = Box::new(local.into_action());
                Self::Action(ActionChoice::Repository(action))
            }
            None if words.text.contains('/') => {
                return Err(unknown(&name, &local_names(context), wired));
            }
            None => Self::Words(words.clone()),
        })
    }
}

impl Words {
    /// The action that the words may name.
    fn name(&self) -> Option<NamespacedName> {
        let text = self.text.trim();
        match self.may_name && !text.contains(char::is_whitespace) {
            true => text.parse().ok(),
            false => None,
        }
    }

    /// The built-in action for words, with them.
    pub(super) fn action(&self) -> (ActionChoice, Vec<String>) {
        let text = self.text.trim();
        let first = text.lines().next().unwrap_or_default();
        let mut title: String = first.chars().take(TITLE_MAXIMUM).collect();
        if first.chars().count() > TITLE_MAXIMUM {
            title.push('…');
        }
        let arguments = vec![format!("title={title}"), format!("task={text}")];
        (ActionChoice::Given(Box::new(do_action())), arguments)
    }
}
