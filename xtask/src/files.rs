//! The one place that writes files: whole, beside, then renamed.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

/// Puts `text` at `path`, making the folders above it.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let told = || format!("cannot write {}", path.display());
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(told)?;
    let mut beside = tempfile::NamedTempFile::new_in(folder).with_context(told)?;
    beside.write_all(text.as_bytes()).with_context(told)?;
    let readable = fs::Permissions::from_mode(0o644);
    beside
        .as_file()
        .set_permissions(readable)
        .with_context(told)?;
    beside.persist(path).with_context(told)?;
    Ok(())
}

/// Puts an executable script at `path`.
pub fn write_script(path: &Path, text: &str) -> Result<()> {
    write(path, text)?;
    set_mode(path, 0o755)
}

/// Sets the permission bits of `path`.
pub fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}

/// The text of a file, with its name in the error.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Removes a folder with all in it; one that is not there is fine.
pub fn remove_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
