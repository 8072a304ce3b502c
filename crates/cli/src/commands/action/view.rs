//! Output of an action for people and programs.

use std::path::PathBuf;

use cleveragents_definitions::ActionDraft;
use cleveragents_domain::{Action, Argument, ArgumentType};
use serde_json::{Value, json};

use crate::failure::display_path;
use crate::local_actions::LocalAction;
use crate::output::{OutputView, Tone, ViewCell};

/// An action from any source, and the number of its plans.
#[derive(Debug)]
pub(super) struct ActionView {
    pub(super) draft: ActionDraft,
    pub(super) plans: u64,
    pub(super) origin: ActionOrigin,
}

#[derive(Debug)]
pub(super) enum ActionOrigin {
    Registered(Box<Action>),
    File(PathBuf),
}

impl ActionOrigin {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Registered(_) => "registered",
            Self::File(_) => "file",
        }
    }

    pub(super) fn file(&self) -> Option<String> {
        match self {
            Self::Registered(_) => None,
            Self::File(file) => Some(display_path(file)),
        }
    }

    fn action(&self) -> Option<&Action> {
        match self {
            Self::Registered(action) => Some(action),
            Self::File(_) => None,
        }
    }
}

impl ActionView {
    pub(super) fn from_registered(action: &Action, plans: u64) -> Self {
        Self {
            draft: ActionDraft::from(action),
            plans,
            origin: ActionOrigin::Registered(Box::new(action.clone())),
        }
    }

    pub(super) fn from_local(local: LocalAction, plans: u64) -> Self {
        Self {
            draft: local.draft,
            plans,
            origin: ActionOrigin::File(local.file),
        }
    }

    /// Returns all fields of the action for JSON output.
    pub(super) fn data(&self) -> Value {
        let draft = &self.draft;
        let actors = &draft.actors;
        let registered = self.origin.action();
        json!({
            "name": draft.name,
            "id": registered.map(|action| action.id),
            "state": draft.state,
            "description": draft.description,
            "long_description": draft.long_description,
            "strategy_actor": actors.strategy_actor,
            "execution_actor": actors.execution_actor,
            "estimation_actor": actors.estimation_actor,
            "review_actor": actors.review_actor,
            "apply_actor": actors.apply_actor,
            "invariant_actor": actors.invariant_actor,
            "definition_of_done": draft.definition_of_done,
            "arguments": draft.arguments,
            "automation_profile": draft.automation_profile,
            "invariants": draft.invariants,
            "checks": draft.checks,
            "budget": draft.budget,
            "skills": draft.skills,
            "reusable": draft.reusable,
            "read_only": draft.read_only,
            "plans": self.plans,
            "source": self.origin.name(),
            "file": self.origin.file(),
            "version": registered.map(|action| action.version),
            "created_at": registered.map(|action| action.created_at),
            "updated_at": registered.map(|action| action.updated_at),
            "use_command": self.use_command(),
        })
    }

    /// Returns the command that creates a plan from this action, with upper-case placeholders.
    pub(super) fn use_command(&self) -> String {
        let mut command = format!("agents plan use {} PROJECT", self.draft.name);
        for argument in self.draft.arguments.iter().filter(|it| is_required(it)) {
            let value = match argument.argument_type {
                ArgumentType::Choice => argument.choices.join("|"),
                other => other.as_str().to_ascii_uppercase(),
            };
            command.push_str(&format!(" --arg {}={}", argument.name, shell_quote(&value)));
        }
        command
    }

    pub(super) fn panels(&self, title: &str) -> OutputView {
        let view = OutputView::new().panel(title, self.rows());
        let view = if self.draft.arguments.is_empty() {
            view
        } else {
            let headers = [
                "argument",
                "type",
                "required",
                "default",
                "description",
                "accepts",
            ];
            let rows = self.draft.arguments.iter().map(argument_row);
            view.table("Arguments", &headers, rows)
        };
        let invariants = self.draft.invariants.iter();
        let rules: Vec<Vec<ViewCell>> = invariants.map(|text| vec![text.into()]).collect();
        let view = if rules.is_empty() {
            view
        } else {
            view.table("Invariants", &["rule"], rules)
        };
        if self.draft.checks.is_empty() {
            view
        } else {
            view.table("Checks", &["command", "name", "timeout"], self.checks())
        }
    }

    fn rows(&self) -> Vec<(&'static str, ViewCell)> {
        let draft = &self.draft;
        let actors = &draft.actors;
        let mut rows = vec![
            ("name", ViewCell::new(draft.name.to_string(), Tone::Strong)),
            ("state", draft.state.to_string().into()),
            ("description", draft.description.clone().into()),
        ];
        let mut add = |name, value: Option<String>| {
            if let Some(value) = value {
                rows.push((name, value.trim_end().into()));
            }
        };
        add("details", draft.long_description.clone());
        add("done when", Some(draft.definition_of_done.clone()));
        add("strategy actor", Some(actors.strategy_actor.to_string()));
        add("execution actor", Some(actors.execution_actor.to_string()));
        for (name, actor) in [
            ("estimation actor", &actors.estimation_actor),
            ("review actor", &actors.review_actor),
            ("apply actor", &actors.apply_actor),
            ("invariant actor", &actors.invariant_actor),
        ] {
            add(name, actor.as_ref().map(ToString::to_string));
        }
        let profile = draft.automation_profile.as_ref();
        add("automation profile", profile.map(ToString::to_string));
        let skills: Vec<String> = draft.skills.iter().map(ToString::to_string).collect();
        add("skills", (!skills.is_empty()).then(|| skills.join(", ")));
        add("budget", self.budget());
        add("reusable", Some(yes_or_no(draft.reusable)));
        add("read only", Some(yes_or_no(draft.read_only)));
        add("plans", Some(self.plans.to_string()));
        add("source", Some(self.origin.name().to_owned()));
        add("file", self.origin.file());
        if let Some(action) = self.origin.action() {
            add("version", Some(action.version.to_string()));
            add("created", Some(action.created_at.to_string()));
            add("updated", Some(action.updated_at.to_string()));
        }
        rows
    }

    fn budget(&self) -> Option<String> {
        let budget = &self.draft.budget;
        let parts: Vec<String> = [
            budget.usd.map(|usd| format!("{usd} USD")),
            budget.tokens.map(|tokens| format!("{tokens} tokens")),
            budget.wall.map(|wall| format!("{wall} s")),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn checks(&self) -> Vec<Vec<ViewCell>> {
        let checks = self.draft.checks.iter();
        let row = checks.map(|check| {
            let timeout = check.timeout.map(|seconds| format!("{seconds} s"));
            vec![
                check.run.clone().into(),
                check.name.clone().unwrap_or_default().into(),
                timeout.unwrap_or_default().into(),
            ]
        });
        row.collect()
    }
}

fn is_required(argument: &Argument) -> bool {
    argument.required && argument.default.is_none()
}

fn argument_row(argument: &Argument) -> Vec<ViewCell> {
    let accepts = match &argument.pattern {
        Some(pattern) => pattern.clone(),
        None => argument.choices.join(", "),
    };
    let default = match &argument.default {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    vec![
        ViewCell::new(&argument.name, Tone::Strong),
        argument.argument_type.to_string().into(),
        yes_or_no(argument.required).into(),
        default.into(),
        argument.description.clone().into(),
        accepts.into(),
    ]
}

pub(super) fn yes_or_no(value: bool) -> String {
    if value {
        "yes".to_owned()
    } else {
        "no".to_owned()
    }
}

/// Quotes a text as one word for a shell.
fn shell_quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
