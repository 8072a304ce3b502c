//! Instructions that stand near what a model works on: it is told of them when it first has to do
//! with what is below them.

use cleveragents_domain::ResourcePath;
use cleveragents_domain::model::{ModelMessage, RequestedCall};
use cleveragents_domain::tool::talk;
use serde_json::Value;

use super::Talk;
use super::calls::RESOURCE;
use crate::execution::error::Result;
use crate::execution::talking::Text;

/// The input keys in which tools are given paths.
const PATHS: [&str; 3] = ["path", "from", "to"];

impl Talk<'_> {
    /// Puts by what the model is told after this turn's results about the paths of these calls.
    pub(super) async fn note_nearby(&mut self, calls: &[RequestedCall]) -> Result<()> {
        for call in calls {
            let Some((resource, about)) = about(call) else {
                continue;
            };
            let resource = resource.and_then(|name| name.parse().ok());
            let Ok(seat) = self.work.workspace.seat(resource.as_ref()) else {
                continue;
            };
            let is_known = |path: &str| self.is_told(path);
            let place = (self.work, seat);
            let texts = self
                .executor
                .texts_near(self.run, place, about, &is_known)
                .await?;
            self.told_after.extend(texts.iter().map(words));
        }
        Ok(())
    }

    /// Whether the model was told of the instructions at this path, and still knows of it.
    fn is_told(&self, path: &str) -> bool {
        let begins = title(path);
        let messages = &self.conversation.request().messages;
        let before = messages.iter().any(
            |it| matches!(it, ModelMessage::User { text } if text.starts_with(begins.as_str())),
        );
        before || self.told_after.iter().any(|it| it.starts_with(&begins))
    }
}

fn title(path: &str) -> String {
    format!("# Instructions from {path}\n")
}

fn words(text: &Text) -> String {
    let folder = text.path.trim_end_matches("/AGENTS.md");
    format!(
        "{}They hold for what is below {folder}, before those from further up.\n\n{}",
        title(&text.path),
        text.text
    )
}

/// The paths a call is about, and the resource it names; none if it is about no file in a folder.
fn about(call: &RequestedCall) -> Option<(Option<String>, Vec<ResourcePath>)> {
    let tool = call.tool.parse().ok()?;
    if talk::is_talk(&tool) {
        return None;
    }
    let input: Value = serde_json::from_str(&call.arguments).ok()?;
    let path = |key: &&str| {
        let text = input.get(key)?.as_str()?.trim_start_matches("./");
        ResourcePath::from_bytes(text.trim_end_matches('/')).ok()
    };
    let paths: Vec<ResourcePath> = PATHS.iter().filter_map(path).collect();
    let resource = input.get(RESOURCE).and_then(Value::as_str);
    (!paths.is_empty()).then(|| (resource.map(str::to_owned), paths))
}
