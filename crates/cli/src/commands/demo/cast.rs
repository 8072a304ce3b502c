//! Who plays: the four plans, made from definitions as anybody writes them, and how each is meant
//! to end.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Base, ErrorCategory, NamespacedName, Phase, Position, State};
use cleveragents_engine::actors::Update;
use cleveragents_engine::definitions::read_actor;
use cleveragents_engine::lifecycle::{ActionChoice, UseRequest};
use cleveragents_engine::projects::NewProject;

use super::stage::Stage;
use crate::commands::Context;
use crate::definition_file::DefinitionFile;
use crate::failure::Failure;
use crate::wiring::Wired;
use crate::{names, places};

/// The project all of them work on.
const PROJECT: &str = "local/greeter";

/// One plan of the demo.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    /// What it shows.
    pub(super) story: &'static str,
    pub(super) ending: Ending,
    /// The kinds of errors it meets, in the order in which it meets them first.
    pub(super) errors: &'static [ErrorCategory],
    arguments: &'static [&'static str],
    /// The files by name; the one of the actor is read after its script is there.
    script: Option<(&'static str, &'static str)>,
    actor: (&'static str, &'static str),
    action: (&'static str, &'static str),
}

/// How a part ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Applied,
    /// Something of the user's is in the way.
    Conflict,
}

impl Ending {
    /// Whether a plan that stands here ended like this.
    pub(super) fn is(self, at: Position) -> bool {
        let state = match self {
            Self::Applied => State::Applied,
            Self::Conflict => State::Constrained,
        };
        (at.phase(), at.state()) == (Phase::Apply, state)
    }
}

/// A file among the definitions, with its name.
macro_rules! definition {
    ($name:literal) => {
        ($name, include_str!(concat!("definitions/", $name)))
    };
}

/// The parts, in the order in which they are applied.
pub(super) const PARTS: [Part; 4] = [
    Part {
        name: "feature",
        story: "a model adds an option, fails its check and mends it",
        ending: Ending::Applied,
        errors: &[ErrorCategory::Validation],
        arguments: &[],
        script: Some(definition!("feature-script.yaml")),
        actor: definition!("feature-actor.yaml"),
        action: definition!("feature-action.yaml"),
    },
    Part {
        name: "codemod",
        story: "tools rename a function, without any model",
        ending: Ending::Applied,
        errors: &[],
        arguments: &["from=say_msg", "to=say"],
        script: None,
        actor: definition!("codemod-actor.yaml"),
        action: definition!("codemod-action.yaml"),
    },
    Part {
        name: "manual",
        story: "a model is told to wait, waits, and writes",
        ending: Ending::Applied,
        errors: &[ErrorCategory::RateLimit],
        arguments: &[],
        script: Some(definition!("manual-script.yaml")),
        actor: definition!("manual-actor.yaml"),
        action: definition!("manual-action.yaml"),
    },
    Part {
        name: "limit",
        story: "its file is edited by somebody else before it is applied",
        ending: Ending::Conflict,
        errors: &[],
        arguments: &[],
        script: Some(definition!("limit-script.yaml")),
        actor: definition!("limit-actor.yaml"),
        action: definition!("limit-action.yaml"),
    },
];

/// Registers the repository as a project.
pub(super) fn project(
    stage: &Stage,
    context: &Context<'_>,
    wired: &Wired<'_>,
) -> Result<NamespacedName, Failure> {
    let data_directory = &context.settings()?.locations.data_directory;
    let place = places::look(&stage.repository(), data_directory)?;
    let name = names::name("project", PROJECT)?;
    let new = NewProject {
        name: name.clone(),
        description: None,
        automation_profile: None,
        places: vec![place.found()?],
        invariants: Vec::new(),
    };
    wired.wait(wired.projects().create(new, wired.actor()))?;
    Ok(name)
}

impl Part {
    /// Adds the actor, registers the action and uses it, as `actor add`, `action create` and
    /// `plan use` do.
    pub(super) fn make(
        &self,
        stage: &Stage,
        context: &Context<'_>,
        (wired, project): (&Wired<'_>, &NamespacedName),
    ) -> Result<PlanId, Failure> {
        if let Some((name, text)) = self.script {
            stage.define(name, text)?;
        }
        let read =
            |(name, text): (&str, &str)| DefinitionFile::read(&stage.define(name, text)?, context);
        let actor = read(self.actor)?.with(context.environment, read_actor)?;
        let draft = read(self.action)?.action(context.environment)?;
        let lifecycle = wired.lifecycle();
        let request = UseRequest {
            action: ActionChoice::Registered(draft.name.clone()),
            projects: vec![project.clone()],
            arguments: self.arguments.iter().map(|&it| it.to_owned()).collect(),
            automation_profile: None,
            default_profile: names::profile(&context.settings()?.automation_profile())?,
            repository_profile: None,
            invariants: Vec::new(),
            strategy_actor: None,
            execution_actor: None,
            base: Base::Head,
            idempotency_key: None,
            max_usd: None,
            actor: wired.actor().to_owned(),
        };
        wired.wait(wired.actors().add(actor, Update::Refuse, wired.actor()))?;
        wired.wait(lifecycle.create_action(draft, wired.actor()))?;
        let plan = wired.wait(lifecycle.use_action(request))?;
        Ok(plan.identity.plan_id)
    }
}
