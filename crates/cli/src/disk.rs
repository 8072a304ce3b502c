//! Disk usage and free space.

use std::io;
use std::path::Path;

pub use cleveragents_app::text::format_size;

/// Returns the bytes of a file, or of all files below a folder; 0 if the path does not exist.
pub fn disk_usage(path: &Path) -> u64 {
    let Ok(facts) = path.symlink_metadata() else {
        return 0;
    };
    if !facts.is_dir() {
        return facts.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| disk_usage(&entry.path())).sum()
}

/// Returns how many bytes an unprivileged user can still write to the file system of `path`.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let facts = rustix::fs::statvfs(path)?;
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_summed_and_missing_ones_are_empty() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        for name in ["one", "in/two"] {
            let path = folder.path().join(name);
            crate::files::replace(&path, b"12345", crate::files::Privacy::Private).unwrap();
        }
        assert_eq!(disk_usage(folder.path()), 10);
        assert_eq!(disk_usage(&folder.path().join("none")), 0);
        assert!(free_space(folder.path()).unwrap() > 0);
    }
}
