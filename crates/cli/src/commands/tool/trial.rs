//! One call of a tool in a sandbox of its own, as a runner would make it.

use std::path::Path;
use std::thread;

use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::tool::Access;
use cleveragents_domain::{Base, ResourceType};
use cleveragents_engine::ports::sandbox::{
    Created, Diff, NewSandbox, Sandbox, SandboxError, Sandboxes,
};
use cleveragents_engine::ports::tools::{Call, Stamps, Tool, ToolFailure, ToolOutput};
use cleveragents_engine::ports::{Stop, Stopped};
use cleveragents_engine::projects::Found;
use serde_json::Value;

use crate::environment::Environment;
use crate::failure::{ExitCode, Failure, shown_path};
use crate::places::{Kind, Place};
use crate::process;
use crate::wiring::Wiring;

/// A sandbox made for one call.
#[derive(Debug)]
pub(super) struct Trial {
    sandboxes: Box<dyn Sandboxes>,
    sandbox: Box<dyn Sandbox>,
    pub(super) id: SandboxId,
    pub(super) created: Created,
    pub(super) resource_type: ResourceType,
}

/// What a call gave and changed.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) output: ToolOutput,
    pub(super) diff: Diff,
}

impl Trial {
    /// Makes a sandbox of the files in `place` as they are now.
    pub(super) fn begin(
        place: &Place,
        wiring: &Wiring,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let program = process::find("git", environment).ok_or_else(|| {
            Failure::new(ExitCode::Error, "sandboxes need git, which is not on PATH")
                .kind("no_git")
                .hint("agents diagnostics")
        })?;
        let found = found(place)?;
        let cannot = |error: SandboxError| {
            let what = format!("no sandbox can be made of {}", shown_path(&place.path));
            Failure::new(ExitCode::Error, what).caused_by(&error)
        };
        let sandboxes = wiring.sandboxes(program, environment).map_err(cannot)?;
        let ids = wiring.ids();
        let new = NewSandbox {
            id: SandboxId::new(ids.next()),
            plan: PlanId::new(ids.next()),
            resource: found.path,
            resource_type: found.resource_type,
            base: Base::Worktree,
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
                // What was half made is nobody's.
                let _ = sandboxes.discard(new.id);
                Err(cannot(error))
            }
        }
    }

    /// Calls the tool and looks at what it changed. A file nobody has read yet would be refused
    /// once, with its content; a person who names it knows it, so the call is repeated.
    pub(super) fn call(&mut self, tool: &dyn Tool, input: &Value) -> Result<Tried, ToolFailure> {
        let stamps = Stamps::new();
        let output = match self.once(tool, input, &stamps) {
            Err(ToolFailure::Stale { .. }) => self.once(tool, input, &stamps),
            other => other,
        }?;
        tool.check_output(&output)?;
        let base = self.created.base.clone();
        let tree = match tool.definition().capability.access {
            Access::ReadOnly => base.clone(),
            Access::Writes => {
                self.sandbox
                    .capture(&base, &output.touched, &Stop::new())?
                    .tree
            }
        };
        let diff = self.sandbox.diff(&base, &tree, &[], &Stop::new())?;
        Ok(Tried { output, diff })
    }

    fn once(
        &self,
        tool: &dyn Tool,
        input: &Value,
        stamps: &Stamps,
    ) -> Result<ToolOutput, ToolFailure> {
        let stop = Stop::new();
        let patience = tool.definition().timeout();
        thread::scope(|scope| {
            let watch = stop.clone();
            scope.spawn(move || {
                if watch.wait(patience).is_none() {
                    watch.stop(Stopped::TimedOut);
                }
            });
            let output = tool.run(&Call {
                input,
                sandbox: &*self.sandbox,
                tree: &self.created.base,
                stamps,
                stop: &stop,
                announce: &|_| Ok(()),
            });
            // Nobody has to watch any more.
            stop.stop(Stopped::Cancelled);
            output
        })
    }

    /// Where the files are.
    pub(super) fn tree(&self) -> &Path {
        self.sandbox.tree()
    }

    /// Removes the sandbox.
    pub(super) fn discard(self) -> Result<(), SandboxError> {
        drop(self.sandbox);
        self.sandboxes.discard(self.id).map(drop)
    }
}

/// A checkout is taken as one; anything else, also a folder inside a repository, as a folder.
fn found(place: &Place) -> Result<Found, Failure> {
    match &place.kind {
        Kind::InsideRepository { .. } => place.found_as(ResourceType::FsDirectory),
        Kind::GitCheckout | Kind::Directory | Kind::BrokenCheckout { .. } => place.found(),
    }
}
