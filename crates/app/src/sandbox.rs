//! Handlers of sandboxes, one file per verb.

mod gc;
mod list;
mod show;

use cleveragents_api::sandbox::SandboxSummary;
use cleveragents_engine::sandboxes::{SandboxFolderPresence, SandboxListEntry, SandboxService};

use crate::failure::RequestError;
use crate::services::Services;

fn sandbox_service(services: &Services) -> Result<SandboxService, RequestError> {
    let (store, ids, liveness) = services.parts();
    let sandboxes = services.adapters().sandboxes()?;
    Ok(SandboxService::new(store, ids, liveness, sandboxes))
}

fn sandbox_summary(services: &Services, entry: SandboxListEntry) -> SandboxSummary {
    let SandboxListEntry { record, on_disk } = entry;
    let tree = services.adapters().sandbox_tree(record.id);
    SandboxSummary {
        id: record.id,
        plan_id: record.plan_id,
        resource: record.resource_name,
        resource_path: record.resource_path,
        resource_type: record.resource_type,
        base: record.base,
        base_commit: record.base_commit,
        base_tree: record.base_tree,
        tree: record.tree,
        state: record.state,
        folder: record.folder,
        node: record.node,
        on_disk: on_disk == SandboxFolderPresence::Present,
        on_other_node: on_disk == SandboxFolderPresence::OnOtherNode,
        path: tree.display().to_string(),
        created_at: record.created_at,
        updated_at: record.updated_at,
    }
}
