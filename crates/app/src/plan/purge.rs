//! `plan.purge`

use cleveragents_api::Reply;
use cleveragents_api::plan::PlanPurge;
use cleveragents_api::plan::purge::PurgedJournal;
use cleveragents_engine::lifecycle::PlanPurgeRequest;

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::plan::find::find_journal;
use crate::text::format_count;

impl Handler<PlanPurge> for App {
    async fn handle(
        &self,
        request: PlanPurge,
        caller: &Caller,
    ) -> Result<Reply<PurgedJournal>, RequestError> {
        if let (Some(first), Some(last)) = (request.from_seq, request.to_seq)
            && first > last
        {
            return Err(RequestError::usage(format!(
                "--from-seq {first} comes after --to-seq {last}"
            )));
        }
        let id = find_journal(&self.services, &request.plan).await?;
        let purge = PlanPurgeRequest {
            plan: id,
            first: request.from_seq,
            last: request.to_seq,
            reason: self.services.mask_secrets(&request.reason)?,
            actor: caller.who.clone(),
        };
        let erased = self.services.lifecycle().purge(purge).await?;
        let said = match erased.payloads {
            0 => "nothing to erase".to_owned(),
            number => {
                let number = i64::try_from(number).unwrap_or(i64::MAX);
                format!("{} erased", format_count(number, "payload"))
            }
        };
        let answer = PurgedJournal {
            plan_id: id,
            erased: erased.payloads,
            reason: request.reason,
            head_hash: erased.head_hash,
        };
        Ok(Reply::new(answer).info(said))
    }
}
