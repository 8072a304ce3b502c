//! Guidance from the plan's resources for actors with a model: the instructions and skills at the
//! roots at the start, and later the instructions nearest to each path that a call uses.

use std::sync::Arc;

use cleveragents_domain::event::payloads::{InstructionFile, InstructionsRead};
use cleveragents_domain::{LlmActor, ResourcePath};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::agent_loop::{Guidance, InstructionText};
use super::blocking::run_until_stopped;
use super::error::Result;
use super::plan_run::PlanRun;
use super::steps::StepWork;
use super::workspace::{OpenSandbox, SandboxHandle, Workspace};
use crate::instructions::{
    Instruction, Instructions, ResourceFiles, UnreadablePath, find_instructions, find_skills,
};
use cleveragents_ports::sandbox::{Sandbox, SandboxError};
use cleveragents_ports::{StopReason, StopSignal};

/// Returns the guidance of all resources. Records which texts were used.
pub(super) async fn load_guidance(
    run: &PlanRun,
    work: &StepWork<'_>,
    llm: &LlmActor,
) -> Result<Guidance> {
    let workspace = &work.context.workspace;
    let mut guidance = Guidance::default();
    for handle in &workspace.sandboxes {
        let open_sandbox = Arc::clone(&handle.lock).read_owned().await;
        let skills = run_until_stopped(&run.stop, move |stop| {
            let files = SandboxFiles {
                sandbox: &*open_sandbox.sandbox,
                excluded: &[],
            };
            let mut skills = find_skills(&files);
            let paths = skills.skills.iter().map(|it| it.path.clone());
            let unmodified = find_unmodified(&open_sandbox, &paths.collect::<Vec<_>>(), stop)?;
            skills.skills.retain(|it| unmodified.contains(&it.path));
            Ok::<_, SandboxError>(skills)
        });
        let skills = skills.await??;
        let texts = find_trusted_instructions(handle, Vec::new(), &|_| false, &run.stop).await?;
        let skills = skills.retain_named(llm.skills.as_deref());
        for warning in texts.warnings.iter().chain(&skills.warnings) {
            tracing::warn!(resource = %handle.resource, "{warning}");
        }
        let text = |it| instruction_text(workspace, handle, it);
        guidance.texts.extend(texts.texts.into_iter().map(text));
        guidance.skills.extend(skills.skills.iter().map(|it| {
            let (name, description) = (&it.name, &it.description);
            let at = display_path(workspace, handle, &it.path);
            format!("{name}: {description} (read {at} before you use it)")
        }));
    }
    let skills = guidance.skills.len();
    record_instructions(run, &guidance.texts, skills).await?;
    Ok(guidance)
}

/// Returns the instructions below the root that are nearest to these paths, except those that
/// the model already has according to `is_known`.
pub(super) async fn instructions_near(
    run: &PlanRun,
    workspace: &Workspace,
    handle: &SandboxHandle,
    about: Vec<ResourcePath>,
    is_known: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Vec<InstructionText>> {
    let is_covered = |path: &ResourcePath| {
        !path.as_bytes().contains(&b'/') || is_known(&display_path(workspace, handle, path))
    };
    let found = find_trusted_instructions(handle, about, &is_covered, &run.stop).await?;
    let new = found.texts.into_iter().filter(|it| !is_covered(&it.path));
    let texts: Vec<InstructionText> = new
        .map(|it| instruction_text(workspace, handle, it))
        .collect();
    record_instructions(run, &texts, 0).await?;
    Ok(texts)
}

async fn record_instructions(
    run: &PlanRun,
    texts: &[InstructionText],
    skills: usize,
) -> Result<()> {
    if texts.is_empty() {
        return Ok(());
    }
    let used = |it: &InstructionText| InstructionFile {
        path: it.path.clone(),
        hash: it.hash.clone(),
    };
    let payload = InstructionsRead {
        instructions: texts.iter().map(used).collect(),
        skills: skills as u64,
    };
    run.append_event(payload).await
}

/// Returns the instructions for these paths. A file that the plan itself changed is ignored, and
/// the next one further up applies instead. Files for which `is_known` is true are not checked
/// again.
async fn find_trusted_instructions(
    handle: &SandboxHandle,
    about: Vec<ResourcePath>,
    is_known: &(dyn Fn(&ResourcePath) -> bool + Sync),
    stop_receiver: &watch::Receiver<Option<StopReason>>,
) -> Result<Instructions> {
    let open_sandbox = Arc::new(Arc::clone(&handle.lock).read_owned().await);
    let mut excluded: Vec<ResourcePath> = Vec::new();
    loop {
        let (there, about, skipped) = (Arc::clone(&open_sandbox), about.clone(), excluded.clone());
        let found = spawn_blocking(move || {
            let files = SandboxFiles {
                sandbox: &*there.sandbox,
                excluded: &skipped,
            };
            find_instructions(&files, &about)
        })
        .await?;
        let paths = found.texts.iter().map(|it| it.path.clone());
        let mut new: Vec<ResourcePath> = paths.filter(|path| !is_known(path)).collect();
        if new.is_empty() {
            return Ok(found);
        }
        let (there, paths) = (Arc::clone(&open_sandbox), new.clone());
        let unmodified = run_until_stopped(stop_receiver, move |stop| {
            find_unmodified(&there, &paths, stop)
        })
        .await??;
        new.retain(|path| !unmodified.contains(path));
        if new.is_empty() {
            return Ok(found);
        }
        excluded.extend(new);
    }
}

/// Returns the paths that are unchanged since the plan started. Files that the plan wrote must not
/// instruct its later steps. Neither must ignored files, because their author is unknown.
fn find_unmodified(
    open_sandbox: &OpenSandbox,
    paths: &[ResourcePath],
    stop: &StopSignal,
) -> std::result::Result<Vec<ResourcePath>, SandboxError> {
    let base = open_sandbox.sandbox.base();
    let written = open_sandbox
        .sandbox
        .net_changes(base, &open_sandbox.tree, stop)?;
    let mut found = open_sandbox.sandbox.files_in_tree(base, paths)?;
    found.retain(|path| written.iter().all(|it| it.path != *path));
    Ok(found)
}

/// Returns a path as displayed to the model. With several resources, it starts with the resource's
/// name.
fn display_path(workspace: &Workspace, handle: &SandboxHandle, path: &ResourcePath) -> String {
    if workspace.sandboxes.len() > 1 {
        format!("{}:{path}", handle.resource)
    } else {
        path.to_string()
    }
}

fn instruction_text(
    workspace: &Workspace,
    handle: &SandboxHandle,
    found: Instruction,
) -> InstructionText {
    InstructionText {
        path: display_path(workspace, handle, &found.path),
        text: found.text,
        hash: found.hash,
    }
}

/// Read access to the files of a sandbox, except the `excluded` ones.
struct SandboxFiles<'a> {
    sandbox: &'a dyn Sandbox,
    excluded: &'a [ResourcePath],
}

impl ResourceFiles for SandboxFiles<'_> {
    fn read(
        &self,
        path: &ResourcePath,
        most: usize,
    ) -> std::result::Result<Option<Vec<u8>>, UnreadablePath> {
        if self.excluded.contains(path) {
            Ok(None)
        } else {
            self.sandbox.read(path, most).map_err(unreadable(path))
        }
    }

    fn entries(
        &self,
        folder: &ResourcePath,
    ) -> std::result::Result<Vec<ResourcePath>, UnreadablePath> {
        self.sandbox.entries(folder).map_err(unreadable(folder))
    }
}

fn unreadable(path: &ResourcePath) -> impl Fn(SandboxError) -> UnreadablePath {
    move |error| UnreadablePath {
        path: path.clone(),
        reason: error.to_string(),
    }
}
