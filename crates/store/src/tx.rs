//! A transaction as SQL sees it: two verbs, the same text for both engines.

use cleveragents_engine::ports::{Result, StoreError};

use crate::dialect::Dialect;
use crate::value::{Param, Row};

/// An open transaction of either engine. Placeholders are `?1`, `?2`, …; see [`Dialect`] for the
/// few words that differ.
pub(crate) trait Tx {
    /// Runs a statement and says how many rows it changed.
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64>;

    /// Runs a statement and returns its rows.
    fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>>;

    fn dialect(&self) -> Dialect;
}

/// Remembers that a statement failed. PostgreSQL turns the commit of such a transaction into a
/// silent rollback, and a closure might swallow the error; a transaction with a failed statement
/// is therefore never committed, on either engine.
pub(crate) struct Watched<'a> {
    tx: &'a mut dyn Tx,
    failure: Option<StoreError>,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(tx: &'a mut dyn Tx) -> Self {
        Self { tx, failure: None }
    }

    pub(crate) fn failure(&self) -> Option<&StoreError> {
        self.failure.as_ref()
    }

    fn watch<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.failure.get_or_insert_with(|| error.clone());
        }
        result
    }
}

impl Tx for Watched<'_> {
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        let result = self.tx.execute(sql, params);
        self.watch(result)
    }

    fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let result = self.tx.query(sql, params);
        self.watch(result)
    }

    fn dialect(&self) -> Dialect {
        self.tx.dialect()
    }
}
