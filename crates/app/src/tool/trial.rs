//! One tool call in a temporary sandbox, made as the plan runner makes it.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use cleveragents_api::{ExitClass, FailureKind};
use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::tool::ToolAccess;
use cleveragents_domain::{BaseSource, ResourceType};
use cleveragents_engine::projects::LocatedResource;
use cleveragents_ports::sandbox::{
    CreatedSandbox, NewSandbox, Sandbox, SandboxError, Sandboxes, TreeDiff,
};
use cleveragents_ports::tools::{FileStamps, Tool, ToolFailure, ToolInvocation, ToolOutput};
use cleveragents_ports::{Ids, StopReason, StopSignal};
use serde_json::Value;

use crate::app::Adapters;
use crate::failure::{RequestError, display_path};
use crate::resource_directory::{DirectoryKind, ResourceDirectory};

/// A sandbox for one call.
#[derive(Debug)]
pub(super) struct TrialSandbox {
    sandboxes: Arc<dyn Sandboxes>,
    sandbox: Box<dyn Sandbox>,
    pub(super) id: SandboxId,
    pub(super) created: CreatedSandbox,
    pub(super) resource_type: ResourceType,
}

/// The output and the changes of a call.
#[derive(Debug)]
pub(super) struct TrialResult {
    pub(super) output: ToolOutput,
    pub(super) diff: TreeDiff,
}

impl TrialSandbox {
    /// Creates a sandbox from the current files of `directory`.
    pub(super) fn create(
        directory: &ResourceDirectory,
        adapters: &dyn Adapters,
        ids: &dyn Ids,
    ) -> Result<Self, RequestError> {
        let sandboxes = adapters.sandboxes().map_err(shorten_no_git_failure)?;
        let found = resource_location(directory)?;
        let cannot = |error: SandboxError| {
            let what = format!(
                "cannot create a sandbox of {}",
                display_path(&directory.path)
            );
            RequestError::new(ExitClass::Error, what).caused_by(&error)
        };
        let new = NewSandbox {
            id: SandboxId::new(ids.next()),
            plan: PlanId::new(ids.next()),
            resource: found.path,
            resource_type: found.resource_type,
            base: BaseSource::Worktree,
            trusted_includes: Vec::new(),
        };
        let created = sandboxes.create(&new).and_then(|created| {
            let sandbox = sandboxes.open(new.id)?;
            Ok((created, sandbox))
        });
        match created {
            Ok((created, sandbox)) => Ok(Self {
                sandboxes,
                sandbox,
                id: new.id,
                created,
                resource_type: new.resource_type,
            }),
            Err(error) => {
                // Nothing refers to the incomplete sandbox yet.
                let _ = sandboxes.discard(new.id);
                Err(cannot(error))
            }
        }
    }

    /// Calls the tool and diffs the sandbox. A tool refuses to change a file that was not read
    /// before and returns its content instead. The user who names the file knows it, so the call is
    /// repeated.
    pub(super) fn call(
        &mut self,
        tool: &dyn Tool,
        input: &Value,
    ) -> Result<TrialResult, ToolFailure> {
        let stamps = FileStamps::new();
        let output = match self.call_once(tool, input, &stamps) {
            Err(ToolFailure::Stale { .. }) => self.call_once(tool, input, &stamps),
            other => other,
        }?;
        tool.check_output(&output)?;
        let base = self.created.base.clone();
        let tree = match tool.definition().capability.access {
            ToolAccess::ReadOnly => base.clone(),
            ToolAccess::Writes => {
                self.sandbox
                    .capture(&base, &output.touched, &StopSignal::new())?
                    .tree
            }
        };
        let diff = self.sandbox.diff(&base, &tree, &[], &StopSignal::new())?;
        Ok(TrialResult { output, diff })
    }

    fn call_once(
        &self,
        tool: &dyn Tool,
        input: &Value,
        stamps: &FileStamps,
    ) -> Result<ToolOutput, ToolFailure> {
        let stop = StopSignal::new();
        let timeout = tool.definition().timeout();
        thread::scope(|scope| {
            let watch = stop.clone();
            scope.spawn(move || {
                if watch.wait(timeout).is_none() {
                    watch.stop(StopReason::TimedOut);
                }
            });
            let output = tool.run(&ToolInvocation {
                input,
                sandbox: &*self.sandbox,
                tree: &self.created.base,
                stamps,
                stop: &stop,
                on_process_start: &|_| Ok(()),
            });
            // Ends the timeout thread, which `thread::scope` would otherwise wait for.
            stop.stop(StopReason::Cancelled);
            output
        })
    }

    pub(super) fn tree(&self) -> &Path {
        self.sandbox.tree()
    }

    pub(super) fn discard(self) -> Result<(), SandboxError> {
        drop(self.sandbox);
        self.sandboxes.discard(self.id).map(drop)
    }
}

/// Without git there is no plan to explain, so one sentence is enough.
fn shorten_no_git_failure(failure: RequestError) -> RequestError {
    match failure.kind {
        FailureKind::NoGit => {
            RequestError::new(ExitClass::Error, "sandboxes need git, which is not on PATH")
                .kind(FailureKind::NoGit)
                .hint("agents diagnostics")
        }
        _ => failure,
    }
}

/// A checkout becomes a checkout resource; anything else, including a folder inside a repository,
/// becomes a plain folder.
fn resource_location(directory: &ResourceDirectory) -> Result<LocatedResource, RequestError> {
    match &directory.kind {
        DirectoryKind::InsideRepository { .. } => {
            directory.to_location_as(ResourceType::FsDirectory)
        }
        DirectoryKind::GitCheckout
        | DirectoryKind::Directory
        | DirectoryKind::BrokenCheckout { .. } => directory.to_location(),
    }
}
