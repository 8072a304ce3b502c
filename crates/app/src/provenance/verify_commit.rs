//! `verify_commit`

use cleveragents_api::Reply;
use cleveragents_api::verify_commit::{CheckedCommit, VerifyCommit};

use super::reader;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

impl Handler<VerifyCommit> for App {
    async fn handle(
        &self,
        request: VerifyCommit,
        _: &Caller,
    ) -> Result<Reply<CheckedCommit>, RequestError> {
        let reader = reader(&self.services)?;
        let found = reader.verify(request.path, request.revision).await?;
        let answer = CheckedCommit {
            commit: found.commit,
            verified: true,
            plan_id: found.plan,
            plan_name: found.name,
            apply_id: found.apply,
            direction: found.direction,
            plan_seq: found.plan_seq,
            journal_hash: found.journal_hash,
            events: found.events,
        };
        Ok(Reply::new(answer).info("Commit verified"))
    }
}
