//! Safe access to files below an open folder: no symbolic link can lead outside it.
//!
//! Sandbox and tools both work in trees that agents write. They share this crate because adapters
//! must not depend on each other. It knows nothing of sandboxes, tools or plans, and its errors are
//! the kernel's. Start reading at [`file_access`] (follows no links), then [`resolve`] (follows links
//! that stay inside).

pub mod file_access;
pub mod ignore_rules;
pub mod owner;
pub mod refused_names;
pub mod resolve;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub fn path_from_bytes(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
