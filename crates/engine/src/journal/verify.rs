//! Verifies a stream of the journal on one snapshot.

use cleveragents_domain::{ChainFault, StreamId};
use cleveragents_ports::journal_verification::{Verification, verify_stream};
use cleveragents_ports::{Result, StoreHandle};

/// Verifies `stream` on one snapshot. With `expect`, its head must have that hash, which detects a
/// truncated stream.
pub async fn verify(
    store: &StoreHandle,
    stream: StreamId,
    expect: Option<String>,
) -> Result<Result<Verification, ChainFault>> {
    store
        .read(move |tx| {
            let walked = verify_stream(tx, stream)?;
            Ok(walked.and_then(|found| match &expect {
                Some(expected) if *expected != found.head_hash => Err(ChainFault::NotExpected {
                    stream,
                    expected: expected.clone(),
                    found: found.head_hash,
                }),
                _ => Ok(found),
            }))
        })
        .await
}
