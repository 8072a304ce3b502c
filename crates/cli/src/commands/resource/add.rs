//! `agents resource add`

use std::path::PathBuf;

use clap::Args;
use cleveragents_domain::{Resource, ResourceType};

use super::{resource_data, sandbox_strategy};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};
use crate::resource_directory::{self, DirectoryKind};
use crate::{names, resource_directory::ResourceDirectory};

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
        let resource_type = names::parse_resource_type(&self.resource_type)?;
        let name = names::parse_name("resource", &self.name)?;
        let data_directory = &context.settings()?.locations.data_directory;
        let place = resource_directory::inspect(&context.absolute(&self.path), data_directory)?;
        let found = place.to_location_as(resource_type)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let service = app.projects();
        let added = service.add_resource(name, found, app.actor());
        Ok(answer(&app.block_on(added)?, &place))
    }
}

fn answer(resource: &Resource, directory: &ResourceDirectory) -> CommandAnswer {
    let name = &resource.name;
    let rows = [
        ("name", ViewCell::new(name.to_string(), Tone::Strong)),
        ("type", resource.resource_type.as_str().into()),
        ("sandbox", sandbox_strategy(resource.resource_type).into()),
        ("path", resource.path.to_string().into()),
    ];
    let view = OutputView::new().panel("Resource", rows);
    let mut answer = CommandAnswer::new(resource_data(resource), view)
        .with_message(MessageLevel::Info, format!("resource {name} registered"));
    if resource.resource_type == ResourceType::FsDirectory
        && directory.kind == DirectoryKind::GitCheckout
    {
        let said = "it is a git checkout: as a folder it is copied whole, and work on it makes no \
                    commit";
        answer = answer.with_message(MessageLevel::Warn, said);
    }
    answer.with_message(
        MessageLevel::Hint,
        format!("agents project link-resource PROJECT {name}"),
    )
}
