//! `agents validation attach`

use clap::Args;
use cleveragents_domain::{AttachmentScope, NamespacedName};
use cleveragents_engine::validations::{
    AttachmentRequest, AttachmentView, ValidationRegistryError, read_arguments,
};
use serde_json::json;

use super::{registry_failure, view};
use crate::argument_types::PlanArgument;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode};
use crate::names;
use crate::output::{CommandAnswer, MessageLevel};

/// Attach a validation to a resource
///
/// Without a scope it applies to every plan on the resource. The validation reads its arguments as
/// `args`; all required arguments must be given.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation attach local/shop local/tests
  agents validation attach --project local/shop local/shop local/tests package=cart
  agents validation attach --plan 7XK2M9QD local/shop local/tests")]
pub struct ValidationAttachArgs {
    /// The resource to check
    #[arg(value_name = "RESOURCE")]
    resource: String,

    /// The validation
    #[arg(value_name = "VALIDATION")]
    validation: String,

    /// Arguments of the validation
    #[arg(value_name = "NAME=VALUE")]
    args: Vec<String>,

    /// Only for plans of this project
    #[arg(short, long, value_name = "PROJECT", conflicts_with = "plan")]
    project: Option<String>,

    /// Only for this plan
    #[arg(long, value_name = "PLAN")]
    plan: Option<PlanArgument>,
}

impl ValidationAttachArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let validation = names::parse_name("validation", &self.validation)?;
        let resource = names::parse_name("resource", &self.resource)?;
        let project = self.project.as_deref();
        let project = project
            .map(|text| names::parse_name("project", text))
            .transpose()?;
        let args = read_arguments(&self.args).map_err(ValidationRegistryError::from)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let request = AttachmentRequest {
            validation: validation.clone(),
            resource,
            scope: self.scope(project, &app)?,
            args,
        };
        let attached = app.block_on(app.validations().attach(request, app.actor()));
        let attached = attached.map_err(|error| {
            let failure = registry_failure(error, &validation, &app);
            with_list_hint(failure)
        })?;
        Ok(answer(&attached))
    }

    fn scope(
        &self,
        project: Option<NamespacedName>,
        app: &AppContext<'_>,
    ) -> Result<AttachmentScope, CommandFailure> {
        if let Some(project) = project {
            return Ok(AttachmentScope::Project(project));
        }
        let Some(plan) = &self.plan else {
            return Ok(AttachmentScope::Direct);
        };
        let found = app.block_on(app.lifecycle().find_plan(plan.0.clone()));
        let plan = found.map_err(|error| with_list_hint(error.into()))?;
        Ok(AttachmentScope::Plan(plan.identity.plan_id))
    }
}

/// Adds the command that lists the available items to the failure for a missing one.
fn with_list_hint(failure: CommandFailure) -> CommandFailure {
    if failure.exit != ExitCode::NotFound || !failure.next_steps.is_empty() {
        return failure;
    }
    let list = ["resource", "project", "plan"]
        .into_iter()
        .find(|noun| failure.message.starts_with(&format!("there is no {noun} ")));
    match list {
        Some(noun) => failure
            .because(format!("no {noun} has that name, or it was removed"))
            .hint(format!("agents {noun} list")),
        None => failure,
    }
}

fn answer(attached: &AttachmentView) -> CommandAnswer {
    let data = json!({"validation_attached": view::attachment_data(attached)});
    let (resource, short) = (&attached.resource, attached.attachment.id.short());
    let counts = match &attached.attachment.scope {
        AttachmentScope::Direct => format!("it applies to every plan on {resource}"),
        AttachmentScope::Project(project) => {
            format!("it applies to plans of {project} on {resource}")
        }
        AttachmentScope::Plan(plan) => format!("it applies to the plan {}", plan.short()),
    };
    CommandAnswer::new(
        data,
        view::attachment_panel("Validation Attached", attached),
    )
    .with_message(MessageLevel::Info, format!("Validation attached: {counts}"))
    .with_message(
        MessageLevel::Hint,
        format!("agents validation detach {short}"),
    )
}
