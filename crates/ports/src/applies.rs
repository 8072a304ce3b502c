//! Records of the attempts to apply plans. The store assigns the `number` of an attempt without
//! gaps, in the insert itself, which locks the plan's stream as an append to its journal does.

use cleveragents_domain::apply_record::ApplyRecord;
use cleveragents_domain::id::{ApplyId, PlanId};

use super::Result;

pub trait Applies {
    /// Stores an apply attempt of an existing plan and assigns its number. Fails with `Taken` if
    /// the plan has an unfinished attempt.
    fn insert_apply(&mut self, apply: &ApplyRecord) -> Result<i64>;

    fn apply(&mut self, id: ApplyId) -> Result<ApplyRecord>;

    /// Updates the row if `apply.version` is the newest; returns the next version. Fails with
    /// `Refused` if a finished attempt would become unfinished.
    fn update_apply(&mut self, apply: &ApplyRecord) -> Result<i64>;

    /// Returns the plan's attempts, oldest first.
    fn applies_of(&mut self, plan: PlanId) -> Result<Vec<ApplyRecord>>;

    /// Returns the unfinished attempts of all plans.
    fn unfinished_applies(&mut self) -> Result<Vec<ApplyRecord>>;
}
