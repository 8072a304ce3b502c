//! The ports' operations within a transaction, written in SQL once for both engines.

mod actions;
mod actors;
mod applies;
mod backfill;
mod blobs;
mod bulk;
mod decisions;
mod definitions;
mod journal;
mod locks;
mod model_calls;
mod operations;
mod plan_list_query;
mod plans;
mod policies;
mod projects;
mod rows;
mod runs;
mod sandbox_records;
mod tool_calls;
mod validations;

use cleveragents_domain::Timestamp;
use cleveragents_ports::{Result, StoreError, Transaction};

use crate::blob_files::BlobFiles;
use crate::dialect::SqlDialect;
use crate::sql_executor::{FailureTracker, SqlExecutor};
use crate::value::{Param, SqlRow};

pub(crate) use backfill::backfill_rows;
pub(crate) use blobs::{insert_blob_row, lock_blob_files, put_chunks};
pub(crate) use operations::run_once;

/// An open transaction with everything that the operations need.
pub(crate) struct StoreSession<'a> {
    executor: FailureTracker<'a>,
    /// The folder of large blobs, if they are not in the database.
    files: Option<&'a BlobFiles>,
}

impl<'a> StoreSession<'a> {
    pub(crate) fn new(tx: &'a mut dyn SqlExecutor, files: Option<&'a BlobFiles>) -> Self {
        Self {
            executor: FailureTracker::new(tx),
            files,
        }
    }

    /// The first statement that failed, if any. This transaction must not be committed then.
    pub(crate) fn failure(&self) -> Option<&StoreError> {
        self.executor.failure()
    }

    pub(crate) fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        self.executor.execute(sql, params)
    }

    pub(crate) fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<SqlRow>> {
        self.executor.query(sql, params)
    }

    /// Returns the first row, if any.
    pub(crate) fn find(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Option<SqlRow>> {
        Ok(self.executor.query(sql, params)?.into_iter().next())
    }

    pub(crate) fn dialect(&self) -> SqlDialect {
        self.executor.dialect()
    }
}

impl Transaction for StoreSession<'_> {
    fn now(&mut self) -> Result<Timestamp> {
        self.find("SELECT now_micros()", &[])?
            .ok_or_else(|| StoreError::internal("the database has no time"))?
            .time(0)
    }
}
