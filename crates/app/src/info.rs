//! `info`

use cleveragents_api::Reply;
use cleveragents_api::info::{DatabaseContents, DatabaseInfo, Info, InfoAnswer, ServerMode};
use cleveragents_ports::maintenance::Statistics;

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

impl Handler<Info> for App {
    async fn handle(&self, _: Info, _: &Caller) -> Result<Reply<InfoAnswer>, RequestError> {
        let database = self.services.deps().maintenance.facts();
        let statistics = self.services.deps().maintenance.statistics().await?;
        Ok(Reply::new(InfoAnswer {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            installation: self.services.adapters().installation(),
            node: self.services.deps().node.to_owned(),
            server_mode: ServerMode::Disabled,
            database: DatabaseInfo {
                engine: database.engine.as_str().to_owned(),
                place: database.location,
                schema_version: database.schema_version,
            },
            statistics: contents(&statistics),
            disk: self.services.adapters().disk_usage(),
        }))
    }
}

fn contents(statistics: &Statistics) -> DatabaseContents {
    DatabaseContents {
        streams: statistics.streams,
        events: statistics.events,
        actions: statistics.actions,
        plans: statistics.plans,
        operations: statistics.operations,
        blobs: statistics.blobs,
        blob_bytes: statistics.blob_bytes,
        database_bytes: statistics.database_bytes,
    }
}
