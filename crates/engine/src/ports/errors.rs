//! The errors of plans. Recording the first error needs no setup.

use cleveragents_domain::ErrorRecord;
use cleveragents_domain::id::PlanId;

use super::Result;

pub trait ErrorRecords {
    /// Records an error of an existing plan and returns the stored record. A new error gets the
    /// next sequence number. An identical one is counted and updates the attempt, cause and time.
    fn record_error(&mut self, error: &ErrorRecord) -> Result<ErrorRecord>;

    /// Returns up to `limit` errors of the plan after the sequence number `after`, in the order in
    /// which they first happened.
    fn errors_of(&mut self, plan: PlanId, after: i64, limit: u32) -> Result<Vec<ErrorRecord>>;
}
