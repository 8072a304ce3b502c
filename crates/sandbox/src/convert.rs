//! Files that git stores in another form than the tree contains: line endings, `$Id$`, encodings.
//!
//! Only the base's attributes and the user's settings decide which files these are, never a file that
//! an agent wrote. Git itself converts, so the result is what the user's git would have stored.

use std::io::Read;
use std::os::fd::BorrowedFd;

use cleveragents_ports::sandbox::SandboxResult;

use crate::attributes::{Attributes, AutoCrlf, LineEnds};
use crate::blobs::{self, StoredBlob};
use crate::entries::{Content, LINK, TreeEntry};
use crate::files::{io_error, path_from_bytes};
use crate::object_id::ObjectId;
use crate::sandbox::LocalSandbox;
use crate::stop_reader::StoppableReader;

/// Settings that decide the form in which git stores a file.
#[derive(Clone, Copy)]
pub(crate) struct ConversionRules<'a> {
    pub(crate) attributes: &'a Attributes,
    pub(crate) autocrlf: AutoCrlf,
}

/// Stores a file of the tree in git's form. Returns `None` if both forms are the same.
pub(crate) fn to_git(
    sandbox: &LocalSandbox,
    root: BorrowedFd<'_>,
    path: &[u8],
    known: Option<&TreeEntry>,
    rules: ConversionRules<'_>,
) -> SandboxResult<Option<StoredBlob>> {
    let ConversionRules {
        attributes,
        autocrlf,
    } = rules;
    let line_ends = attributes.line_ends(autocrlf);
    let rewrites = attributes.rewrites_text();
    let is_plain = line_ends == LineEnds::Kept && !rewrites;
    if is_plain || attributes.filter().is_some() {
        return Ok(None);
    }
    let (file, stat) = blobs::open(root, path)?;
    let stop = &sandbox.store.stop;
    let mut bytes = Vec::new();
    let read = StoppableReader { from: file, stop }.read_to_end(&mut bytes);
    sandbox.store.check_stop()?;
    read.map_err(io_error(path_from_bytes(path)))?;
    let has_crlf = bytes.windows(2).any(|pair| pair == b"\r\n");
    if !has_crlf && !rewrites {
        return Ok(None);
    }
    let known = known.filter(|entry| entry.mode != LINK);
    let object = match known {
        Some(entry) if from_git(sandbox, path, entry.object)? == bytes => entry.object,
        // As in git, a file stored with CRLF is not normalised when text is only guessed.
        Some(entry)
            if line_ends == LineEnds::Guessed
                && !rewrites
                && sandbox
                    .store
                    .blob(entry.object)?
                    .windows(2)
                    .any(|pair| pair == b"\r\n") =>
        {
            return Ok(None);
        }
        _ => blobs::store_converted(&sandbox.store, path, &bytes)?,
    };
    Ok(Some(StoredBlob {
        object,
        content: hash_content(&bytes),
        stat: Some(stat),
    }))
}

/// Returns whether git may give a file with these attributes another form in the tree.
pub(crate) fn may_convert(attributes: &Attributes, autocrlf: AutoCrlf) -> bool {
    let kept = attributes.line_ends(autocrlf) == LineEnds::Kept;
    attributes.filter().is_none() && (!kept || attributes.rewrites_text())
}

/// Returns a stored blob in the form that the tree has.
pub(crate) fn from_git(
    sandbox: &LocalSandbox,
    path: &[u8],
    object: ObjectId,
) -> SandboxResult<Vec<u8>> {
    let mut option = b"--path=".to_vec();
    option.extend_from_slice(path);
    let call = sandbox.store.call(["cat-file", "--filters"]);
    call.argument(path_from_bytes(&option))
        .argument(object.to_string())
        .run()
}

pub(crate) fn hash_content(bytes: &[u8]) -> Content {
    Content {
        hash: *blake3::hash(bytes).as_bytes(),
        size: bytes.len() as u64,
    }
}
