//! Finds the plan that the user named, by its name, its id, or its number in this repository.

use std::path::PathBuf;

use cleveragents_api::plan::{PlanFind, PlanFindRecent, PlanReference, PlanSummary};

use crate::argument_types::PlanArgument;
use crate::bootstrap::AppContext;
use crate::failure::CommandFailure;

/// Finds the plan that the user named.
pub fn find_plan(app: &AppContext<'_>, plan: &PlanArgument) -> Result<PlanSummary, CommandFailure> {
    let reply = match plan {
        PlanArgument::Reference(plan) => app.call(PlanFind { plan: plan.clone() }),
        PlanArgument::Recent(number) => app.call(PlanFindRecent {
            folder: working_directory(app)?,
            number: *number,
        }),
    };
    Ok(reply?.answer)
}

/// Returns the plan that the user named, for a request. Only `@last` and `@N` are looked up: what is
/// wrong with a name or an id is said by the request itself.
pub fn plan_reference(
    app: &AppContext<'_>,
    plan: &PlanArgument,
) -> Result<PlanReference, CommandFailure> {
    match plan {
        PlanArgument::Reference(plan) => Ok(plan.clone()),
        PlanArgument::Recent(_) => Ok(find_plan(app, plan)?.plan_id.into()),
    }
}

fn working_directory(app: &AppContext<'_>) -> Result<PathBuf, CommandFailure> {
    app.working_directory().ok_or_else(|| {
        CommandFailure::usage("there are no plans of this directory")
            .because("the working directory does not exist")
            .hint("cd into a repository, or name the plan")
    })
}
