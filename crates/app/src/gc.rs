//! `gc`

use cleveragents_api::gc::{Gc, GcAnswer, UnneededData};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::event::payloads::GarbageCollected;
use cleveragents_domain::{NewEvent, StreamId};
use cleveragents_ports::maintenance::CollectionReport;
use cleveragents_ports::{StoreError, StoreOperation};

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::services::Services;

impl Handler<Gc> for App {
    async fn handle(&self, request: Gc, caller: &Caller) -> Result<Reply<GcAnswer>, RequestError> {
        let retention = self.services.adapters().retention();
        if request.dry_run {
            let found = self
                .services
                .deps()
                .maintenance
                .preview_collection(retention)
                .await?;
            return Ok(dry_run_reply(unneeded_data(found)));
        }
        let removed = self.services.deps().maintenance.collect(retention).await?;
        let answer = GcAnswer {
            dry_run: false,
            collected: unneeded_data(removed),
        };
        let reply = Reply::new(answer);
        if removed.is_empty() {
            return Ok(reply.info("there was nothing to remove"));
        }
        let reply = reply.info("removed");
        Ok(
            match record_collection(&self.services, removed, caller).await {
                Ok(()) => reply,
                Err(error) => reply.warn(format!(
                    "removed, but the removal could not be recorded: {error}"
                )),
            },
        )
    }
}

/// Records what was removed in the journal of the installation.
async fn record_collection(
    services: &Services,
    removed: CollectionReport,
    caller: &Caller,
) -> Result<(), StoreError> {
    let payload = GarbageCollected {
        operations: removed.operations,
        blobs: removed.blobs,
        blob_bytes: removed.blob_bytes,
        stray_files: removed.stray_files,
        dead_processes: removed.dead_processes,
    };
    let event = NewEvent::of(&caller.who, &payload).map_err(StoreError::internal)?;
    let (store, ids, _) = services.parts();
    let operation = StoreOperation::new(&*ids, "store.gc");
    let append = store.write(operation, move |tx| {
        let events = std::slice::from_ref(&event);
        tx.append(StreamId::System, events).map(drop)
    });
    append.await
}

fn dry_run_reply(collected: UnneededData) -> Reply<GcAnswer> {
    let reply = Reply::new(GcAnswer {
        dry_run: true,
        collected,
    });
    if collected.is_empty() {
        reply.info("there is nothing to remove")
    } else {
        reply
            .info("nothing was removed: a dry run")
            .hint(NextStep::send(&Gc::default()))
    }
}

fn unneeded_data(report: CollectionReport) -> UnneededData {
    UnneededData {
        operations: report.operations,
        blobs: report.blobs,
        blob_bytes: report.blob_bytes,
        stray_files: report.stray_files,
        dead_processes: report.dead_processes,
    }
}
