//! Store operations on runs: conditional writes that report the winner (law 3), fenced by epoch
//! (law 5). Messages to the owner of a run are here too.

use super::StoreSession;
use super::rows::{decode_count, decode_entity, to_json_body};
use crate::value::{SqlRow, params};
use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_domain::{MessageKind, Phase, PlanMessage, Timestamp};
use cleveragents_ports::{
    Claim, Entity, Holder, Lease, Result, RunClaimOutcome, Runs, Slots, StoreError, Transaction,
    UniqueKey,
};
use std::time::Duration;

const HOLDER_COLUMNS: &str = "plan_id, phase, owner, node, epoch, claimed_at, expires_at";

impl Runs for StoreSession<'_> {
    fn claim_run(&mut self, claim: &Claim) -> Result<RunClaimOutcome> {
        let now = self.now()?;
        let plan = claim.plan.to_string();
        if let Slots::Limit(limit) = claim.slots
            && let Some(running) = find_slot_holders(self, claim, limit, now)?
        {
            return Ok(RunClaimOutcome::NoSlot { running });
        }
        // The row exists from here on, so the claim is one conditional UPDATE, which waits for a
        // concurrent one (law 3).
        self.execute(
            "INSERT INTO runs (plan_id, phase, owner, node, counts, epoch, claimed_at, expires_at) \
             VALUES (?1, ?2, NULL, ?3, 0, 0, ?4, 0) ON CONFLICT (plan_id) DO NOTHING",
            params![&plan, phase_text(claim), &claim.node, now],
        )?;
        let dead = dead_holder(self, claim)?;
        let owner = claim.owner.to_string();
        let expires_at = now.after(claim.lease);
        // One statement decides: the run is free, expired, or held by exactly the owner proven
        // dead.
        let won = self.find(
            "UPDATE runs SET phase = ?2, node = ?4, counts = ?5, claimed_at = ?6, \
             expires_at = ?7, owner = ?3, epoch = epoch + 1 \
             WHERE plan_id = ?1 AND (owner IS NULL OR expires_at <= ?6 \
             OR (owner = ?8 AND epoch = ?9)) \
             RETURNING epoch",
            params![
                &plan,
                phase_text(claim),
                &owner,
                &claim.node,
                i64::from(claim.slots != Slots::Shared),
                now,
                expires_at,
                dead.map(|(owner, _)| owner.to_string()),
                dead.map_or(0, |(_, epoch)| epoch),
            ],
        )?;
        match won {
            Some(row) => Ok(RunClaimOutcome::Won(Lease {
                plan: claim.plan,
                owner: claim.owner,
                epoch: row.integer(0)?,
                expires_at,
            })),
            None => find_holder(self, claim.plan).map(RunClaimOutcome::Held),
        }
    }

    fn heartbeat(&mut self, lease: &Lease, extend: Duration) -> Result<Lease> {
        let expires_at = self.now()?.after(extend);
        // An expired lease can be renewed as long as no other owner claimed the run: the epoch
        // decides, not the expiry.
        let moved = self.execute(
            "UPDATE runs SET expires_at = ?4 WHERE plan_id = ?1 AND owner = ?2 AND epoch = ?3",
            params![
                lease.plan.to_string(),
                lease.owner.to_string(),
                lease.epoch,
                expires_at
            ],
        )?;
        check_lease_held(moved, lease.plan, lease.epoch)?;
        Ok(Lease {
            expires_at,
            ..lease.clone()
        })
    }

    fn release_run(&mut self, lease: &Lease) -> Result<()> {
        let released = self.execute(
            "UPDATE runs SET owner = NULL WHERE plan_id = ?1 AND owner = ?2 AND epoch = ?3",
            params![lease.plan.to_string(), lease.owner.to_string(), lease.epoch],
        )?;
        check_lease_held(released, lease.plan, lease.epoch)
    }

    fn fence(&mut self, lease: &Lease) -> Result<()> {
        // The shared row lock prevents a takeover until this transaction ends.
        let held = self.query(
            "SELECT epoch FROM runs WHERE plan_id = ?1 AND owner = ?2 AND epoch = ?3 FOR SHARE",
            params![lease.plan.to_string(), lease.owner.to_string(), lease.epoch],
        )?;
        check_lease_held(held.len() as u64, lease.plan, lease.epoch)
    }

    fn run_of(&mut self, plan: PlanId) -> Result<Option<Holder>> {
        let sql =
            format!("SELECT {HOLDER_COLUMNS} FROM runs WHERE plan_id = ?1 AND owner IS NOT NULL");
        let row = self.find(&sql, params![plan.to_string()])?;
        row.map(|row| holder_from_row(&row)).transpose()
    }

    fn run_for_update(&mut self, plan: PlanId) -> Result<Option<Holder>> {
        // A run that was never claimed is locked as well: the first claim waits for this row.
        self.execute(
            "INSERT INTO runs (plan_id, phase, owner, node, counts, epoch, claimed_at, expires_at) \
             VALUES (?1, ?2, NULL, '', 0, 0, 0, 0) ON CONFLICT (plan_id) DO NOTHING",
            params![plan.to_string(), Phase::Strategize.as_str()],
        )?;
        let sql = format!("SELECT {HOLDER_COLUMNS} FROM runs WHERE plan_id = ?1 FOR UPDATE");
        let row = self.find(&sql, params![plan.to_string()])?;
        let owned = row.filter(|row| !matches!(row.optional_text(2), Ok(None)));
        owned.map(|row| holder_from_row(&row)).transpose()
    }

    fn evict_run(&mut self, holder: &Holder) -> Result<()> {
        // The higher epoch fences off the evicted owner (law 5).
        let evicted = self.execute(
            "UPDATE runs SET owner = NULL, epoch = epoch + 1 \
             WHERE plan_id = ?1 AND owner = ?2 AND epoch = ?3",
            params![
                holder.plan.to_string(),
                holder.owner.to_string(),
                holder.epoch
            ],
        )?;
        check_lease_held(evicted, holder.plan, holder.epoch)
    }

    fn runs(&mut self) -> Result<Vec<Holder>> {
        let sql =
            format!("SELECT {HOLDER_COLUMNS} FROM runs WHERE owner IS NOT NULL ORDER BY plan_id");
        let rows = self.query(&sql, &[])?;
        rows.iter().map(holder_from_row).collect()
    }

    fn send_message(&mut self, message: &PlanMessage) -> Result<i64> {
        self.lock_plan_stream(message.plan_id)?;
        let id = message.id.to_string();
        let row = self.find(
            "INSERT INTO plan_messages (id, plan_id, sequence, kind, body, taken_at) \
             VALUES (?1, ?2, \
             (SELECT coalesce(max(sequence), 0) + 1 FROM plan_messages WHERE plan_id = ?2), \
             ?3, ?4, NULL) ON CONFLICT (id) DO NOTHING RETURNING sequence",
            params![
                &id,
                message.plan_id.to_string(),
                message.kind.as_str(),
                to_json_body(message)?,
            ],
        )?;
        match row {
            Some(row) => row.integer(0),
            None => Err(StoreError::Taken {
                key: UniqueKey::Id(Entity::Message),
                name: id,
                holder: "another message".to_owned(),
            }),
        }
    }

    fn take_messages(&mut self, plan: PlanId, kinds: &[MessageKind]) -> Result<Vec<PlanMessage>> {
        let plan = plan.to_string();
        let pending = pending_condition(kinds);
        // Transactions lock the messages in sequence order, so they cannot deadlock; the second one
        // finds them taken.
        let sql = format!("SELECT id FROM plan_messages {pending} ORDER BY sequence FOR UPDATE");
        self.query(&sql, params![&plan])?;
        let sql = format!(
            "UPDATE plan_messages SET taken_at = now_micros() {pending} \
             RETURNING body, sequence, taken_at"
        );
        let rows = self.query(&sql, params![&plan])?;
        let mut messages: Vec<PlanMessage> =
            rows.iter().map(message_from_row).collect::<Result<_>>()?;
        messages.sort_by_key(|message| message.sequence);
        Ok(messages)
    }

    fn pending_messages(&mut self, plan: PlanId, kinds: &[MessageKind]) -> Result<u64> {
        let sql = format!(
            "SELECT count(*) FROM plan_messages {}",
            pending_condition(kinds)
        );
        let row = self.find(&sql, params![plan.to_string()])?;
        row.map_or(Ok(0), |row| decode_count(&row, 0))
    }
}

/// Returns the runs that occupy this node's slots, if all slots are taken by owners that may be
/// alive.
fn find_slot_holders(
    session: &mut StoreSession<'_>,
    claim: &Claim,
    limit: u32,
    now: Timestamp,
) -> Result<Option<Vec<Holder>>> {
    // Claims of one node wait for its row, so two cannot both take the last slot.
    session.execute(
        "INSERT INTO nodes (node, claims) VALUES (?1, 1) \
         ON CONFLICT (node) DO UPDATE SET claims = nodes.claims + 1",
        params![&claim.node],
    )?;
    let sql = format!(
        "SELECT {HOLDER_COLUMNS} FROM runs WHERE node = ?1 AND owner IS NOT NULL AND counts = 1 \
         AND expires_at > ?2 AND plan_id <> ?3 ORDER BY plan_id"
    );
    let rows = session.query(&sql, params![&claim.node, now, claim.plan.to_string()])?;
    let mut running: Vec<Holder> = rows.iter().map(holder_from_row).collect::<Result<_>>()?;
    // An owner proven dead occupies no slot, even before its lease expires.
    running.retain(|run| !claim.dead_owners.contains(&(run.owner, run.epoch)));
    Ok((running.len() >= limit as usize).then_some(running))
}

/// Returns the current holder, if it is one of those proven dead. Its row stays locked until the
/// transaction ends, so the answer names the holder found here.
fn dead_holder(session: &mut StoreSession<'_>, claim: &Claim) -> Result<Option<(OwnerId, i64)>> {
    let holder = session.run_for_update(claim.plan)?;
    let found = holder.map(|holder| (holder.owner, holder.epoch));
    Ok(found.filter(|found| claim.dead_owners.contains(found)))
}

fn find_holder(session: &mut StoreSession<'_>, plan: PlanId) -> Result<Holder> {
    let sql = format!("SELECT {HOLDER_COLUMNS} FROM runs WHERE plan_id = ?1");
    let row = session.find(&sql, params![plan.to_string()])?;
    holder_from_row(&row.ok_or_else(|| StoreError::internal("a claimed run vanished"))?)
}

fn phase_text(claim: &Claim) -> String {
    claim.phase.to_string()
}

fn check_lease_held(rows: u64, plan: PlanId, epoch: i64) -> Result<()> {
    match rows {
        1 => Ok(()),
        _ => Err(StoreError::LeaseLost { plan, epoch }),
    }
}

fn holder_from_row(row: &SqlRow) -> Result<Holder> {
    Ok(Holder {
        plan: row.parsed(0)?,
        phase: row.parsed(1)?,
        owner: row.parsed(2)?,
        node: row.text(3)?,
        epoch: row.integer(4)?,
        claimed_at: row.time(5)?,
        expires_at: row.time(6)?,
    })
}

/// The SQL condition for a plan's untaken messages of these kinds. The kinds are constants of this
/// program, so they can be part of the text.
fn pending_condition(kinds: &[MessageKind]) -> String {
    let words: Vec<String> = kinds.iter().map(|kind| format!("'{kind}'")).collect();
    let words = if words.is_empty() {
        // `IN ()` is no valid SQL on PostgreSQL; NULL matches nothing.
        "NULL".to_owned()
    } else {
        words.join(", ")
    };
    format!("WHERE plan_id = ?1 AND taken_at IS NULL AND kind IN ({words})")
}

fn message_from_row(row: &SqlRow) -> Result<PlanMessage> {
    let mut message: PlanMessage = decode_entity(row, 0)?;
    message.sequence = row.integer(1)?;
    message.taken_at = Some(row.time(2)?);
    Ok(message)
}
