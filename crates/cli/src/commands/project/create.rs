//! `agents project create`

use std::path::PathBuf;

use clap::Args;
use cleveragents_api::project::ProjectCreate;

use super::view;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::CommandAnswer;

/// Create a project with its directories
///
/// Each --path becomes a resource named after its directory (numbered if that name is taken); a
/// directory that is already registered is linked under its existing name. Either everything is
/// created or nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents project create shop --path .
  agents project create shop --path /srv/shop --path /srv/shop-docs
  agents project create shop --path . --invariant no-new-dependencies
  agents project create bank --automation-profile cautious --description Payments")]
pub struct ProjectCreateArgs {
    /// Its name: NAME or NAMESPACE/NAME
    name: String,

    /// A directory plans may work on: a git checkout or a folder; may be repeated
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    path: Vec<PathBuf>,

    /// A rule that every plan on this project must keep; may be repeated
    #[arg(long, value_name = "TEXT")]
    invariant: Vec<String>,

    /// A description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// The automation profile of its plans, unless the plan or action sets one
    #[arg(long, value_name = "PROFILE")]
    automation_profile: Option<String>,
}

impl ProjectCreateArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = names::parse_name("project", &self.name)?;
        let profile = self.automation_profile.as_deref().map(names::parse_profile);
        let reply = context.call(ProjectCreate {
            name,
            path: self.path.iter().map(|it| context.absolute(it)).collect(),
            invariant: self.invariant.clone(),
            description: self.description.clone(),
            automation_profile: profile.transpose()?,
        })?;
        CommandAnswer::from_reply(reply, |created| {
            let resources = created.resources.iter().map(|one| &one.resource);
            let view = view::project(&created.project, None);
            view::invariants(view::resources(view, resources), &created.invariants)
        })
    }
}
