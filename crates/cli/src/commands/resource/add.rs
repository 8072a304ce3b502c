//! `agents resource add`

use std::path::PathBuf;

use clap::Args;
use cleveragents_domain::{Resource, ResourceType};

use super::{resource_data, sandbox};
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Level, Tone, View};
use crate::places::{self, Kind};
use crate::{names, places::Place};

/// Register a directory under a name of your choice
///
/// The type says how plans work on it: `git-checkout` in a private git tree that becomes a commit,
/// `fs-directory` in a copy.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource add git-checkout local/library --path /srv/library
  agents resource add fs-directory team/notes --path ./notes")]
pub struct Add {
    /// git-checkout or fs-directory
    #[arg(value_name = "TYPE")]
    resource_type: String,

    /// Its name: NAME or NAMESPACE/NAME
    name: String,

    /// The directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    path: PathBuf,
}

impl Add {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let resource_type = names::resource_type(&self.resource_type)?;
        let name = names::name("resource", &self.name)?;
        let data_directory = &context.settings()?.locations.data_directory;
        let place = places::look(&context.absolute(&self.path), data_directory)?;
        let found = place.found_as(resource_type)?;
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let service = wired.projects();
        let added = service.add_resource(name, found, wired.actor());
        Ok(answer(&wired.wait(added)?, &place))
    }
}

fn answer(resource: &Resource, place: &Place) -> Answer {
    let name = &resource.name;
    let rows = [
        ("name", Cell::new(name.to_string(), Tone::Strong)),
        ("type", resource.resource_type.as_str().into()),
        ("sandbox", sandbox(resource.resource_type).into()),
        ("path", resource.path.to_string().into()),
    ];
    let view = View::new().panel("Resource", rows);
    let mut answer = Answer::new(resource_data(resource), view)
        .say(Level::Info, format!("resource {name} registered"));
    if resource.resource_type == ResourceType::FsDirectory && place.kind == Kind::GitCheckout {
        let said = "it is a git checkout: as a folder it is copied whole, and work on it makes no \
                    commit";
        answer = answer.say(Level::Warn, said);
    }
    answer.say(
        Level::Hint,
        format!("agents project link-resource PROJECT {name}"),
    )
}
