//! Reads content in chunks: hashed, bounded, and interruptible by the stop signal.

use std::fs::File;
use std::io::{ErrorKind, Read};

use cleveragents_domain::ResourcePath;
use cleveragents_ports::StopSignal;
use cleveragents_ports::tools::ToolFailure;

use crate::builtin::{failed, stopped};

/// Number of bytes read at once.
const CHUNK_SIZE: usize = 64 << 10;

/// Hash and size of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digest {
    /// BLAKE3, in hexadecimal.
    pub(crate) hash: String,
    pub(crate) size: u64,
}

pub(crate) fn digest_content(content: &[u8]) -> Digest {
    Digest {
        hash: blake3::hash(content).to_hex().to_string(),
        size: content.len() as u64,
    }
}

/// Reads a file to its end in chunks.
pub(crate) fn read_chunks(
    mut file: &File,
    path: &ResourcePath,
    stop: &StopSignal,
    mut on_chunk: impl FnMut(&[u8]) -> Result<(), ToolFailure>,
) -> Result<Digest, ToolFailure> {
    let mut hasher = blake3::Hasher::new();
    let mut size = 0;
    let mut chunk = vec![0; CHUNK_SIZE];
    loop {
        stop.check().map_err(stopped)?;
        let length = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(format!("{path} cannot be read: {error}"))),
        };
        hasher.update(&chunk[..length]);
        size += length as u64;
        on_chunk(&chunk[..length])?;
    }
    let hash = hasher.finalize().to_hex().to_string();
    Ok(Digest { hash, size })
}

/// Returns the whole content, if it is not longer than `most`.
pub(crate) fn read_whole(
    file: &File,
    path: &ResourcePath,
    stop: &StopSignal,
    most: usize,
) -> Result<(Vec<u8>, Digest), ToolFailure> {
    let mut content = Vec::new();
    let digest = read_chunks(file, path, stop, |piece| {
        content.extend_from_slice(piece);
        // Checked while reading, because the file may grow meanwhile.
        if content.len() > most {
            Err(failed(format!(
                "{path} is larger than {} MiB, which is more than can be edited: use builtin/shell",
                most >> 20
            )))
        } else {
            Ok(())
        }
    })?;
    Ok((content, digest))
}
