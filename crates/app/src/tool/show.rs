//! `tool.show`

use cleveragents_api::tool::{ToolDetails, ToolList, ToolRun, ToolShow};
use cleveragents_api::{ExitClass, NextStep, Reply};
use cleveragents_domain::NamespacedName;
use cleveragents_domain::tool::control::is_control_tool;
use cleveragents_ports::tools::{Tool, Toolbox};

use super::{show_step, summary};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::nearest::nearest;

impl Handler<ToolShow> for App {
    async fn handle(
        &self,
        request: ToolShow,
        _: &Caller,
    ) -> Result<Reply<ToolDetails>, RequestError> {
        show_tool(&request, &*self.services.adapters().toolbox()?)
    }
}

/// Returns a tool. Needs no database, so a front end can call it without an [`App`].
pub fn show_tool(
    request: &ToolShow,
    toolbox: &dyn Toolbox,
) -> Result<Reply<ToolDetails>, RequestError> {
    let tool = find_tool(toolbox, &request.name)?.definition();
    let name = &tool.name;
    let reply = Reply::new(ToolDetails {
        tool: summary(tool),
        timeout_seconds: tool.timeout_seconds,
        input_schema: tool.input_schema.clone(),
        output_schema: tool.output_schema.clone(),
    });
    Ok(if is_control_tool(name) {
        // Such a tool works only inside a plan, so there is no request to suggest.
        reply
    } else {
        let run = [("name", &*name.to_string()), ("input", "JSON")];
        reply.hint(NextStep::fill_in::<ToolRun>(&run))
    })
}

/// Finds a tool by name. Fails with similar names if it does not exist.
pub(super) fn find_tool<'a>(
    toolbox: &'a dyn Toolbox,
    name: &NamespacedName,
) -> Result<&'a dyn Tool, RequestError> {
    toolbox
        .tool(name)
        .ok_or_else(|| unknown_tool_failure(toolbox, name))
}

fn unknown_tool_failure(toolbox: &dyn Toolbox, name: &NamespacedName) -> RequestError {
    let known: Vec<&NamespacedName> = toolbox.definitions().iter().map(|it| &it.name).collect();
    let alike = nearest(name, known);
    let failure = RequestError::new(ExitClass::NotFound, format!("there is no tool {name}"));
    let show = alike.iter().map(|name| show_step(name));
    let failure = show.fold(failure, RequestError::hint);
    failure
        .hint(NextStep::send(&ToolList::default()))
        .with_candidates(alike.iter().map(ToString::to_string).collect())
}
