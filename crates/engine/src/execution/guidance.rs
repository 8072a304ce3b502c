//! What the resources of a plan say to actors with a model: at the beginning the texts of their
//! roots and their skills, and later the text nearest to each path that a call is about.

use std::sync::Arc;

use cleveragents_domain::{EventKind, ResourcePath};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::blocking::until_stopped;
use super::error::Result;
use super::executor::Executor;
use super::steps::StepWork;
use super::talking::{Guidance, Text};
use super::workspace::{Inside, Seat, Workspace};
use crate::instructions::{
    Instruction, Instructions, ResourceFiles, UnreadablePath, find_instructions, find_skills,
};
use crate::ports::sandbox::{Sandbox, SandboxError};
use crate::ports::{Stop, Stopped};
use crate::runs::RunLease;

impl Executor {
    /// What the resources say about how to work in them; which texts were used is on record.
    pub(super) async fn guidance(
        &self,
        run: &RunLease,
        work: &StepWork<'_>,
        llm: &cleveragents_domain::LlmActor,
    ) -> Result<Guidance> {
        let mut guidance = Guidance::default();
        for seat in &work.workspace.seats {
            let inside = Arc::clone(&seat.gate).read_owned().await;
            let skills = until_stopped(&work.runner.stop, move |stop| {
                let files = Files {
                    sandbox: &*inside.sandbox,
                    blind_to: &[],
                };
                let mut skills = find_skills(&files);
                let paths = skills.skills.iter().map(|it| it.path.clone());
                let theirs = unwritten(&inside, &paths.collect::<Vec<_>>(), stop)?;
                skills.skills.retain(|it| theirs.contains(&it.path));
                Ok::<_, SandboxError>(skills)
            });
            let skills = skills.await??;
            let texts = heeded(seat, Vec::new(), &|_| false, &work.runner.stop).await?;
            let skills = skills.only(llm.skills.as_deref());
            for warning in texts.warnings.iter().chain(&skills.warnings) {
                tracing::warn!(resource = %seat.resource, "{warning}");
            }
            let text = |it| text(work.workspace, seat, it);
            guidance.texts.extend(texts.texts.into_iter().map(text));
            guidance.skills.extend(skills.skills.iter().map(|it| {
                let (name, description) = (&it.name, &it.description);
                let at = shown(work.workspace, seat, &it.path);
                format!("{name}: {description} (read {at} before you use it)")
            }));
        }
        let skills = guidance.skills.len();
        self.tell_texts(run, &guidance.texts, skills).await?;
        Ok(guidance)
    }

    /// The texts below the root that are nearest to these paths, but for those that `is_known`
    /// says the model was told.
    pub(super) async fn texts_near(
        &self,
        run: &RunLease,
        (work, seat): (&StepWork<'_>, &Seat),
        about: Vec<ResourcePath>,
        is_known: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Vec<Text>> {
        let workspace = work.workspace;
        let is_told = |path: &ResourcePath| {
            !path.as_bytes().contains(&b'/') || is_known(&shown(workspace, seat, path))
        };
        let found = heeded(seat, about, &is_told, &work.runner.stop).await?;
        let new = found.texts.into_iter().filter(|it| !is_told(&it.path));
        let texts: Vec<Text> = new.map(|it| text(workspace, seat, it)).collect();
        self.tell_texts(run, &texts, 0).await?;
        Ok(texts)
    }

    async fn tell_texts(&self, run: &RunLease, texts: &[Text], skills: usize) -> Result<()> {
        if texts.is_empty() {
            return Ok(());
        }
        let used: Vec<_> = texts
            .iter()
            .map(|it| json!({ "path": it.path, "hash": it.hash }))
            .collect();
        let told = json!({ "instructions": used, "skills": skills });
        self.tell(run, EventKind::InstructionsRead, told).await
    }
}

/// The instructions for work at these paths. One that the plan wrote itself is as good as not there,
/// so that what stands further up holds in its place; of those that are `told` nobody asks again.
async fn heeded(
    seat: &Seat,
    about: Vec<ResourcePath>,
    told: &(dyn Fn(&ResourcePath) -> bool + Sync),
    asked: &watch::Receiver<Option<Stopped>>,
) -> Result<Instructions> {
    let inside = Arc::new(Arc::clone(&seat.gate).read_owned().await);
    let mut blind_to: Vec<ResourcePath> = Vec::new();
    loop {
        let (there, about, blind) = (Arc::clone(&inside), about.clone(), blind_to.clone());
        let found = spawn_blocking(move || {
            let files = Files {
                sandbox: &*there.sandbox,
                blind_to: &blind,
            };
            find_instructions(&files, &about)
        })
        .await?;
        let paths = found.texts.iter().map(|it| it.path.clone());
        let mut new: Vec<ResourcePath> = paths.filter(|path| !told(path)).collect();
        if new.is_empty() {
            return Ok(found);
        }
        let (there, paths) = (Arc::clone(&inside), new.clone());
        let theirs = until_stopped(asked, move |stop| unwritten(&there, &paths, stop)).await??;
        new.retain(|path| !theirs.contains(path));
        if new.is_empty() {
            return Ok(found);
        }
        blind_to.extend(new);
    }
}

/// Those of the paths that are as the plan found them. What it has written itself gives no orders
/// to its own later steps, nor does what is ignored, of which nobody knows who wrote it.
fn unwritten(
    inside: &Inside,
    paths: &[ResourcePath],
    stop: &Stop,
) -> std::result::Result<Vec<ResourcePath>, SandboxError> {
    let base = inside.sandbox.base();
    let written = inside.sandbox.net_changes(base, &inside.tree, stop)?;
    let mut found = inside.sandbox.among(base, paths)?;
    found.retain(|path| written.iter().all(|it| it.path != *path));
    Ok(found)
}

/// A path as the model is told it. Where there are several resources, each path begins with its
/// resource's name.
fn shown(workspace: &Workspace, seat: &Seat, path: &ResourcePath) -> String {
    match workspace.seats.len() > 1 {
        true => format!("{}:{path}", seat.resource),
        false => path.to_string(),
    }
}

fn text(workspace: &Workspace, seat: &Seat, found: Instruction) -> Text {
    Text {
        path: shown(workspace, seat, &found.path),
        text: found.text,
        hash: found.hash,
    }
}

/// The files of a sandbox, but for some, for whoever only wants to look.
struct Files<'a> {
    sandbox: &'a dyn Sandbox,
    blind_to: &'a [ResourcePath],
}

impl ResourceFiles for Files<'_> {
    fn read(
        &self,
        path: &ResourcePath,
        most: usize,
    ) -> std::result::Result<Option<Vec<u8>>, UnreadablePath> {
        match self.blind_to.contains(path) {
            true => Ok(None),
            false => self.sandbox.read(path, most).map_err(unreadable(path)),
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
