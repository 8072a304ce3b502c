//! The only module that writes files, atomically: to a temporary file, then renamed.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes `text` to `path`, creating parent folders.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let message = || format!("cannot write {}", path.display());
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(message)?;
    let mut beside = tempfile::NamedTempFile::new_in(folder).with_context(message)?;
    beside.write_all(text.as_bytes()).with_context(message)?;
    let readable = fs::Permissions::from_mode(0o644);
    beside
        .as_file()
        .set_permissions(readable)
        .with_context(message)?;
    beside.persist(path).with_context(message)?;
    Ok(())
}

/// Writes an executable script to `path`.
pub fn write_script(path: &Path, text: &str) -> Result<()> {
    write(path, text)?;
    set_mode(path, 0o755)
}

/// Sets the permission bits of `path`.
pub fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}

/// Reads a file; the error names it.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Removes a folder recursively; succeeds if it does not exist.
pub fn remove_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
