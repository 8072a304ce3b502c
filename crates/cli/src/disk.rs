//! Disk usage and free space.

use std::io;
use std::path::Path;

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

/// Formats a size as `512 B`, `1.5 KiB` or `20 GiB`.
pub fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Integer tenths of the unit: rounds down, so a size never reaches the next unit by rounding.
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10 * 1024 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    if tenths < 100 {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    } else {
        format!("{} {}", tenths / 10, UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_the_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (10 * 1024, "10 KiB"),
            (1024 * 1024 - 1, "1023 KiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16383 PiB"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }

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
