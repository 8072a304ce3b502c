//! Files below an open folder, reached so that no link can lead elsewhere.
//!
//! Whoever works in a tree that agents write needs the same few things: to go from folder to
//! folder by open descriptors, to know the names git keeps for itself, and to know what is
//! ignored. It is a crate of its own because adapters never see each other. It knows nothing of
//! sandboxes, tools or plans; its errors are the kernel's.
//!
//! Start reading at [`file_access`] (no link is followed), then [`resolve`] (links are followed as long
//! as they stay inside).

pub mod file_access;
pub mod ignore_rules;
pub mod owner;
pub mod refused_names;
pub mod resolve;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The path these bytes are.
pub fn path_from_bytes(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
