//! `plan.log`

use cleveragents_api::Reply;
use cleveragents_api::plan::log::{JournalEvent, JournalHead, JournalPage};
use cleveragents_api::plan::{PlanLog, PlanReference};
use cleveragents_domain::StreamId;
use cleveragents_domain::id::PlanId;
use cleveragents_ports::StreamHead;

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::plan::find::find_journal;
use crate::services::Services;
use crate::text::{format_count, format_length};

/// Number of events that one read returns.
const PAGE: u32 = 1000;

impl Handler<PlanLog> for App {
    async fn handle(
        &self,
        request: PlanLog,
        _: &Caller,
    ) -> Result<Reply<JournalPage>, RequestError> {
        let from_seq = request.from_seq.unwrap_or(1);
        let (id, head) = find_journal_from(&self.services, &request.plan, from_seq).await?;
        let events = journal_events(&self.services, id, from_seq, request.limit).await?;
        let said = format!("{} shown", format_length(events.len(), "event"));
        let reply = Reply::new(JournalPage {
            plan_id: id,
            events,
            head: JournalHead {
                plan_seq: head.stream_seq,
                hash: head.hash,
            },
        });
        Ok(reply.info(said))
    }
}

/// Finds the journal of a plan and its end. Fails if it ends before the event that comes before
/// `from_seq`.
pub(crate) async fn find_journal_from(
    services: &Services,
    plan: &PlanReference,
    from_seq: i64,
) -> Result<(PlanId, StreamHead), RequestError> {
    let id = find_journal(services, plan).await?;
    let head = services.store().read(move |tx| tx.head(StreamId::Plan(id)));
    let head = head.await?;
    if from_seq > head.stream_seq + 1 {
        return Err(RequestError::usage(format!(
            "--from-seq {from_seq} is beyond the end of the journal, which has {}",
            format_count(head.stream_seq, "event")
        )));
    }
    Ok((id, head))
}

async fn journal_events(
    services: &Services,
    plan: PlanId,
    from_seq: i64,
    limit: Option<u64>,
) -> Result<Vec<JournalEvent>, RequestError> {
    let most = limit.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
    let stream = StreamId::Plan(plan);
    let mut found: Vec<JournalEvent> = Vec::new();
    loop {
        let after = found.last().map_or(from_seq - 1, |event| event.plan_seq);
        let page = services
            .store()
            .read(move |tx| tx.events(stream, after, PAGE));
        let page = page.await?;
        let left = most.saturating_sub(found.len());
        if page.is_empty() || left == 0 {
            return Ok(found);
        }
        found.extend(page.iter().take(left).map(JournalEvent::from));
    }
}
