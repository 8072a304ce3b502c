//! Operation ids: a repeated write is executed once (law 12).

use cleveragents_ports::store::{StoreJobError, WriteJob};
use cleveragents_ports::{Result, StoreError, StoreOperation};

use super::StoreSession;
use crate::value::params;

/// Runs `job` unless this operation was done before, and returns its first result.
///
/// The id is reserved before the job runs: a second transaction with the same id waits here until
/// the first has committed or rolled back.
pub(crate) fn run_once(
    session: &mut StoreSession<'_>,
    operation: StoreOperation,
    job: &WriteJob,
) -> Result<String, StoreJobError> {
    let Some(id) = operation.id.map(|id| id.to_string()) else {
        return job(session);
    };
    let reserved = session
        .execute(
            "INSERT INTO operations (id, label, at) VALUES (?1, ?2, now_micros()) \
             ON CONFLICT (id) DO NOTHING",
            params![&id, operation.label],
        )
        .map_err(StoreJobError::Store)?;
    if reserved == 0 {
        return first_result(session, operation, &id).map_err(StoreJobError::Store);
    }
    let result = job(session)?;
    // A closure may have swallowed the error of a statement; its work must not be committed.
    if let Some(failure) = session.failure() {
        return Err(StoreJobError::Store(failure.clone()));
    }
    session
        .execute(
            "UPDATE operations SET result = ?2 WHERE id = ?1",
            params![&id, &result],
        )
        .map_err(StoreJobError::Store)?;
    Ok(result)
}

fn first_result(
    session: &mut StoreSession<'_>,
    operation: StoreOperation,
    id: &str,
) -> Result<String> {
    let row = session
        .find(
            "SELECT label, result FROM operations WHERE id = ?1",
            params![id],
        )?
        .ok_or_else(|| StoreError::internal("an operation vanished while it was looked up"))?;
    let first = row.text(0)?;
    if first != operation.label {
        return Err(StoreError::OperationReused {
            id: id.to_owned(),
            first,
            second: operation.label.to_owned(),
        });
    }
    row.text(1)
}
