//! `agents resource add`

use std::path::PathBuf;

use clap::Args;
use cleveragents_api::resource::ResourceAdd;

use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Register a directory
///
/// The type defines how plans work on it: `git-checkout` in a private git tree that becomes a
/// commit, `fs-directory` in a copy.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource add git-checkout local/library --path /srv/library
  agents resource add fs-directory team/notes --path ./notes")]
pub struct ResourceAddArgs {
    /// git-checkout or fs-directory
    #[arg(value_name = "TYPE")]
    resource_type: String,

    /// Its name: NAME or NAMESPACE/NAME
    name: String,

    /// The directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    path: PathBuf,
}

impl ResourceAddArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(ResourceAdd {
            resource_type: names::parse_resource_type(&self.resource_type)?,
            name: names::parse_name("resource", &self.name)?,
            path: context.absolute(&self.path),
        })?;
        CommandAnswer::from_reply(reply, |resource| {
            let rows = [
                (
                    "name",
                    ViewCell::new(resource.name.to_string(), Tone::Strong),
                ),
                ("type", resource.resource_type.as_str().into()),
                ("sandbox", resource.sandbox.as_str().into()),
                ("path", resource.path.to_string().into()),
            ];
            OutputView::new().panel("Resource", rows)
        })
    }
}
