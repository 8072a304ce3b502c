//! Handlers of tools, one file per verb.

mod list;
mod run;
mod show;
mod trial;

use cleveragents_api::NextStep;
use cleveragents_api::tool::{ToolCapability, ToolShow, ToolSummary, ToolType};
use cleveragents_domain::NamespacedName;
use cleveragents_domain::tool::{Capability, Repeatability, Safety, ToolAccess, ToolDefinition};

pub use list::list_tools;
pub use run::run_tool;
use show::find_tool;

pub use show::show_tool;

/// Returns the step of showing a tool.
fn show_step(name: &NamespacedName) -> NextStep {
    NextStep::send(&ToolShow { name: name.clone() })
}

fn summary(tool: &ToolDefinition) -> ToolSummary {
    ToolSummary {
        name: tool.name.clone(),
        description: tool.description.clone(),
        tool_type: ToolType::Tool,
        source: tool.name.namespace().to_owned(),
        capability: capability(&tool.capability),
    }
}

/// Converts the effects. Changes of a writing tool in its sandbox are captured, so they can be
/// undone.
fn capability(capability: &Capability) -> ToolCapability {
    let writes = capability.access == ToolAccess::Writes;
    ToolCapability {
        read_only: !writes,
        writes,
        idempotent: capability.repeatable == Repeatability::Idempotent,
        is_unsafe: capability.safety == Safety::Unsafe,
        side_effects: capability.side_effects.clone(),
        checkpointable: writes,
    }
}
