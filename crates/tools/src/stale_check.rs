//! Checks that an actor may change a file: only if it knows the current content.
//!
//! A refusal shows the current content. The actor has then seen it, so it may repeat the same call at
//! once; the rule only prevents overwriting content that the actor has not seen.

use std::fs::File;

use cleveragents_domain::ResourcePath;
use cleveragents_ports::tools::{FileStamps, StaleReason, ToolFailure, ToolInvocation};

use crate::excerpt::{is_binary, trim_partial_end};
use crate::file_content::{Digest, read_chunks};
use crate::paths::TreePath;

/// Maximum bytes of content that a refusal shows.
const MAX_SHOWN: usize = 64 << 10;

/// Fails unless the file may be replaced as a whole. Returns its current hash and size.
pub(crate) fn check_replace(
    call: &ToolInvocation<'_>,
    target: &TreePath,
) -> Result<Digest, ToolFailure> {
    let (digest, start) = read_start(call, target)?;
    check_stamp(call, target, &digest, &start, FileStamps::check_replace)?;
    Ok(digest)
}

/// Fails unless the file may be partly changed or removed. Returns its hash and size if the actor
/// knows it. A file that the actor has never seen is not read.
pub(crate) fn check_change(
    call: &ToolInvocation<'_>,
    target: &TreePath,
) -> Result<Option<Digest>, ToolFailure> {
    // Without a stamp nothing can be stale, so reading a large file would be wasted work.
    if !call.stamps.has_stamp(&target.path) {
        return Ok(None);
    }
    let (digest, start) = read_start(call, target)?;
    check_stamp(call, target, &digest, &start, FileStamps::check_change)?;
    Ok(Some(digest))
}

/// Like [`check_change`], for a file whose content is already loaded.
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
        // The refusal contains the content, so the actor knows it from now on.
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
