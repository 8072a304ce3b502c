//! `agents validation attach`

use clap::Args;
use cleveragents_domain::{AttachmentScope, NamespacedName};
use cleveragents_engine::validations::{
    AttachmentRequest, AttachmentView, ValidationRegistryError, read_arguments,
};
use serde_json::json;

use super::{refused, view};
use crate::commands::Context;
use crate::failure::{ExitCode, Failure};
use crate::names;
use crate::output::{Answer, Level};
use crate::typed::PlanArgument;
use crate::wiring::Wired;

/// Attach a validation to a resource
///
/// Without a scope it counts for every plan that works on the resource. Arguments are what the
/// validation reads as `args`; all that it needs must be given.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation attach local/shop local/tests
  agents validation attach --project local/shop local/shop local/tests package=cart
  agents validation attach --plan 7XK2M9QD local/shop local/tests")]
pub struct Attach {
    /// The resource it checks
    #[arg(value_name = "RESOURCE")]
    resource: String,

    /// The validation
    #[arg(value_name = "VALIDATION")]
    validation: String,

    /// What the validation is given
    #[arg(value_name = "NAME=VALUE")]
    args: Vec<String>,

    /// Only for plans of this project
    #[arg(short, long, value_name = "PROJECT", conflicts_with = "plan")]
    project: Option<String>,

    /// Only for this plan
    #[arg(long, value_name = "PLAN")]
    plan: Option<PlanArgument>,
}

impl Attach {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let validation = names::name("validation", &self.validation)?;
        let resource = names::name("resource", &self.resource)?;
        let project = self.project.as_deref();
        let project = project
            .map(|text| names::name("project", text))
            .transpose()?;
        let args = read_arguments(&self.args).map_err(ValidationRegistryError::from)?;
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let request = AttachmentRequest {
            validation: validation.clone(),
            resource,
            scope: self.scope(project, &wired)?,
            args,
        };
        let attached = wired.wait(wired.validations().attach(request, wired.actor()));
        let attached = attached.map_err(|error| {
            let failure = refused(error, &validation, &wired);
            with_list(failure)
        })?;
        Ok(answer(&attached))
    }

    fn scope(
        &self,
        project: Option<NamespacedName>,
        wired: &Wired<'_>,
    ) -> Result<AttachmentScope, Failure> {
        if let Some(project) = project {
            return Ok(AttachmentScope::Project(project));
        }
        let Some(plan) = &self.plan else {
            return Ok(AttachmentScope::Direct);
        };
        let found = wired.wait(wired.lifecycle().find_plan(plan.0.clone()));
        let plan = found.map_err(|error| with_list(error.into()))?;
        Ok(AttachmentScope::Plan(plan.identity.plan_id))
    }
}

/// A refusal because something is not there, with what lists what is.
fn with_list(failure: Failure) -> Failure {
    if failure.exit != ExitCode::NotFound || !failure.hints.is_empty() {
        return failure;
    }
    let list = ["resource", "project", "plan"]
        .into_iter()
        .find(|noun| failure.what.starts_with(&format!("there is no {noun} ")));
    match list {
        Some(noun) => failure
            .because(format!("no {noun} has that name, or it was removed"))
            .hint(format!("agents {noun} list")),
        None => failure,
    }
}

fn answer(attached: &AttachmentView) -> Answer {
    let data = json!({"validation_attached": view::attachment_data(attached)});
    let (resource, short) = (&attached.resource, attached.attachment.id.short());
    let counts = match &attached.attachment.scope {
        AttachmentScope::Direct => format!("it counts for every plan that works on {resource}"),
        AttachmentScope::Project(project) => {
            format!("it counts for plans of {project} that work on {resource}")
        }
        AttachmentScope::Plan(plan) => format!("it counts for the plan {}", plan.short()),
    };
    Answer::new(
        data,
        view::attachment_panel("Validation Attached", attached),
    )
    .say(Level::Info, format!("Validation attached: {counts}"))
    .say(Level::Hint, format!("agents validation detach {short}"))
}
