//! `plan.prompt`

use cleveragents_api::Reply;
use cleveragents_api::plan::prompt::{GuidanceRecipient, SentGuidance};
use cleveragents_api::plan::{PlanPrompt, PlanSummary};
use cleveragents_domain::action::TEXT_MAXIMUM;
use cleveragents_engine::lifecycle::MessageRecipient;

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::next_steps::resume_step;
use crate::plan::find::find_plan;

impl Handler<PlanPrompt> for App {
    async fn handle(
        &self,
        request: PlanPrompt,
        caller: &Caller,
    ) -> Result<Reply<SentGuidance>, RequestError> {
        check_guidance(&request.guidance)?;
        let plan = find_plan(&self.services, &request.plan).await?;
        let id = plan.identity.plan_id;
        let guidance = self.services.mask_secrets(&request.guidance)?;
        let lifecycle = self.services.lifecycle();
        let prompted = lifecycle.prompt(id, &guidance, &caller.who).await?;
        let answer = |delivered_to| SentGuidance {
            plan: PlanSummary::from(&prompted.plan),
            guidance: request.guidance,
            message_id: prompted.message.id,
            sequence: prompted.message.sequence,
            delivered_to,
        };
        Ok(match prompted.to {
            MessageRecipient::Owner => Reply::new(answer(GuidanceRecipient::Owner))
                .info("the running process receives it next"),
            MessageRecipient::NextOwner => Reply::new(answer(GuidanceRecipient::NextOwner))
                .info("the plan receives it when it runs next")
                .hint(resume_step(id)),
        })
    }
}

fn check_guidance(guidance: &str) -> Result<(), RequestError> {
    if guidance.trim().is_empty() {
        let failure = RequestError::usage("the guidance is empty");
        return Err(failure.hint("write what the plan should know"));
    }
    if guidance.len() > TEXT_MAXIMUM {
        let failure = RequestError::usage("the guidance is too long");
        return Err(failure.because(format!(
            "it may be {TEXT_MAXIMUM} bytes long, this one has {}",
            guidance.len()
        )));
    }
    Ok(())
}
