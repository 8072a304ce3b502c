//! An open SQL transaction: two operations, the same SQL text for both engines.

use cleveragents_ports::{Result, StoreError};

use crate::dialect::SqlDialect;
use crate::value::{Param, SqlRow};

/// An open transaction of either engine. Placeholders are `?1`, `?2`, …; see [`SqlDialect`] for the
/// SQL that differs.
pub(crate) trait SqlExecutor {
    /// Runs a statement and returns the number of rows it changed.
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64>;

    /// Runs a statement and returns its rows.
    fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<SqlRow>>;

    fn dialect(&self) -> SqlDialect;
}

/// Records that a statement failed. PostgreSQL turns the commit of such a transaction into a silent
/// rollback, and a closure might swallow the error. A transaction with a failed statement is
/// therefore never committed, on either engine.
pub(crate) struct FailureTracker<'a> {
    executor: &'a mut dyn SqlExecutor,
    failure: Option<StoreError>,
}

impl<'a> FailureTracker<'a> {
    pub(crate) fn new(executor: &'a mut dyn SqlExecutor) -> Self {
        Self {
            executor,
            failure: None,
        }
    }

    pub(crate) fn failure(&self) -> Option<&StoreError> {
        self.failure.as_ref()
    }

    fn track<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.failure.get_or_insert_with(|| error.clone());
        }
        result
    }
}

impl SqlExecutor for FailureTracker<'_> {
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        let result = self.executor.execute(sql, params);
        self.track(result)
    }

    fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<SqlRow>> {
        let result = self.executor.query(sql, params);
        self.track(result)
    }

    fn dialect(&self) -> SqlDialect {
        self.executor.dialect()
    }
}
