//! The errors of plans. There is no history to create: recording the first error is recording one.

use cleveragents_domain::ErrorRecord;
use cleveragents_domain::id::PlanId;

use super::Result;

pub trait ErrorRecords {
    /// Records an error of an existing plan and answers with it as it now stands: a new one gets
    /// the next place, an identical one is counted and brings its newest attempt, cause and time.
    fn record_error(&mut self, error: &ErrorRecord) -> Result<ErrorRecord>;

    /// Up to `limit` errors of the plan after the place `after`, in the order in which they first
    /// happened.
    fn errors_of(&mut self, plan: PlanId, after: i64, limit: u32) -> Result<Vec<ErrorRecord>>;
}
