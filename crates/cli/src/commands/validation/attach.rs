//! `agents validation attach`

use clap::Args;
use cleveragents_api::validation::ValidationAttach;

use super::view;
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::CommandAnswer;

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
        let reply = context.call_for_plans(&self.plan, |mut plans| ValidationAttach {
            resource,
            validation,
            args: self.args.clone(),
            project,
            plan: plans.pop(),
        })?;
        CommandAnswer::from_reply(reply, |answer| {
            view::attachment_panel("Validation Attached", &answer.validation_attached)
        })
    }
}
