//! The four plans of the demo, created from ordinary definition files, and the expected outcome of
//! each.

use cleveragents_api::action::ActionCreate;
use cleveragents_api::actor::ActorAdd;
use cleveragents_api::plan::PlanUse;
use cleveragents_api::project::ProjectCreate;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{BaseSource, ErrorCategory, NamespacedName, Phase, PlanState, Position};

use super::workspace::DemoWorkspace;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::definition_file::DefinitionFile;
use crate::failure::CommandFailure;
use crate::names;

/// The project of all plans.
const PROJECT: &str = "local/greeter";

#[derive(Debug)]
pub(super) struct DemoPlan {
    pub(super) name: &'static str,
    /// The feature that the plan demonstrates.
    pub(super) description: &'static str,
    pub(super) expected: ExpectedOutcome,
    /// The categories of errors that occur, in the order of first occurrence.
    pub(super) errors: &'static [ErrorCategory],
    arguments: &'static [&'static str],
    /// Definition files by name. The script is written before the actor, which refers to it.
    script: Option<(&'static str, &'static str)>,
    actor: (&'static str, &'static str),
    action: (&'static str, &'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedOutcome {
    Applied,
    /// A file of the user conflicts with the plan's changes.
    Conflict,
}

impl ExpectedOutcome {
    /// Returns whether the position is this outcome.
    pub(super) fn matches(self, at: Position) -> bool {
        let state = match self {
            Self::Applied => PlanState::Applied,
            Self::Conflict => PlanState::Constrained,
        };
        (at.phase(), at.state()) == (Phase::Apply, state)
    }
}

/// Includes a definition file, with its name.
macro_rules! definition {
    ($name:literal) => {
        ($name, include_str!(concat!("definitions/", $name)))
    };
}

/// The plans, in the order in which they are applied.
pub(super) const DEMO_PLANS: [DemoPlan; 4] = [
    DemoPlan {
        name: "feature",
        description: "a model adds an option, fails its check and repairs it",
        expected: ExpectedOutcome::Applied,
        errors: &[ErrorCategory::Validation],
        arguments: &[],
        script: Some(definition!("feature-script.yaml")),
        actor: definition!("feature-actor.yaml"),
        action: definition!("feature-action.yaml"),
    },
    DemoPlan {
        name: "codemod",
        description: "tools rename a function, without any model",
        expected: ExpectedOutcome::Applied,
        errors: &[],
        arguments: &["from=say_msg", "to=say"],
        script: None,
        actor: definition!("codemod-actor.yaml"),
        action: definition!("codemod-action.yaml"),
    },
    DemoPlan {
        name: "manual",
        description: "a model is rate limited, waits and retries",
        expected: ExpectedOutcome::Applied,
        errors: &[ErrorCategory::RateLimit],
        arguments: &[],
        script: Some(definition!("manual-script.yaml")),
        actor: definition!("manual-actor.yaml"),
        action: definition!("manual-action.yaml"),
    },
    DemoPlan {
        name: "limit",
        description: "a file it changed is edited before it is applied",
        expected: ExpectedOutcome::Conflict,
        errors: &[],
        arguments: &[],
        script: Some(definition!("limit-script.yaml")),
        actor: definition!("limit-actor.yaml"),
        action: definition!("limit-action.yaml"),
    },
];

/// Registers the repository as a project.
pub(super) fn create_project(
    workspace: &DemoWorkspace,
    app: &AppContext<'_>,
) -> Result<NamespacedName, CommandFailure> {
    let name = names::parse_name("project", PROJECT)?;
    app.call(ProjectCreate {
        name: name.clone(),
        path: vec![workspace.repository()],
        invariant: Vec::new(),
        description: None,
        automation_profile: None,
    })?;
    Ok(name)
}

impl DemoPlan {
    /// Adds the actor, creates the action and uses it on the project.
    pub(super) fn create_plan(
        &self,
        workspace: &DemoWorkspace,
        context: &CommandContext<'_>,
        app: &AppContext<'_>,
        project: &NamespacedName,
    ) -> Result<PlanId, CommandFailure> {
        if let Some((name, text)) = self.script {
            workspace.write_definition(name, text)?;
        }
        let read = |(name, text): (&str, &str)| {
            let file = DefinitionFile::read(&workspace.write_definition(name, text)?, context)?;
            Ok::<_, CommandFailure>(file.into_text(context.environment))
        };
        app.call(ActorAdd {
            config: read(self.actor)?,
            update: false,
            name: None,
        })?;
        let action = app.call(ActionCreate {
            config: read(self.action)?,
            update: false,
        })?;
        let plan = app.call(PlanUse {
            action: action.answer.name,
            projects: vec![project.clone()],
            arguments: self.arguments.iter().map(|&it| it.to_owned()).collect(),
            automation_profile: None,
            invariants: Vec::new(),
            strategy_actor: None,
            execution_actor: None,
            base: BaseSource::Head,
            idempotency_key: None,
            trust: false,
            trusted_hash: None,
            default_profile: names::parse_profile(&context.settings()?.automation_profile())?,
            repository_profile: None,
            folder: None,
        })?;
        Ok(plan.answer.plan.plan_id)
    }
}
