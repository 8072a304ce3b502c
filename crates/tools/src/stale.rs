//! Whether an actor may change a file: only as it knows it.
//!
//! A refusal shows the content as it is. It has then been seen, so the same call may be repeated
//! at once; what matters is that nothing is overwritten that nobody looked at.

use std::fs::File;

use cleveragents_domain::ResourcePath;
use cleveragents_engine::ports::tools::{Call, StaleWhy, Stamps, ToolFailure};

use crate::excerpt::{is_binary, whole_start};
use crate::place::Spot;
use crate::reading::{Digest, read_through};

/// The most of a content that a refusal shows.
const MOST_SHOWN: usize = 64 << 10;

/// That the file may be replaced as a whole; says what it holds.
pub(crate) fn may_replace(call: &Call<'_>, spot: &Spot) -> Result<Digest, ToolFailure> {
    let (digest, start) = look(call, spot)?;
    check(call, spot, &digest, &start, Stamps::may_replace)?;
    Ok(digest)
}

/// That the file may be changed in part or taken away; says what it holds if the actor knows it.
/// One the actor has never seen is not read.
pub(crate) fn may_change(call: &Call<'_>, spot: &Spot) -> Result<Option<Digest>, ToolFailure> {
    if !call.stamps.knows(&spot.path) {
        return Ok(None);
    }
    let (digest, start) = look(call, spot)?;
    check(call, spot, &digest, &start, Stamps::may_change)?;
    Ok(Some(digest))
}

/// The same for a file whose content is at hand.
pub(crate) fn may_change_content(
    call: &Call<'_>,
    spot: &Spot,
    content: &[u8],
    digest: &Digest,
) -> Result<(), ToolFailure> {
    let start = &content[..content.len().min(MOST_SHOWN)];
    check(call, spot, digest, start, Stamps::may_change)
}

fn look(call: &Call<'_>, spot: &Spot) -> Result<(Digest, Vec<u8>), ToolFailure> {
    let file: File = spot.open_file()?;
    let mut start = Vec::new();
    let digest = read_through(&file, &spot.path, call.stop, |piece| {
        let room = MOST_SHOWN - start.len();
        start.extend_from_slice(&piece[..piece.len().min(room)]);
        Ok(())
    })?;
    Ok((digest, start))
}

fn check(
    call: &Call<'_>,
    spot: &Spot,
    digest: &Digest,
    start: &[u8],
    rule: impl FnOnce(&Stamps, &ResourcePath, &str) -> Result<(), StaleWhy>,
) -> Result<(), ToolFailure> {
    rule(call.stamps, &spot.path, &digest.hash).map_err(|why| {
        call.stamps.stamp(&spot.path, &digest.hash);
        ToolFailure::Stale {
            path: spot.path.clone(),
            why,
            content: shown(start, digest),
            hash: digest.hash.clone(),
        }
    })
}

fn shown(start: &[u8], digest: &Digest) -> String {
    if is_binary(start) {
        return format!("[binary content, {} bytes]", digest.size);
    }
    let left_out = digest.size.saturating_sub(start.len() as u64);
    match left_out {
        0 => String::from_utf8_lossy(start).into_owned(),
        _ => {
            let start = String::from_utf8_lossy(whole_start(start)).into_owned();
            format!("{start}\n[… {left_out} bytes left out …]")
        }
    }
}
