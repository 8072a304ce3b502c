//! `agents plan use`

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use cleveragents_api::Reply;
use cleveragents_api::plan::PlanUse;
use cleveragents_api::plan::use_action::CreatedPlan;
use cleveragents_domain::BaseSource;
use serde_json::Value;

use super::view::summary_cell;
use crate::argument_types::parse_value;
use crate::commands::CommandContext;
use crate::consent::{self, TrustArgs};
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

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
        let request = self.request(context)?;
        CommandAnswer::from_reply(self.send(request, context)?, view)
    }

    /// Sends the request. If it needs consent to a file of the repository, the user is asked.
    fn send(
        &self,
        request: PlanUse,
        context: &CommandContext<'_>,
    ) -> Result<Reply<CreatedPlan>, CommandFailure> {
        match context.call(request.clone()) {
            Err(failure) if consent::is_needed(&failure) => {
                let trusted_hash = Some(consent::ask(failure, context.environment)?);
                context.call(PlanUse {
                    trusted_hash,
                    ..request
                })
            }
            reply => reply,
        }
    }

    fn request(&self, context: &CommandContext<'_>) -> Result<PlanUse, CommandFailure> {
        let actor = |text: &Option<String>| {
            let name = text.as_deref().map(|text| names::parse_name("actor", text));
            name.transpose()
        };
        let projects = self.projects.iter();
        let projects = projects.map(|text| names::parse_name("project", text));
        let chosen = self.automation_profile.as_deref().map(names::parse_profile);
        let settings = context.settings()?;
        let repository_profile = settings.repository_automation_profile();
        let repository_profile = repository_profile.as_deref().map(names::parse_profile);
        Ok(PlanUse {
            action: names::parse_name("action", &self.action)?,
            projects: projects.collect::<Result<_, _>>()?,
            arguments: self.arguments.clone(),
            automation_profile: chosen.transpose()?,
            invariants: self.invariants.clone(),
            strategy_actor: actor(&self.strategy_actor)?,
            execution_actor: actor(&self.execution_actor)?,
            base: self.base,
            idempotency_key: self.idempotency_key.clone(),
            trust: self.trust.is_given(),
            trusted_hash: None,
            default_profile: names::parse_profile(&settings.user_automation_profile())?,
            repository_profile: repository_profile.transpose()?,
            folder: context.environment.working_directory.clone(),
        })
    }
}

fn view(created: &CreatedPlan) -> OutputView {
    let plan = &created.plan;
    let profile = format!(
        "{} (from {})",
        created.automation.profile, created.automation.source
    );
    let rows = [
        ("plan", ViewCell::new(plan.plan_id.short(), Tone::Strong)),
        ("name", plan.name.to_string().into()),
        ("state", summary_cell(plan)),
        ("action", plan.action.to_string().into()),
        ("projects", plan.project.clone().into()),
        ("resources", created.context.resources.to_string().into()),
        ("profile", profile.into()),
        ("strategy by", created.actors.strategy.to_string().into()),
        ("execution by", created.actors.execution.to_string().into()),
    ];
    let mut view = OutputView::new().panel("Plan", rows);
    if !created.inputs.is_empty() {
        let inputs = created.inputs.iter();
        view = view.panel(
            "Arguments",
            inputs.map(|(name, value)| (name.as_str(), cell(value))),
        );
    }
    if !created.invariants.is_empty() {
        let rows = created.invariants.iter();
        let rows = rows.map(|it| vec![ViewCell::from(it.source.as_str()), it.text.clone().into()]);
        view = view.table("Rules", &["from", "rule"], rows);
    }
    view
}

fn cell(value: &Value) -> ViewCell {
    match value {
        Value::String(text) => text.clone().into(),
        other => other.to_string().into(),
    }
}
