//! `action.list`

use cleveragents_api::action::{
    ActionCounts, ActionCreate, ActionFilters, ActionList, ActionPage, ActionSource, ActionSummary,
};
use cleveragents_api::{NextStep, Reply};
use cleveragents_definitions::ActionDraft;
use cleveragents_domain::{Action, ActionState};

use crate::action::count_plans;
use crate::app::{App, Caller, Handler};
use crate::failure::{RequestError, display_path};
use crate::name_pattern::NamePattern;
use crate::project_actions::{
    ProjectAction, enclosing_projects, find_duplicates, project_actions, shadowed_warning,
};

impl Handler<ActionList> for App {
    async fn handle(
        &self,
        request: ActionList,
        _: &Caller,
    ) -> Result<Reply<ActionPage>, RequestError> {
        let pattern = request.pattern.as_deref().map(NamePattern::parse);
        let pattern = pattern.transpose()?;
        let (registered, uses) = self.services.action_registry().list().await?;
        let folders = enclosing_projects(&self.services, request.folder.as_deref());
        let in_files = project_actions(&self.services, &folders);
        let duplicates = find_duplicates(&in_files.actions, None);
        let faults: Vec<&RequestError> = in_files.failures.iter().chain(&duplicates).collect();
        let mut warnings: Vec<String> = faults.iter().map(|fault| fault.summary()).collect();
        let hints = faults.iter().flat_map(|fault| fault.next_steps.clone());
        let hints: Vec<NextStep> = hints.collect();

        let mut all: Vec<ActionSummary> = Vec::new();
        for action in &registered {
            let plans = uses.get(&action.id).copied().unwrap_or_default();
            all.push(registered_summary(action, plans));
        }
        for action in in_files.actions {
            let name = &action.draft.name;
            if registered.iter().any(|known| known.name == *name) {
                warnings.push(shadowed_warning(name, &action.file));
            } else {
                let plans = count_plans(&self.services, name).await?;
                all.push(file_summary(action, plans));
            }
        }
        all.retain(|action| matches(&request, pattern.as_ref(), action));
        let reply = page_reply(all, request);
        let reply = warnings.into_iter().fold(reply, Reply::warn);
        Ok(hints.into_iter().fold(reply, Reply::hint))
    }
}

fn matches(request: &ActionList, pattern: Option<&NamePattern>, action: &ActionSummary) -> bool {
    let namespace = request.namespace.as_deref();
    request.state.is_none_or(|state| state == action.state)
        && namespace.is_none_or(|namespace| namespace == action.name.namespace())
        && pattern.is_none_or(|pattern| pattern.matches(&action.name))
}

fn page_reply(all: Vec<ActionSummary>, request: ActionList) -> Reply<ActionPage> {
    let is_archived = |action: &&ActionSummary| action.state == ActionState::Archived;
    let archived = all.iter().filter(is_archived).count();
    let summary = ActionCounts {
        total: all.len(),
        available: all.len() - archived,
        archived,
        total_plans_created: all.iter().map(|action| action.plans).sum(),
    };
    let limit = request.limit.unwrap_or(usize::MAX);
    let actions: Vec<ActionSummary> = all.into_iter().take(limit).collect();
    let said = match actions.len() {
        1 => "1 action listed".to_owned(),
        number => format!("{number} actions listed"),
    };
    let is_empty = summary.total == 0;
    let reply = Reply::new(ActionPage {
        actions,
        filters: ActionFilters {
            state: request.state,
            namespace: request.namespace,
            pattern: request.pattern,
        },
        summary,
    });
    let reply = reply.info(said);
    if is_empty {
        reply.hint(NextStep::fill_in::<ActionCreate>(&[("config", "FILE")]))
    } else {
        reply
    }
}

fn registered_summary(action: &Action, plans: u64) -> ActionSummary {
    summary(ActionDraft::from(action), plans, ActionSource::Registered)
}

fn file_summary(action: ProjectAction, plans: u64) -> ActionSummary {
    ActionSummary {
        file: Some(display_path(&action.file)),
        ..summary(action.draft, plans, ActionSource::File)
    }
}

fn summary(draft: ActionDraft, plans: u64, source: ActionSource) -> ActionSummary {
    ActionSummary {
        name: draft.name,
        state: draft.state,
        strategy_actor: draft.actors.strategy_actor,
        execution_actor: draft.actors.execution_actor,
        reusable: draft.reusable,
        plans,
        description: draft.description,
        source,
        file: None,
    }
}
