//! `agents project delete`

use clap::Args;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::projects::{Deleted, Force};
use serde_json::json;

use crate::ask::{Reply, confirm};
use crate::commands::Context;
use crate::failure::{ExitCode, Failure};
use crate::names;
use crate::output::{Answer, Cell, Level, View, counted};
use crate::wiring::Wired;

/// Delete a project with its links and invariants
///
/// Its resources stay registered and no file is touched. Plans that are not finished are in the
/// way; --force cancels them first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents project delete shop
  agents project delete shop --force --yes")]
pub struct Delete {
    /// The project
    name: String,

    /// Cancel the plans that are in the way
    #[arg(long)]
    force: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl Delete {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let name = names::name("project", &self.name)?;
        let force = match self.force {
            true => Force::Cancel,
            false => Force::Refuse,
        };
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        self.ask(&wired, &name, context)?;
        let service = wired.projects();
        let deleted = service.delete(name, force, wired.actor());
        Ok(answer(&wired.wait(deleted)?))
    }

    /// Says what will be gone, if someone is there to answer and nothing is in the way.
    fn ask(
        &self,
        wired: &Wired<'_>,
        name: &NamespacedName,
        context: &Context<'_>,
    ) -> Result<(), Failure> {
        let active = wired.wait(wired.projects().active_plans(name.clone()))?;
        let question = match active.len() {
            0 => format!("Delete project {name}?"),
            _ if !self.force => return Ok(()),
            number => format!(
                "Delete project {name} and cancel {}?",
                counted(i64::try_from(number).unwrap_or(i64::MAX), "plan")
            ),
        };
        if self.yes {
            return Ok(());
        }
        match confirm(&question, context.environment) {
            Reply::Yes | Reply::Nobody => Ok(()),
            Reply::No => Err(Failure::new(ExitCode::Decision, "nothing was deleted")
                .because("the question was not answered with yes")
                .hint(format!("agents project delete {name} --yes"))),
        }
    }
}

fn answer(deleted: &Deleted) -> Answer {
    let Deleted {
        project,
        resources_unlinked: unlinked,
        plans_cancelled: cancelled,
    } = deleted;
    let json = json!({"deletion_summary": {
        "project": project,
        "resources_unlinked": unlinked,
        "plans_cancelled": cancelled,
    }});
    let listed = |texts: Vec<String>| -> Cell {
        match texts.is_empty() {
            true => "none".into(),
            false => texts.join(", ").into(),
        }
    };
    let names = unlinked.iter().map(ToString::to_string).collect();
    let plans = cancelled.iter().map(|plan| plan.short()).collect();
    let view = View::new().panel(
        "Deleted",
        [
            ("project", project.to_string().into()),
            ("resources unlinked", listed(names)),
            ("plans cancelled", listed(plans)),
        ],
    );
    let answer = Answer::new(json, view).say(Level::Info, format!("project {project} deleted"));
    match unlinked.is_empty() {
        true => answer,
        false => answer.say(Level::Hint, "agents resource list"),
    }
}
