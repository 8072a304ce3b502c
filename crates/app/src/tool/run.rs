//! `tool.run`

use std::sync::Arc;

use cleveragents_api::tool::{ToolChange, ToolRun, ToolRunAnswer, TrialSandboxInfo};
use cleveragents_api::{ExitClass, FailureKind, Reply};
use cleveragents_domain::tool::control::is_control_tool;
use cleveragents_ports::Ids;
use cleveragents_ports::sandbox::{DiffLines, DiffStat};
use cleveragents_ports::tools::{Tool, ToolFailure};
use tokio::task::spawn_blocking;

use super::trial::TrialSandbox;
use super::{find_tool, show_step};
use crate::app::{Adapters, App, Caller, Handler};
use crate::changes::file_status;
use crate::failure::{RequestError, display_path};
use crate::text::format_length;

impl Handler<ToolRun> for App {
    async fn handle(
        &self,
        request: ToolRun,
        _: &Caller,
    ) -> Result<Reply<ToolRunAnswer>, RequestError> {
        let (_, ids, _) = self.services.parts();
        run_tool(request, Arc::clone(&self.services.deps().adapters), ids).await
    }
}

/// Runs a tool in a temporary sandbox. Needs no database, so a front end can call it without an
/// [`App`].
pub async fn run_tool(
    request: ToolRun,
    adapters: Arc<dyn Adapters>,
    ids: Arc<dyn Ids>,
) -> Result<Reply<ToolRunAnswer>, RequestError> {
    let run = spawn_blocking(move || run_blocking(&request, &*adapters, &*ids));
    run.await.unwrap_or_else(|error| {
        let what = format!("the tool ended unexpectedly: {error}");
        Err(RequestError::new(ExitClass::Error, what))
    })
}

fn run_blocking(
    request: &ToolRun,
    adapters: &dyn Adapters,
    ids: &dyn Ids,
) -> Result<Reply<ToolRunAnswer>, RequestError> {
    let toolbox = adapters.engine_adapters()?.toolbox;
    let tool = find_tool(&*toolbox, &request.name)?;
    if is_control_tool(&tool.definition().name) {
        return Err(needs_plan_failure(tool));
    }
    tool.check_input(&request.input)
        .map_err(|failure| tool_failure(tool, failure))?;
    let directory = adapters.inspect_directory(&request.path)?;
    let mut trial = TrialSandbox::create(&directory, adapters, ids)?;
    let result = trial.call(tool, &request.input);
    let kept = request.keep.then(|| display_path(trial.tree()));
    let sandbox = TrialSandboxInfo {
        sandbox_id: trial.id,
        resource: display_path(&directory.path),
        resource_type: trial.resource_type,
        kept: kept.clone(),
    };
    let removal = if request.keep {
        Ok(())
    } else {
        trial.discard()
    };
    let result = match result {
        Ok(result) => result,
        Err(failure) => return Err(with_sandbox_path(tool_failure(tool, failure), kept)),
    };
    let patch = result.diff.patch;
    let reply = reply(
        ToolRunAnswer {
            tool: tool.definition().name.clone(),
            output: result.output.data,
            changes: result.diff.files.iter().map(tool_change).collect(),
            patch: String::from_utf8_lossy(&patch).into_owned(),
            patch_bytes: Some(patch),
            sandbox,
        },
        request.keep,
    );
    Ok(match removal {
        Ok(()) => reply,
        Err(error) => reply.warn(format!("the sandbox could not be removed: {error}")),
    })
}

fn reply(answer: ToolRunAnswer, keep: bool) -> Reply<ToolRunAnswer> {
    let name = &answer.tool;
    let files = format_length(answer.changes.len(), "file");
    let said = match (answer.changes.len(), keep) {
        (0, _) => format!("{name} changed nothing"),
        (_, true) => format!("{name} changed {files} in its sandbox"),
        (_, false) => format!("{name} changed {files} in its sandbox, which was removed"),
    };
    let kept = answer.sandbox.kept.clone();
    let reply = Reply::new(answer).info(said);
    match kept {
        Some(kept) => reply.info(format!("The sandbox is kept: {kept}")),
        None => reply,
    }
}

fn tool_change(file: &DiffStat) -> ToolChange {
    let (inserted, deleted) = match file.lines {
        DiffLines::Text { inserted, deleted } => (Some(inserted), Some(deleted)),
        DiffLines::Binary => (None, None),
    };
    ToolChange {
        path: file.path.clone(),
        change: file_status(file.change),
        renamed_from: file.renamed_from.clone(),
        inserted,
        deleted,
    }
}

fn with_sandbox_path(failure: RequestError, kept: Option<String>) -> RequestError {
    match kept {
        Some(kept) => failure
            .hint(format!("look at the sandbox, which is kept: {kept}"))
            .with_facts(|facts| facts.kept = Some(kept)),
        None => failure,
    }
}

fn needs_plan_failure(tool: &dyn Tool) -> RequestError {
    let name = &tool.definition().name;
    RequestError::usage(format!("{name} cannot be run outside a plan"))
        .kind(FailureKind::ToolNeedsPlan)
        .because("it sends a message to its plan")
        .hint(show_step(name))
        .with_facts(|facts| facts.tool = Some(name.clone()))
}

/// Converts the failure of a tool, with the exit class that scripts rely on.
fn tool_failure(tool: &dyn Tool, failure: ToolFailure) -> RequestError {
    let name = &tool.definition().name;
    let of = |exit, what: &str, kind| {
        let failure = RequestError::new(exit, format!("{name} {what}")).kind(kind);
        failure.with_facts(|facts| facts.tool = Some(name.clone()))
    };
    match failure {
        ToolFailure::Input { reason } => of(
            ExitClass::Usage,
            "cannot use this input",
            FailureKind::ToolInput,
        )
        .because(reason)
        .hint(show_step(name)),
        ToolFailure::Store(error) => error.into(),
        ToolFailure::Stopped { why, .. } => {
            of(ExitClass::Error, "was stopped", FailureKind::ToolStopped).because(why.to_string())
        }
        ToolFailure::Process(error) => {
            let what = "could not run its command";
            of(ExitClass::Error, what, FailureKind::ToolProcess).caused_by(&error)
        }
        ToolFailure::Sandbox(error) => of(
            ExitClass::Error,
            "failed in its sandbox",
            FailureKind::Sandbox,
        )
        .caused_by(&error),
        other @ (ToolFailure::Failed { .. }
        | ToolFailure::Stale { .. }
        | ToolFailure::Refused { .. }) => {
            of(ExitClass::Error, "failed", FailureKind::ToolFailed).because(other.to_string())
        }
    }
}
