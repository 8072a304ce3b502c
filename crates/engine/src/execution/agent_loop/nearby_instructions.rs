//! Adds instructions that are close to the files a model works on, when it first uses a path below
//! them.

use cleveragents_domain::ResourcePath;
use cleveragents_domain::model::{ModelMessage, RequestedToolCall};
use cleveragents_domain::tool::control;
use serde_json::Value;

use super::AgentTurn;
use super::calls::RESOURCE_KEY;
use crate::execution::agent_loop::InstructionText;
use crate::execution::error::Result;
use crate::execution::guidance::instructions_near;

/// Input keys in which tools take paths.
const PATH_KEYS: [&str; 3] = ["path", "from", "to"];

impl AgentTurn<'_> {
    /// Queues the instructions for the paths of these calls. They are added after this turn's
    /// results.
    pub(super) async fn queue_nearby_instructions(
        &mut self,
        calls: &[RequestedToolCall],
    ) -> Result<()> {
        for call in calls {
            let Some((resource, about)) = call_paths(call) else {
                continue;
            };
            let resource = resource.and_then(|name| name.parse().ok());
            let workspace = &self.work.context.workspace;
            let Ok(handle) = workspace.sandbox(resource.as_ref()) else {
                continue;
            };
            let is_known = |path: &str| self.has_instructions(path);
            let texts = instructions_near(self.run, workspace, handle, about, &is_known).await?;
            self.pending_notes
                .extend(texts.iter().map(instructions_text));
        }
        Ok(())
    }

    /// Whether the instructions at this path are in the conversation. Compaction may have dropped
    /// them.
    fn has_instructions(&self, path: &str) -> bool {
        let begins = instructions_title(path);
        let before = self.conversation.messages().iter().any(
            |it| matches!(it, ModelMessage::User { text } if text.starts_with(begins.as_str())),
        );
        before || self.pending_notes.iter().any(|it| it.starts_with(&begins))
    }
}

fn instructions_title(path: &str) -> String {
    format!("# Instructions from {path}\n")
}

fn instructions_text(text: &InstructionText) -> String {
    let folder = text.path.trim_end_matches("/AGENTS.md");
    format!(
        "{}They apply below {folder} and override those from parent folders.\n\n{}",
        instructions_title(&text.path),
        text.text
    )
}

/// Returns the paths of a call and the resource it names, or `None` if it names no file in a
/// folder.
fn call_paths(call: &RequestedToolCall) -> Option<(Option<String>, Vec<ResourcePath>)> {
    let tool = call.tool.parse().ok()?;
    if control::is_control_tool(&tool) {
        return None;
    }
    let input: Value = serde_json::from_str(&call.arguments).ok()?;
    let path = |key: &&str| {
        let text = input.get(key)?.as_str()?.trim_start_matches("./");
        ResourcePath::from_bytes(text.trim_end_matches('/')).ok()
    };
    let paths: Vec<ResourcePath> = PATH_KEYS.iter().filter_map(path).collect();
    let resource = input.get(RESOURCE_KEY).and_then(Value::as_str);
    (!paths.is_empty()).then(|| (resource.map(str::to_owned), paths))
}
