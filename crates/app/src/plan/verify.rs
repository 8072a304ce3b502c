//! `plan.verify`

use cleveragents_api::plan::PlanVerify;
use cleveragents_api::plan::verify::VerifiedJournal;
use cleveragents_api::{ExitClass, FailureKind, Reply};
use cleveragents_domain::{ChainFault, StreamId};
use cleveragents_engine::journal::verify;

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::plan::find::find_journal;

impl Handler<PlanVerify> for App {
    async fn handle(
        &self,
        request: PlanVerify,
        _: &Caller,
    ) -> Result<Reply<VerifiedJournal>, RequestError> {
        let id = find_journal(&self.services, &request.plan).await?;
        let expect = request.expect.map(|hash| hash.to_ascii_lowercase());
        let verified = verify(self.services.store(), StreamId::Plan(id), expect).await?;
        let found = verified.map_err(altered_failure)?;
        let answer = VerifiedJournal {
            plan_id: id,
            verified: true,
            events: found.events,
            purged: found.purged,
            head_hash: found.head_hash,
        };
        Ok(Reply::new(answer).info("Journal verified"))
    }
}

fn altered_failure(fault: ChainFault) -> RequestError {
    RequestError::new(ExitClass::Error, "the journal does not verify")
        .kind(FailureKind::Altered)
        .because(fault.to_string())
        .hint("agents diagnostics")
        .hint("compare with a backup: agents restore FILE --data-dir DIR")
        .with_facts(|facts| {
            facts.verified = Some(false);
            facts.fault = Some(fault);
        })
}
