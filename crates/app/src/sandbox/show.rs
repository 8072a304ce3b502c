//! `sandbox.show`

use cleveragents_api::plan::PlanDiff;
use cleveragents_api::sandbox::{SandboxDetails, SandboxList, SandboxShow};
use cleveragents_api::{ExitClass, NextStep, Reply};

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::sandbox::{sandbox_service, sandbox_summary};
use crate::text::format_size;

impl Handler<SandboxShow> for App {
    async fn handle(
        &self,
        request: SandboxShow,
        _: &Caller,
    ) -> Result<Reply<SandboxDetails>, RequestError> {
        let found = sandbox_service(&self.services)?.show(request.sandbox).await;
        let found = found.map_err(|error| {
            let failure = RequestError::from(error);
            match failure.exit {
                ExitClass::NotFound => failure.hint(NextStep::send(&SandboxList::default())),
                _ => failure,
            }
        })?;
        let sandbox = sandbox_summary(&self.services, found.sandbox);
        let bytes = sandbox
            .on_disk
            .then(|| self.services.adapters().sandbox_size(sandbox.id));
        let step = (sandbox.on_disk && sandbox.tree.is_some()).then(|| {
            NextStep::send(&PlanDiff {
                plan: sandbox.plan_id.into(),
                resource: None,
                files: Vec::new(),
                patch: false,
            })
        });
        let reply = Reply::new(SandboxDetails {
            sandbox,
            bytes,
            size: bytes.map(format_size),
            plan: found.plan.name,
            phase: found.plan.position.phase(),
            plan_state: found.plan.position.state(),
        });
        Ok(step.into_iter().fold(reply, Reply::hint))
    }
}
