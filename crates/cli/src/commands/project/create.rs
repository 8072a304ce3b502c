//! `agents project create`

use std::path::PathBuf;

use clap::Args;
use cleveragents_engine::projects::{CreatedProject, NewProject};
use serde_json::json;

use super::{data, rule, view};
use crate::commands::CommandContext;
use crate::commands::resource::resource_data;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, format_count};
use crate::{names, resource_directory};

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
        let automation_profile = profile.transpose()?;
        let data_directory = &context.settings()?.locations.data_directory;
        let look = |path: &PathBuf| {
            resource_directory::inspect(&context.absolute(path), data_directory)?.to_location()
        };
        let mut new = NewProject {
            name,
            description: self.description.clone(),
            automation_profile,
            locations: self.path.iter().map(look).collect::<Result<_, _>>()?,
            invariants: self.invariant.clone(),
        };
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        for text in &mut new.invariants {
            *text = app.mask_secrets(text)?;
        }
        let created = app.block_on(app.projects().create(new, app.actor()))?;
        Ok(answer(&created))
    }
}

fn answer(created: &CreatedProject) -> CommandAnswer {
    let CreatedProject {
        project,
        resources,
        reused,
        invariants,
    } = created;
    let resource_rows = resources.iter().map(|resource| {
        let mut data = resource_data(resource);
        data["reused"] = reused.contains(&resource.name).into();
        data
    });
    let json = json!({
        "project": data(project),
        "resources": resource_rows.collect::<Vec<_>>(),
        "invariants": invariants.iter().map(rule).collect::<Vec<_>>(),
    });
    let view = view(project, resources, invariants, None);
    let with = match resources.len() {
        0 => "without resources".to_owned(),
        number => {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            format!("with {}", format_count(number, "resource"))
        }
    };
    let said = format!("project {} created {with}", project.name);
    let mut answer = CommandAnswer::new(json, view).with_message(MessageLevel::Info, said);
    for resource in resources.iter().filter(|it| reused.contains(&it.name)) {
        let said = format!(
            "{} is already registered and is linked as {}",
            resource.path, resource.name
        );
        answer = answer.with_message(MessageLevel::Info, said);
    }
    let next = if resources.is_empty() {
        answer = answer.with_message(
            MessageLevel::Hint,
            "agents resource add git-checkout NAME --path DIR",
        );
        format!("agents project link-resource {} RESOURCE", project.name)
    } else {
        format!("agents project show {}", project.name)
    };
    answer.with_message(MessageLevel::Hint, next)
}
