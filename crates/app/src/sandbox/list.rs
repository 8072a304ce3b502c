//! `sandbox.list`

use cleveragents_api::sandbox::{
    SandboxCounts, SandboxFilters, SandboxGc, SandboxList, SandboxPage, SandboxSummary,
};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::sandbox::SandboxState;
use cleveragents_engine::sandboxes::SandboxFilter;

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::name_pattern::NamePattern;
use crate::plan::find_plan;
use crate::sandbox::{sandbox_service, sandbox_summary};
use crate::text::format_length;

impl Handler<SandboxList> for App {
    async fn handle(
        &self,
        request: SandboxList,
        _: &Caller,
    ) -> Result<Reply<SandboxPage>, RequestError> {
        let plan = match &request.plan {
            Some(plan) => Some(find_plan(&self.services, plan).await?.identity.plan_id),
            None => None,
        };
        let filter = SandboxFilter {
            states: request.state.into_iter().collect(),
            plan,
        };
        let found = sandbox_service(&self.services)?.list(filter).await?;
        let known = found.known.into_iter();
        let mut sandboxes: Vec<SandboxSummary> = known
            .map(|it| sandbox_summary(&self.services, it))
            .collect();
        let pattern = request.pattern.as_deref().map(NamePattern::parse);
        if let Some(pattern) = pattern.transpose()? {
            sandboxes.retain(|it| pattern.matches(&it.resource));
        }
        let summary = counts(&sandboxes);
        sandboxes.truncate(request.limit.unwrap_or(usize::MAX));
        let said = format!("{} listed", format_length(sandboxes.len(), "sandbox"));
        let unknown = found.unknown.len();
        let reply = Reply::new(SandboxPage {
            summary,
            sandboxes,
            unknown: found.unknown,
            filters: SandboxFilters {
                state: request.state,
                plan: request.plan,
                pattern: request.pattern,
            },
        });
        let reply = reply.info(said);
        Ok(match unknown {
            0 => reply,
            number => reply
                .warn(format!("{number} more on disk without a record"))
                .hint(NextStep::send(&SandboxGc {
                    dry_run: true,
                    older_than: None,
                })),
        })
    }
}

fn counts(sandboxes: &[SandboxSummary]) -> SandboxCounts {
    let count = |state| sandboxes.iter().filter(|it| it.state == state).count();
    let states = SandboxState::ALL.iter();
    SandboxCounts {
        total: sandboxes.len(),
        by_state: states
            .map(|state| (state.as_str().to_owned(), count(*state)))
            .collect(),
    }
}
