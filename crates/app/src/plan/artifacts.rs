//! `plan.artifacts`

use cleveragents_api::plan::artifacts::{
    ArtifactCounts, ArtifactKind, ArtifactPage, ArtifactsByPlan, PlanArtifact,
};
use cleveragents_api::plan::summary::project_names;
use cleveragents_api::plan::{PlanArtifacts, PlanDiff};
use cleveragents_api::{NextStep, Reply};
use cleveragents_engine::execution::results::{self, Artifact};

use crate::app::{App, Caller, Handler};
use crate::changes::format_line_counts;
use crate::failure::RequestError;
use crate::plan::find::find_plan;
use crate::text::{format_length, format_size};

impl Handler<PlanArtifacts> for App {
    async fn handle(
        &self,
        request: PlanArtifacts,
        _: &Caller,
    ) -> Result<Reply<ArtifactPage>, RequestError> {
        let plan = find_plan(&self.services, &request.plan).await?;
        let id = plan.identity.plan_id;
        let found = self.services.results()?.artifacts(id).await?;
        let artifacts: Vec<PlanArtifact> = found.artifacts.into_iter().map(artifact).collect();
        let total = artifacts.len();
        let reply = Reply::new(ArtifactPage {
            plan_id: id,
            project: project_names(&found.plan),
            summary: counts(&artifacts),
            by_plan: ArtifactsByPlan { root: total },
            artifacts,
        });
        let reply = reply.info(format!("{} listed", format_length(total, "artifact")));
        Ok(match total {
            0 => reply,
            _ => reply.hint(NextStep::send(&PlanDiff {
                plan: id.into(),
                patch: false,
                files: Vec::new(),
                resource: None,
            })),
        })
    }
}

fn counts(artifacts: &[PlanArtifact]) -> ArtifactCounts {
    let count = |kind| artifacts.iter().filter(|it| it.kind == kind).count();
    let bytes = artifacts.iter().filter_map(|it| it.bytes).sum();
    ArtifactCounts {
        total: artifacts.len(),
        writes: count(ArtifactKind::Write),
        edits: count(ArtifactKind::Edit),
        deletes: count(ArtifactKind::Delete),
        total_size: format_size(bytes),
        total_bytes: bytes,
    }
}

fn artifact(artifact: Artifact) -> PlanArtifact {
    let kind = match artifact.kind {
        results::ArtifactKind::Write => ArtifactKind::Write,
        results::ArtifactKind::Edit => ArtifactKind::Edit,
        results::ArtifactKind::Delete => ArtifactKind::Delete,
    };
    let file = artifact.file;
    let current = file.as_ref().filter(|_| kind != ArtifactKind::Delete);
    let bytes = current.map(|it| it.size);
    PlanArtifact {
        path: artifact.path,
        kind,
        size: bytes.map(format_size),
        bytes,
        mode: file.as_ref().map(|it| format!("{:o}", it.mode)),
        hash: file.map(|it| it.hash),
        change: format_line_counts(artifact.lines),
        child_plan: None,
        resource: artifact.resource,
    }
}
