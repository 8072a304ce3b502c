//! Store operations on named locks. Acquiring is one statement: of several owners that find a lock
//! expired, exactly one takes it over.

use std::time::Duration;

use cleveragents_domain::id::OwnerId;
use cleveragents_ports::locks::NAME_MAXIMUM;
use cleveragents_ports::{
    LockGrant, LockRecords, LockRequest, LockRow, Result, StoreError, Transaction,
};

use super::StoreSession;
use crate::value::{SqlRow, params};

impl LockRecords for StoreSession<'_> {
    fn acquire_lock(&mut self, request: &LockRequest) -> Result<LockGrant> {
        let length = request.name.len();
        if length > NAME_MAXIMUM {
            return Err(StoreError::LockNameTooLong {
                length,
                maximum: NAME_MAXIMUM,
            });
        }
        let now = self.now()?;
        let owner = request.owner.to_string();
        let dead = request.dead_holder.map(|(owner, _)| owner.to_string());
        // The lock is re-entrant: the owner of an unexpired lock acquires it once more. Anything
        // else is a new holder.
        // A shorter inner acquisition must not shorten the lifetime of the outer one.
        let granted = self.find(
            "INSERT INTO locks (name, owner, node, epoch, holds, acquired_at, expires_at) \
             VALUES (?1, ?2, ?5, 1, 1, ?3, ?4) \
             ON CONFLICT (name) DO UPDATE SET \
             epoch = CASE WHEN locks.owner = ?2 AND locks.expires_at > ?3 \
                 THEN locks.epoch ELSE locks.epoch + 1 END, \
             holds = CASE WHEN locks.owner = ?2 AND locks.expires_at > ?3 \
                 THEN locks.holds + 1 ELSE 1 END, \
             acquired_at = CASE WHEN locks.owner = ?2 AND locks.expires_at > ?3 \
                 THEN locks.acquired_at ELSE ?3 END, \
             expires_at = CASE WHEN locks.owner = ?2 AND locks.expires_at > ?4 \
                 THEN locks.expires_at ELSE ?4 END, \
             owner = ?2, node = ?5 \
             WHERE locks.owner IS NULL OR locks.owner = ?2 OR locks.expires_at <= ?3 \
             OR (locks.owner = ?6 AND locks.epoch = ?7) \
             RETURNING epoch, holds, expires_at",
            params![
                &request.name,
                &owner,
                now,
                now.after(request.ttl),
                &request.node,
                dead,
                request.dead_holder.map_or(0, |(_, epoch)| epoch),
            ],
        )?;
        let Some(row) = granted else {
            return Err(lock_held_error(self, &request.name)?);
        };
        Ok(LockGrant {
            name: request.name.clone(),
            owner: request.owner,
            epoch: row.integer(0)?,
            holds: row.integer(1)?,
            expires_at: row.time(2)?,
        })
    }

    fn renew_lock(&mut self, grant: &LockGrant, ttl: Duration) -> Result<LockGrant> {
        let now = self.now()?;
        let expires_at = now.after(ttl);
        let row = self.find(
            "UPDATE locks SET expires_at = ?4 \
             WHERE name = ?1 AND owner = ?2 AND epoch = ?3 AND expires_at > ?5 RETURNING holds",
            params![
                &grant.name,
                grant.owner.to_string(),
                grant.epoch,
                expires_at,
                now
            ],
        )?;
        let holds = row.ok_or_else(|| lock_lost_error(grant))?.integer(0)?;
        Ok(LockGrant {
            holds,
            expires_at,
            ..grant.clone()
        })
    }

    fn release_lock(&mut self, grant: &LockGrant) -> Result<()> {
        let released = self.execute(
            "UPDATE locks SET holds = holds - 1, \
             owner = CASE WHEN holds > 1 THEN owner ELSE NULL END \
             WHERE name = ?1 AND owner = ?2 AND epoch = ?3",
            params![&grant.name, grant.owner.to_string(), grant.epoch],
        )?;
        check_lock_held(released, grant)
    }

    fn release_all_for_owner(&mut self, owner: OwnerId) -> Result<u64> {
        self.execute(
            "UPDATE locks SET owner = NULL, holds = 0 WHERE owner = ?1",
            params![owner.to_string()],
        )
    }

    fn fence_lock(&mut self, grant: &LockGrant) -> Result<()> {
        // The shared row lock prevents a takeover until this transaction ends. An expired lock
        // still passes if no other owner took it, because its epoch is the newest.
        let held = self.query(
            "SELECT epoch FROM locks WHERE name = ?1 AND owner = ?2 AND epoch = ?3 FOR SHARE",
            params![&grant.name, grant.owner.to_string(), grant.epoch],
        )?;
        check_lock_held(held.len() as u64, grant)
    }

    fn locks(&mut self) -> Result<Vec<LockRow>> {
        let rows = self.query(
            "SELECT name, owner, node, epoch, acquired_at, expires_at FROM locks \
             WHERE owner IS NOT NULL ORDER BY name",
            &[],
        )?;
        rows.iter().map(lock_from_row).collect()
    }
}

fn lock_held_error(session: &mut StoreSession<'_>, name: &str) -> Result<StoreError> {
    let row = session.find(
        "SELECT owner, node, epoch, expires_at FROM locks WHERE name = ?1",
        params![name],
    )?;
    let row = row.ok_or_else(|| StoreError::internal("a held lock vanished"))?;
    Ok(StoreError::LockHeld {
        name: name.to_owned(),
        owner: row.parsed(0)?,
        node: row.text(1)?,
        epoch: row.integer(2)?,
        expires_at: row.time(3)?,
    })
}

fn check_lock_held(rows: u64, grant: &LockGrant) -> Result<()> {
    if rows == 1 {
        Ok(())
    } else {
        Err(lock_lost_error(grant))
    }
}

fn lock_lost_error(grant: &LockGrant) -> StoreError {
    StoreError::LockLost {
        name: grant.name.clone(),
        owner: grant.owner,
        epoch: grant.epoch,
    }
}

fn lock_from_row(row: &SqlRow) -> Result<LockRow> {
    Ok(LockRow {
        name: row.text(0)?,
        owner: row.parsed(1)?,
        node: row.text(2)?,
        epoch: row.integer(3)?,
        acquired_at: row.time(4)?,
        expires_at: row.time(5)?,
    })
}
