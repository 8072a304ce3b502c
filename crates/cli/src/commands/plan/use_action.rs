//! `agents plan use`

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use cleveragents_app::project_actions::{FoundAction, shadowed_warning};
use cleveragents_app::trust::tightened_profile_warning;
use cleveragents_app::uncommitted::uncommitted_warning;
use cleveragents_domain::automation::ProfileSource;
use cleveragents_domain::{BaseSource, NamespacedName, Plan, Resource};
use cleveragents_engine::lifecycle::{ActionChoice, LifecycleError, UseActionRequest};
use cleveragents_ports::{Entity, StoreError};
use serde_json::{Value, json};

use super::view::{plan_data, position_cell, projects};
use crate::argument_types::parse_value;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::consent::TrustArgs;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

/// Create a plan from an action and projects
///
/// The plan is queued and does not run yet. It keeps a copy of the action, the arguments, the
/// automation profile and the rules. The profile is the one given here, else the action's, the
/// project's, or the setting core.automation-profile. An action in the repository's own files can
/// only make it stricter.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan use local/fix-lint local/shop
  agents plan use local/raise-coverage local/shop --arg target=90 --arg folder=src
  agents plan use local/rename local/shop local/docs --automation-profile trusted
  agents plan use local/fix-lint local/shop --trust
  agents plan use local/fix-lint local/shop --idempotency-key build-4711 --format json")]
pub struct PlanUseArgs {
    /// The action to use
    #[arg(value_name = "ACTION")]
    action: String,

    /// The projects to use it on
    #[arg(value_name = "PROJECT", required = true)]
    projects: Vec<String>,

    /// A value for an argument of the action; may be repeated
    #[arg(short, long = "arg", value_name = "NAME=VALUE")]
    arguments: Vec<String>,

    /// Automation profile: what needs your approval; a built-in profile or your own
    #[arg(long, value_name = "PROFILE")]
    automation_profile: Option<String>,

    /// A rule this plan must keep; may be repeated
    #[arg(long = "invariant", value_name = "TEXT")]
    invariants: Vec<String>,

    /// The actor that makes the strategy, instead of the action's
    #[arg(long, value_name = "ACTOR")]
    strategy_actor: Option<String>,

    /// The actor that executes it, instead of the action's
    #[arg(long, value_name = "ACTOR")]
    execution_actor: Option<String>,

    /// Start from `head`, the last commit, or `worktree`, the files including uncommitted changes
    #[arg(long, value_name = "BASE", default_value = "head", value_parser = parse_value::<BaseSource>)]
    base: BaseSource,

    /// Idempotency key: repeating the request with the same key returns the same plan
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    idempotency_key: Option<String>,

    #[command(flatten)]
    trust: TrustArgs,
}

impl PlanUseArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let mut request = self.request(context)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        request.actor = app.actor().to_owned();
        for text in &mut request.invariants {
            *text = app.mask_secrets(text)?;
        }
        let name = names::parse_name("action", &self.action)?;
        let resources =
            resources(&app, &request.projects).map_err(|error| use_failure(error.into(), &name))?;
        let folders = self.action_folders(context, &app, &resources);
        let handlers = app.app();
        let (mut warning, mut wanted) = (None, None);
        match app.block_on(handlers.find_action(&name, &folders))? {
            Ok(FoundAction::Registered { shadowed, .. }) => {
                warning = shadowed.map(|file| shadowed_warning(&name, &file));
            }
            Ok(FoundAction::File(local)) => {
                let action = local.into_action();
                self.trust.require(&action, &app, context.environment)?;
                wanted = action.draft.automation_profile.clone();
                request.action = ActionChoice::Repository(Box::new(action));
            }
            Err(unknown) => {
                return Err(app.block_on(handlers.unknown_action_failure(&unknown)));
            }
        }
        self.trust.trust_includes(&resources, &app)?;
        let plan = app.block_on(app.masking_lifecycle()?.use_action(request));
        let plan = plan.map_err(|error| use_failure(error, &name))?;
        let tightened = tightened_profile_warning(&plan, wanted.as_ref());
        let uncommitted = match plan.brief.base {
            BaseSource::Head => handlers.find_uncommitted(&resources),
            BaseSource::Worktree => Vec::new(),
        };
        let mut answer = answer(&plan, resources.len());
        answer.data["uncommitted"] = json!(uncommitted);
        let warnings = warning.into_iter().chain(tightened);
        Ok(warnings
            .chain(uncommitted.iter().map(uncommitted_warning))
            .fold(answer, |answer, text| {
                answer.with_message(MessageLevel::Warn, text)
            }))
    }

    /// Builds the request from the arguments. `actor` is filled in later.
    fn request(&self, context: &CommandContext<'_>) -> Result<UseActionRequest, CommandFailure> {
        let actor = |text: &Option<String>| {
            let name = text.as_deref().map(|text| names::parse_name("actor", text));
            name.transpose()
        };
        let projects = self
            .projects
            .iter()
            .map(|text| names::parse_name("project", text));
        let chosen = self.automation_profile.as_deref().map(names::parse_profile);
        let settings = context.settings()?;
        let repository_profile = settings.repository_automation_profile();
        let repository_profile = repository_profile.as_deref().map(names::parse_profile);
        Ok(UseActionRequest {
            action: ActionChoice::Registered(names::parse_name("action", &self.action)?),
            projects: projects.collect::<Result<_, _>>()?,
            arguments: self.arguments.clone(),
            automation_profile: chosen.transpose()?,
            default_profile: names::parse_profile(&settings.user_automation_profile())?,
            repository_profile: repository_profile.transpose()?,
            invariants: self.invariants.clone(),
            strategy_actor: actor(&self.strategy_actor)?,
            execution_actor: actor(&self.execution_actor)?,
            base: self.base,
            idempotency_key: self.idempotency_key.clone(),
            max_usd: None,
            actor: String::new(),
        })
    }

    /// Returns the folders to search for unregistered actions: the projects, then the working
    /// directory.
    fn action_folders(
        &self,
        context: &CommandContext<'_>,
        app: &AppContext<'_>,
        resources: &[Resource],
    ) -> Vec<PathBuf> {
        let path = |resource: &Resource| {
            PathBuf::from(OsString::from_vec(resource.path.as_bytes().to_vec()))
        };
        let mut folders: Vec<PathBuf> = resources.iter().map(path).collect();
        let here = context.environment.working_directory.as_deref();
        for folder in app.app().enclosing_projects(here) {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        folders
    }
}

/// Converts the error and adds hints.
fn use_failure(error: LifecycleError, action: &NamespacedName) -> CommandFailure {
    let project = matches!(
        error,
        LifecycleError::Store(StoreError::NotFound {
            entity: Entity::Project,
            ..
        })
    );
    let argument = matches!(error, LifecycleError::Argument(_));
    let failure = CommandFailure::from(error);
    match (project, argument) {
        (true, _) => failure.hint("agents project list"),
        (_, true) => failure.hint(format!("agents action show {action}")),
        _ => failure,
    }
}

/// Returns the resources of the projects. A missing project is not an error here; creating the plan
/// checks again and reports it.
fn resources(
    app: &AppContext<'_>,
    projects: &[NamespacedName],
) -> Result<Vec<Resource>, StoreError> {
    let projects = projects.to_vec();
    let look = app.store().read(move |tx| {
        let mut resources = Vec::new();
        for project in &projects {
            resources.extend(tx.resources_of(project)?);
        }
        Ok(resources)
    });
    app.block_on(look)
}

fn answer(plan: &Plan, resources: usize) -> CommandAnswer {
    let id = plan.identity.plan_id;
    let brief = &plan.brief;
    let next_steps = ["execute", "status", "tree"].map(|verb| format!("agents plan {verb} {id}"));
    let inputs = brief.arguments.iter().map(|(name, value)| {
        let shown = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        (name.as_str(), ViewCell::from(shown))
    });
    let mut view = OutputView::new().panel(
        "Plan",
        [
            ("plan", ViewCell::new(id.short(), Tone::Strong)),
            ("name", ViewCell::from(plan.name.to_string())),
            ("state", position_cell(plan.position)),
            ("action", ViewCell::from(brief.action_name.to_string())),
            ("projects", ViewCell::from(projects(plan))),
            ("resources", ViewCell::from(resources.to_string())),
            (
                "profile",
                ViewCell::from(format!(
                    "{} (from {})",
                    brief.automation_profile.name,
                    source_name(brief.automation_source)
                )),
            ),
            (
                "strategy by",
                ViewCell::from(brief.actors.strategy_actor.to_string()),
            ),
            (
                "execution by",
                ViewCell::from(brief.actors.execution_actor.to_string()),
            ),
        ],
    );
    if !brief.arguments.is_empty() {
        view = view.panel("Arguments", inputs);
    }
    if !brief.invariants.is_empty() {
        let rows = brief.invariants.iter();
        let rows = rows.map(|it| vec![ViewCell::from(it.source.as_str()), it.text.clone().into()]);
        view = view.table("Rules", &["from", "rule"], rows);
    }
    let mut answer = CommandAnswer::new(data(plan, resources, &next_steps), view)
        .with_message(MessageLevel::Info, "Plan created");
    for step in next_steps {
        answer = answer.with_message(MessageLevel::Hint, step);
    }
    if resources == 0 {
        let text = "no project of this plan has a resource, so it cannot start yet";
        answer = answer.with_message(MessageLevel::Warn, text);
    }
    answer
}

fn data(plan: &Plan, resources: usize, next_steps: &[String]) -> Value {
    let brief = &plan.brief;
    let mut data = plan_data(plan);
    let more = json!({
        "description": brief.description,
        "automation_profile": brief.automation_profile.name,
        "inputs": brief.arguments,
        "actors": {
            "strategy": brief.actors.strategy_actor,
            "execution": brief.actors.execution_actor,
            "estimation": brief.actors.estimation_actor,
        },
        "automation": {
            "profile": brief.automation_profile.name,
            "source": source_name(brief.automation_source),
            "read_only": brief.read_only,
        },
        "context": {
            "resources": resources,
            "indexed_files": null,
            "view": null,
            "hot_token_budget": null,
        },
        "invariants": brief.invariants,
        "base": brief.base,
        "next_steps": next_steps,
    });
    if let Value::Object(more) = more {
        data.extend(more);
    }
    Value::Object(data)
}

fn source_name(source: ProfileSource) -> &'static str {
    match source {
        ProfileSource::Plan => "CLI flag",
        ProfileSource::Action => "action",
        ProfileSource::Project => "project",
        ProfileSource::Global => "setting",
    }
}
