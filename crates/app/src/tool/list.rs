//! `tool.list`

use cleveragents_api::tool::{ToolCounts, ToolFilters, ToolList, ToolPage, ToolSummary, ToolType};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::tool::ToolDefinition;
use cleveragents_ports::tools::Toolbox;

use super::{show_step, summary};
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::name_pattern::NamePattern;

impl Handler<ToolList> for App {
    async fn handle(&self, request: ToolList, _: &Caller) -> Result<Reply<ToolPage>, RequestError> {
        list_tools(request, &*self.services.adapters().toolbox()?)
    }
}

/// Lists tools. Needs no database, so a front end can call it without an [`App`].
pub fn list_tools(
    request: ToolList,
    toolbox: &dyn Toolbox,
) -> Result<Reply<ToolPage>, RequestError> {
    let pattern = request.pattern.as_deref().map(NamePattern::parse);
    let pattern = pattern.transpose()?;
    // Every tool of the toolbox does something; validations are registered elsewhere.
    let is_type = request.tool_type != Some(ToolType::Validation);
    let is_listed = |tool: &&ToolDefinition| {
        is_type && pattern.as_ref().is_none_or(|it| it.matches(&tool.name))
    };
    let found = toolbox.definitions().into_iter().filter(is_listed);
    let mut tools: Vec<ToolSummary> = found.map(summary).collect();
    let counts = ToolCounts { total: tools.len() };
    tools.truncate(request.limit.unwrap_or(usize::MAX));
    let said = match tools.len() {
        1 => "1 tool listed".to_owned(),
        number => format!("{number} tools listed"),
    };
    let step = match tools.first() {
        Some(tool) => show_step(&tool.name),
        None => NextStep::send(&ToolList::default()),
    };
    let page = ToolPage {
        tools,
        filters: ToolFilters {
            tool_type: request.tool_type,
            pattern: request.pattern,
        },
        summary: counts,
    };
    Ok(Reply::new(page).info(said).hint(step))
}
