//! Whether an actor may change a file: only as it knows it.
//!
//! A refusal shows the content as it is. It has then been seen, so the same call may be repeated
//! at once; what matters is that nothing is overwritten that nobody looked at.

use std::fs::File;

use cleveragents_domain::ResourcePath;
use cleveragents_engine::ports::tools::{FileStamps, StaleReason, ToolFailure, ToolInvocation};

use crate::excerpt::{is_binary, trim_partial_end};
use crate::file_content::{Digest, read_chunks};
use crate::paths::TreePath;

/// The most of a content that a refusal shows.
const MAX_SHOWN: usize = 64 << 10;

/// That the file may be replaced as a whole; says what it holds.
pub(crate) fn check_replace(
    call: &ToolInvocation<'_>,
    target: &TreePath,
) -> Result<Digest, ToolFailure> {
    let (digest, start) = read_start(call, target)?;
    check_stamp(call, target, &digest, &start, FileStamps::check_replace)?;
    Ok(digest)
}

/// That the file may be changed in part or taken away; says what it holds if the actor knows it.
/// One the actor has never seen is not read.
pub(crate) fn check_change(
    call: &ToolInvocation<'_>,
    target: &TreePath,
) -> Result<Option<Digest>, ToolFailure> {
    if !call.stamps.has_stamp(&target.path) {
        return Ok(None);
    }
    let (digest, start) = read_start(call, target)?;
    check_stamp(call, target, &digest, &start, FileStamps::check_change)?;
    Ok(Some(digest))
}

/// The same for a file whose content is at hand.
pub(crate) fn check_content_change(
    call: &ToolInvocation<'_>,
    target: &TreePath,
    content: &[u8],
    digest: &Digest,
) -> Result<(), ToolFailure> {
    let start = &content[..content.len().min(MAX_SHOWN)];
    check_stamp(call, target, digest, start, FileStamps::check_change)
}

fn read_start(
    call: &ToolInvocation<'_>,
    target: &TreePath,
) -> Result<(Digest, Vec<u8>), ToolFailure> {
    let file: File = target.open_file()?;
    let mut start = Vec::new();
    let digest = read_chunks(&file, &target.path, call.stop, |piece| {
        let room = MAX_SHOWN - start.len();
        start.extend_from_slice(&piece[..piece.len().min(room)]);
        Ok(())
    })?;
    Ok((digest, start))
}

fn check_stamp(
    call: &ToolInvocation<'_>,
    target: &TreePath,
    digest: &Digest,
    start: &[u8],
    rule: impl FnOnce(&FileStamps, &ResourcePath, &str) -> Result<(), StaleReason>,
) -> Result<(), ToolFailure> {
    rule(call.stamps, &target.path, &digest.hash).map_err(|why| {
        call.stamps.stamp(&target.path, &digest.hash);
        ToolFailure::Stale {
            path: target.path.clone(),
            why,
            content: preview(start, digest),
            hash: digest.hash.clone(),
        }
    })
}

fn preview(start: &[u8], digest: &Digest) -> String {
    if is_binary(start) {
        return format!("[binary content, {} bytes]", digest.size);
    }
    let left_out = digest.size.saturating_sub(start.len() as u64);
    match left_out {
        0 => String::from_utf8_lossy(start).into_owned(),
        _ => {
            let start = String::from_utf8_lossy(trim_partial_end(start)).into_owned();
            format!("{start}\n[… {left_out} bytes left out …]")
        }
    }
}
